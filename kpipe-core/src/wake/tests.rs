use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::{Reasons, Signal};

/// How often it was woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counter {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn poll(signal: &Signal, counter: &Arc<Counter>) -> Poll<Reasons> {
    signal.poll_take(&mut Context::from_waker(&Waker::from(counter.clone())))
}

#[test]
fn without_a_reason_the_waiter_waits() {
    let (signal, counter) = (Signal::default(), Arc::<Counter>::default());
    assert_eq!(poll(&signal, &counter), Poll::Pending);
    assert_eq!(poll(&signal, &counter), Poll::Pending);
    assert_eq!(counter.take(), 0);
}

#[test]
fn reasons_add_up_until_they_are_taken_together() {
    let (signal, counter) = (Signal::default(), Arc::<Counter>::default());
    signal.raise(Reasons::STOP);
    signal.raise(Reasons::ROOM);
    signal.raise(Reasons::ROOM);
    let Poll::Ready(reasons) = poll(&signal, &counter) else { panic!("two were raised") };
    assert!(reasons.contains(Reasons::STOP) && reasons.contains(Reasons::ROOM));
    assert!(!reasons.contains(Reasons::ARRIVAL) && !reasons.contains(Reasons::DRAINED));
    assert_eq!(poll(&signal, &counter), Poll::Pending, "taken");
}

#[test]
fn the_last_waiter_is_woken_once() {
    let signal = Signal::default();
    let (before, last) = (Arc::<Counter>::default(), Arc::<Counter>::default());
    assert_eq!(poll(&signal, &before), Poll::Pending);
    assert_eq!(poll(&signal, &last), Poll::Pending);
    signal.raise(Reasons::ARRIVAL);
    signal.raise(Reasons::ARRIVAL);
    assert_eq!((before.take(), last.take()), (0, 1));
    assert_eq!(poll(&signal, &last), Poll::Ready(Reasons::ARRIVAL));
}
