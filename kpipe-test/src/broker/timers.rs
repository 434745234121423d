//! What is to happen at a time. Nothing runs by itself: whoever calls the broker makes everything
//! happen that is due, and members that wait for an event wait for the next time too.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::member::MemberId;

/// What comes due.
#[derive(Debug)]
pub(super) enum Timer {
    /// A member hears what the group has to say to it.
    Heartbeat(MemberId),
    /// The group stops waiting for a member to give back what it asked for.
    Deadline(MemberId),
    /// A member was out of reach for a whole session.
    Session(MemberId),
    /// A member whose close takes its time leaves.
    Leave(MemberId),
    /// Something may be in reach again.
    Back,
    /// A new group stops waiting for further members.
    FirstRebalance(usize),
    /// A commit arrives.
    Commit(u64),
    /// A record arrives.
    Write(u64),
}

/// Names a timer so that it can be taken back.
pub(super) type TimerKey = (Instant, u64);

#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<TimerKey, Timer>,
    made: u64,
}

impl Timers {
    /// The key, and whether this one is now the first.
    pub(super) fn add(&mut self, at: Instant, timer: Timer) -> (TimerKey, bool) {
        let first = self.first().is_none_or(|first| at < first);
        self.made += 1;
        let key = (at, self.made);
        self.due.insert(key, timer);
        (key, first)
    }

    pub(super) fn cancel(&mut self, key: TimerKey) {
        self.due.remove(&key);
    }

    /// When the next is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// The next that is due by now.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((at, _), timer) = entry.remove_entry();
        Some((at, timer))
    }
}
