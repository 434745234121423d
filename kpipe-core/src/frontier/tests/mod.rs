//! Every test that fits both runs over the frontier and over a model too simple to be wrong.

mod cases;
mod memory;
mod naive;
mod properties;

use self::naive::Naive;
use super::{Frontier, Seq};

/// What the frontier and its model have in common.
trait Tracker {
    fn new(start: i64) -> Self;
    fn register(&mut self, offset: i64) -> Option<Seq>;
    /// `None` where the caller's bug is refused.
    fn try_complete(&mut self, seq: Seq) -> Option<bool>;
    fn try_complete_run(&mut self, first: Seq, count: u64) -> Option<bool>;
    fn next_offset(&self) -> i64;
    fn next_expected(&self) -> i64;
    fn unfinished(&self) -> u64;
    fn finished_beyond(&self) -> u64;
    fn window(&self) -> u64;
    fn oldest_unfinished(&self) -> Option<(Seq, i64)>;
    fn offset_of(&self, seq: Seq) -> Option<i64>;
    /// The first and one past the last offset of each finished run.
    fn runs(&self) -> Vec<(i64, i64)>;
}

impl Tracker for Frontier {
    fn new(start: i64) -> Self {
        Self::new(start)
    }

    fn register(&mut self, offset: i64) -> Option<Seq> {
        self.register(offset)
    }

    fn try_complete(&mut self, seq: Seq) -> Option<bool> {
        self.try_complete(seq)
    }

    fn try_complete_run(&mut self, first: Seq, count: u64) -> Option<bool> {
        self.try_complete_run(first, count)
    }

    fn next_offset(&self) -> i64 {
        self.next_offset()
    }

    fn next_expected(&self) -> i64 {
        self.next_expected()
    }

    fn unfinished(&self) -> u64 {
        self.unfinished()
    }

    fn finished_beyond(&self) -> u64 {
        self.finished_beyond()
    }

    fn window(&self) -> u64 {
        self.window()
    }

    fn oldest_unfinished(&self) -> Option<(Seq, i64)> {
        self.oldest_unfinished()
    }

    fn offset_of(&self, seq: Seq) -> Option<i64> {
        self.offset_of(seq)
    }

    fn runs(&self) -> Vec<(i64, i64)> {
        self.finished_runs().map(|run| (run.start, run.end)).collect()
    }
}

impl Frontier {
    fn heap_bytes(&self) -> usize {
        self.finished.heap_bytes() + self.breaks.heap_bytes()
    }

    /// Chunks and words that searches looked at since the last call.
    fn looked(&self) -> u64 {
        self.finished.looked.take()
    }
}

/// Registers records at these offsets, all of them new.
fn register_all<T: Tracker>(tracker: &mut T, offsets: impl IntoIterator<Item = i64>) -> Vec<Seq> {
    offsets
        .into_iter()
        .map(|offset| tracker.register(offset).unwrap_or_else(|| panic!("{offset} is new")))
        .collect()
}
