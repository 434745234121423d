//! How an intake is woken, by an arrival, by the budget or to stop, and the control loop at a drain's
//! end or when an intake is gone.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;

/// Reasons that accumulate until the one waiter takes them all. A reason raised before, during or
/// after the waiter looks is never lost (R15): reasons and waker lie under one lock.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    reasons: Reasons,
    waker: Option<Waker>,
}

/// A set of reasons to wake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons(u8);

impl Reasons {
    /// Records arrived in the partition's queue.
    pub(crate) const ARRIVAL: Self = Self(1);
    /// The budget or the partition's window has room again.
    pub(crate) const ROOM: Self = Self(2);
    /// The intake is to end; the consumer is to shut down.
    pub(crate) const STOP: Self = Self(4);
    /// The last attempt of a partition that drains has ended.
    pub(crate) const DRAINED: Self = Self(8);
    /// An intake ended that nobody had told to.
    pub(crate) const INTAKE_LOST: Self = Self(16);

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Signal {
    /// Adds a reason and wakes the waiter. Short enough for librdkafka's own threads, which call it
    /// under a queue's lock.
    pub(crate) fn raise(&self, reason: Reasons) {
        let waker = {
            let mut state = self.state.lock();
            state.reasons.0 |= reason.0;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes every reason raised since the last call, or leaves the waker where the next one finds
    /// it.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Reasons> {
        let mut state = self.state.lock();
        if !state.reasons.is_empty() {
            return Poll::Ready(std::mem::take(&mut state.reasons));
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
