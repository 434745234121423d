//! The engine rooms as KPipe's own benches see them (feature `rooms`). No part of the public API:
//! it follows the rooms from one version to the next without a notice.

use std::ops::Range;
use std::sync::Arc;

use crate::record::{Record, RecordMeta, Timestamp};
#[cfg(not(loom))]
pub use crate::source::kafka::Drain;
use crate::wake::Signal;
use crate::{budget, frontier, lanes};

/// A record as the client's messages become one: a single copy of borrowed parts.
#[inline]
pub fn record(
    topic: &Arc<str>,
    offset: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&[u8], Option<&[u8]>)],
) -> Record {
    let meta = RecordMeta {
        topic: topic.clone(),
        partition: 0,
        offset,
        timestamp: Timestamp::NotAvailable,
        leader_epoch: -1,
    };
    Record::assemble(meta, key, value, headers.iter().copied())
}

/// The sequence of a registered record.
#[derive(Clone, Copy, Debug)]
pub struct Seq(frontier::Seq);

impl Seq {
    /// The sequence `count` registrations later.
    #[inline]
    pub fn plus(self, count: u64) -> Self {
        Self(self.0.plus(count))
    }
}

/// The commit frontier of a partition epoch.
#[derive(Debug)]
pub struct Frontier(frontier::Frontier);

impl Frontier {
    /// A frontier that expects `start` first.
    pub fn new(start: i64) -> Self {
        Self(frontier::Frontier::new(start))
    }

    /// Takes in a record; `None` for a duplicate.
    #[inline]
    pub fn register(&mut self, offset: i64) -> Option<Seq> {
        self.0.register(offset).map(Seq)
    }

    /// Marks a record finished; true if the offset to commit moved.
    #[inline]
    pub fn complete(&mut self, seq: Seq) -> bool {
        self.0.complete(seq.0)
    }

    /// Marks records with consecutive sequences finished.
    #[inline]
    pub fn complete_run(&mut self, first: Seq, count: u64) -> bool {
        self.0.complete_run(first.0, count)
    }

    /// The offset to commit.
    #[inline]
    pub fn next_offset(&self) -> i64 {
        self.0.next_offset()
    }

    /// The offsets finished beyond the frontier.
    pub fn finished_runs(&self) -> impl Iterator<Item = Range<i64>> {
        self.0.finished_runs()
    }
}

/// The lane of a key.
#[derive(Clone, Copy, Debug)]
pub struct LaneKey(lanes::LaneKey);

impl LaneKey {
    /// The lane of a key, by its bytes.
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        Self(lanes::LaneKey::of(key))
    }
}

/// The lanes of a partition epoch.
#[derive(Debug)]
pub struct Lanes<T>(lanes::Lanes<T>);

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self(lanes::Lanes::new())
    }
}

impl<T> Lanes<T> {
    /// Makes an idle lane running.
    #[inline]
    pub fn hold(&mut self, key: LaneKey) {
        self.0.hold(key.0);
    }

    /// Queues behind a running lane, or gives the item back.
    #[inline]
    pub fn park(&mut self, key: LaneKey, item: T) -> Result<(), T> {
        self.0.park(key.0, item)
    }

    /// Ends what runs in a lane and hands over to its successor.
    #[inline]
    pub fn finish(&mut self, key: LaneKey) -> Option<T> {
        self.0.finish(key.0)
    }
}

/// What all partitions of a consumer share.
#[derive(Debug)]
pub struct Budget(budget::Budget);

/// A partition's share of a [`Budget`].
#[derive(Debug)]
pub struct Share<'a> {
    budget: &'a budget::Budget,
    id: budget::ShareId,
}

impl Budget {
    /// A budget of so many attempts, records and bytes.
    pub fn new(in_flight: u64, held: u64, bytes: u64) -> Self {
        Self(budget::Budget::new(budget::Limits { in_flight, held, bytes }))
    }

    /// Adds a share; nobody listens for its wake-ups.
    pub fn join(&self) -> Share<'_> {
        Share { budget: &self.0, id: self.0.join(Arc::<Signal>::default()) }
    }
}

impl Share<'_> {
    /// Takes up to `want` attempts, or begins to wait for one.
    #[inline]
    pub fn acquire_slots(&self, want: u64) -> u64 {
        self.budget.acquire_slots(self.id, want)
    }

    /// Gives attempts back.
    #[inline]
    pub fn release_slots(&self, count: u64) {
        self.budget.release_slots(self.id, count);
    }

    /// Takes room for up to `want` records, or begins to wait for it.
    #[inline]
    pub fn acquire_held(&self, want: u64) -> u64 {
        self.budget.acquire_held(self.id, want)
    }

    /// Counts the bytes of records taken.
    #[inline]
    pub fn charge_bytes(&self, bytes: u64) {
        self.budget.charge_bytes(self.id, bytes);
    }

    /// Gives records and their bytes back.
    #[inline]
    pub fn release_held(&self, records: u64, payload: u64) {
        self.budget.release_held(self.id, records, payload);
    }

    /// Gives back one attempt together with its record.
    #[inline]
    pub fn release_attempt(&self, payload: u64) {
        self.budget.release_attempt(self.id, payload);
    }
}
