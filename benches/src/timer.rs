//! A timer for waits that tokio's millisecond tick would stretch: one thread, which sleeps until the
//! earliest deadline and wakes whoever is due.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// A handle to the thread; it lives as long as the process.
pub(crate) struct Timer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<BinaryHeap<Waiting>>,
    earlier: Condvar,
}

struct Waiting {
    deadline: Instant,
    waker: Waker,
}

impl Timer {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        thread::spawn({
            let shared = shared.clone();
            move || shared.run()
        });
        Self { shared }
    }

    /// Ends `time` after it was first polled.
    pub(crate) fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        Sleep { shared: &self.shared, time, deadline: None }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timer")
    }
}

impl Shared {
    fn run(&self) {
        be_exact();
        let mut due = Vec::new();
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            while waiting.peek().is_some_and(|first| first.deadline <= now) {
                due.extend(waiting.pop().map(|first| first.waker));
            }
            if !due.is_empty() {
                drop(waiting);
                due.drain(..).for_each(Waker::wake);
                waiting = self.lock();
                continue;
            }
            waiting = match waiting.peek() {
                None => self.earlier.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(first) => {
                    let time = first.deadline - now;
                    self.earlier
                        .wait_timeout(waiting, time)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Sleep<'a> {
    shared: &'a Shared,
    time: Duration,
    deadline: Option<Instant>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let time = self.time;
        let deadline = *self.deadline.get_or_insert(now + time);
        if deadline <= now {
            return Poll::Ready(());
        }
        // A second poll may bring another waker (the future has moved to another task): it gets an
        // entry of its own, and the old one wakes somebody who does not mind.
        let mut waiting = self.shared.lock();
        let first = waiting.peek().is_none_or(|first| deadline < first.deadline);
        waiting.push(Waiting { deadline, waker: cx.waker().clone() });
        drop(waiting);
        if first {
            self.shared.earlier.notify_one();
        }
        Poll::Pending
    }
}

// The heap gives its largest: the earliest deadline.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        other.deadline.cmp(&self.deadline)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Waiting {}

/// Linux lets a thread's sleep end up to 50 us late unless told otherwise.
fn be_exact() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_timerslack(1_000) {
        eprintln!("the timer's slack stays at its default: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_in_the_order_of_their_deadlines_and_never_early() {
        let timer = Timer::start();
        let started = Instant::now();
        let ended = Mutex::new(Vec::new());
        let wait = async |us| {
            timer.sleep(Duration::from_micros(us)).await;
            assert!(started.elapsed() >= Duration::from_micros(us));
            ended.lock().unwrap().push(us);
        };
        tokio::join!(wait(3_000), wait(20), wait(40_000));
        assert_eq!(*ended.lock().unwrap(), [20, 3_000, 40_000]);
    }
}
