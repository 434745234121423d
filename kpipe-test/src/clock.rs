//! The clock of a test: KPipe's own waits pass in no time, what handlers do takes as long as it takes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kpipe_core::source::Time;
use parking_lot::Mutex;
use tokio::time::Instant;

/// tokio's time plus what was skipped. Under a paused runtime it so follows the handlers' own sleeps.
///
/// Nothing that waits for it is known to tokio: a paused runtime that is idle because a handler waits
/// for a socket would jump to it, and end the attempt by a deadline that is minutes away.
#[derive(Debug, Default)]
pub(crate) struct KitClock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    skipped: Duration,
    next_id: u64,
    /// Who waits for when. An entry goes when its alarm does.
    waiting: BTreeMap<(Instant, u64), Option<Waker>>,
}

impl State {
    fn now(&self) -> Instant {
        Instant::now() + self.skipped
    }
}

impl KitClock {
    pub(crate) fn now(&self) -> Instant {
        self.state.lock().now()
    }

    /// When the first of those that wait is due that is due at `from` or later.
    pub(crate) fn first_due(&self, from: Option<Instant>) -> Option<Instant> {
        let state = self.state.lock();
        let mut due = state.waiting.keys().map(|(at, _)| *at);
        due.find(|at| from.is_none_or(|from| *at >= from))
    }

    /// Moves to `at`, unless it is later already, and wakes whoever is due.
    pub(crate) fn skip_to(&self, at: Instant) {
        let mut state = self.state.lock();
        let now = state.now();
        state.skipped += at.saturating_duration_since(now);
        drop(state);
        self.wake_due();
    }

    /// Wakes whoever became due by time that passed of itself.
    pub(crate) fn wake_due(&self) {
        let due: Vec<Waker> = {
            let mut state = self.state.lock();
            let now = state.now();
            let due = state.waiting.range_mut(..=(now, u64::MAX));
            due.filter_map(|(_, waker)| waker.take()).collect()
        };
        due.into_iter().for_each(Waker::wake);
    }
}

/// A clock as the runtime and the broker see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedClock(pub(crate) Arc<KitClock>);

impl Time for SharedClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Alarm { clock: self.0.clone(), at, id: None }.boxed()
    }
}

struct Alarm {
    clock: Arc<KitClock>,
    at: Instant,
    id: Option<u64>,
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut state = clock.state.lock();
        if state.now() >= self.at {
            return Poll::Ready(());
        }
        let id = *self.id.get_or_insert_with(|| {
            state.next_id += 1;
            state.next_id
        });
        state.waiting.insert((self.at, id), Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.clock.state.lock().waiting.remove(&(self.at, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_on_when_the_clock_is_moved_and_not_by_tokios_time_alone() {
        let clock = SharedClock::default();
        let begun = clock.now();
        let waiter = tokio::spawn(clock.sleep_until(begun + 300 * SECOND));
        tokio::task::yield_now().await;
        assert_eq!(clock.0.first_due(None), Some(begun + 300 * SECOND));
        tokio::time::sleep(10 * SECOND).await;
        assert!(!waiter.is_finished());
        clock.0.skip_to(begun + 300 * SECOND);
        waiter.await.unwrap();
        assert_eq!(clock.now() - begun, 300 * SECOND);
        assert_eq!(clock.0.first_due(None), None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_passes_in_a_handler_counts() {
        let clock = SharedClock::default();
        let waiter = tokio::spawn(clock.sleep_until(clock.now() + 5 * SECOND));
        tokio::time::sleep(6 * SECOND).await;
        clock.0.wake_due();
        waiter.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_leaves_nothing() {
        let clock = SharedClock::default();
        let begun = clock.now();
        let given_up = clock.sleep_until(begun + SECOND);
        let mut later = clock.sleep_until(begun + 2 * SECOND);
        assert!((&mut later).now_or_never().is_none());
        drop(given_up);
        assert_eq!(clock.0.first_due(None), Some(begun + 2 * SECOND));
        assert_eq!(clock.0.first_due(Some(begun + 3 * SECOND)), None);
        drop(later);
        assert_eq!(clock.0.first_due(None), None);
    }
}
