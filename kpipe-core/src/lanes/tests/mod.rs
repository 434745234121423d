//! Every test that fits both runs over the lanes and over a model too simple to be wrong.

mod cases;
mod memory;
mod naive;
mod properties;

use self::naive::Naive;
use super::{LaneKey, Lanes};

/// What the lanes and their model have in common.
trait Dispatcher<T> {
    fn new() -> Self;
    fn is_busy(&self, key: LaneKey) -> bool;
    fn hold(&mut self, key: LaneKey);
    fn park(&mut self, key: LaneKey, item: T) -> Result<(), T>;
    fn finish(&mut self, key: LaneKey) -> Option<T>;
    fn waiting(&self) -> usize;
    fn busy(&self) -> usize;
    fn drain(&mut self) -> Vec<T>;
}

impl<T> Dispatcher<T> for Lanes<T> {
    fn new() -> Self {
        Self::new()
    }

    fn is_busy(&self, key: LaneKey) -> bool {
        self.is_busy(key)
    }

    fn hold(&mut self, key: LaneKey) {
        self.hold(key);
    }

    fn park(&mut self, key: LaneKey, item: T) -> Result<(), T> {
        self.park(key, item)
    }

    fn finish(&mut self, key: LaneKey) -> Option<T> {
        self.finish(key)
    }

    fn waiting(&self) -> usize {
        self.waiting()
    }

    fn busy(&self) -> usize {
        self.busy()
    }

    fn drain(&mut self) -> Vec<T> {
        self.drain().collect()
    }
}

impl<T> Lanes<T> {
    fn heap_bytes(&self) -> usize {
        // hashbrown keeps an eighth of its buckets free and a byte of control for each.
        let buckets = self.held.capacity() * 8 / 7;
        buckets * (size_of::<(LaneKey, super::Queue)>() + 1) + self.waiting.heap_bytes()
    }
}

/// A lane of its own for each number.
fn lane(number: u64) -> LaneKey {
    LaneKey::of(&number.to_be_bytes())
}
