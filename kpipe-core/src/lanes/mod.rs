//! The lanes of one partition epoch: at most one record of a key runs, the others wait behind it in
//! offset order (G2).
//!
//! # A lane is made for what does not finish at once
//!
//! A lane exists from [`hold`](Lanes::hold) until nobody follows in [`finish`](Lanes::finish). A
//! record that finishes within its first poll needs none: while it runs, its owner runs nothing
//! else of this partition. A lane nobody waits in is an entry of 16 bytes in a map and allocates
//! nothing.
//!
//! # Hand-over
//!
//! Finishing a record makes its successor the running one in the same call, under the lock that
//! also covers arrivals. There is no instant in which the lane looks idle while a record waits in
//! it, hence no record that nobody starts and no two that run (R6).
//!
//! # Where records wait
//!
//! In one slab for all lanes, each slot naming the next one of its lane. A waiting record costs its
//! own size and a link, whether it waits behind a hot key or behind one of a million cold ones, and
//! parking allocates only when more wait than ever before in this busy spell.
//!
//! It is a state machine: no clock, no lock, no I/O. The owner keeps it under the mutex of its
//! partition epoch, together with the frontier.

mod key;
#[cfg(all(test, loom))]
mod loom_tests;
mod slab;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

use self::key::Identity;
pub(crate) use self::key::LaneKey;
use self::slab::{Queue, Slab};
use crate::shrink;

/// Which keys are running, and what waits behind them; `T` is a waiting record.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    /// The running lanes, each with the queue of those behind it.
    held: HashMap<LaneKey, Queue, BuildHasherDefault<Identity>>,
    waiting: Slab<T>,
}

impl<T> Lanes<T> {
    /// No lane is running, nothing waits.
    pub(crate) fn new() -> Self {
        Self { held: HashMap::default(), waiting: Slab::new() }
    }

    /// Whether a record of this lane is running.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_busy(&self, key: LaneKey) -> bool {
        self.held.contains_key(&key)
    }

    /// Makes an idle lane running. Holding a busy one is the caller's bug, two records of a key at
    /// once: it fails a debug build and changes nothing in a release build.
    #[inline]
    pub(crate) fn hold(&mut self, key: LaneKey) {
        match self.held.entry(key) {
            Entry::Vacant(idle) => {
                idle.insert(Queue::EMPTY);
            }
            Entry::Occupied(_) => debug_assert!(false, "{key:?} is running already"),
        }
    }

    /// Queues `item` behind its lane, or gives it back if the lane is idle: it may run.
    #[inline]
    pub(crate) fn park(&mut self, key: LaneKey, item: T) -> Result<(), T> {
        match self.held.get_mut(&key) {
            Some(queue) => {
                self.waiting.push(queue, item);
                Ok(())
            }
            None => Err(item),
        }
    }

    /// Ends what runs in a lane. The successor, if one waits, is running from this instant; `None`
    /// means the lane is idle now.
    ///
    /// Finishing an idle lane is the caller's bug: it fails a debug build and changes nothing in a
    /// release build.
    #[inline]
    pub(crate) fn finish(&mut self, key: LaneKey) -> Option<T> {
        let Entry::Occupied(mut lane) = self.held.entry(key) else {
            debug_assert!(false, "{key:?} is not running");
            return None;
        };
        let next = self.waiting.pop(lane.get_mut());
        if next.is_none() {
            lane.remove();
            if let Some(capacity) = shrink::target(self.held.len(), self.held.capacity()) {
                self.held.shrink_to(capacity);
            }
        }
        next
    }

    /// How many records wait behind others.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many lanes are running.
    #[cfg(test)]
    pub(crate) fn busy(&self) -> usize {
        self.held.len()
    }

    /// Gives up everything that waits: the records of a lane in the order in which they were
    /// parked, lane after lane. Running lanes stay running, with nobody behind.
    ///
    /// The order of the lanes follows from the calls made so far and not from the hashes, so that
    /// a simulation with the same seed sees the same order.
    pub(crate) fn drain(&mut self) -> impl ExactSizeIterator<Item = T> + use<T> {
        let mut queues: Vec<Queue> = self.held.values_mut().map(std::mem::take).collect();
        queues.sort_unstable_by_key(Queue::place);
        let mut items = Vec::with_capacity(self.waiting.len());
        for mut queue in queues {
            while let Some(item) = self.waiting.pop(&mut queue) {
                items.push(item);
            }
        }
        items.into_iter()
    }
}
