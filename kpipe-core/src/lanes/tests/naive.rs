use std::collections::{HashMap, VecDeque};

use super::{Dispatcher, LaneKey};

/// The lanes by their definition: a queue behind each running key.
#[derive(Debug)]
pub(super) struct Naive<T>(HashMap<LaneKey, VecDeque<T>>);

impl<T> Dispatcher<T> for Naive<T> {
    fn new() -> Self {
        Self(HashMap::new())
    }

    fn is_busy(&self, key: LaneKey) -> bool {
        self.0.contains_key(&key)
    }

    fn hold(&mut self, key: LaneKey) {
        assert!(self.0.insert(key, VecDeque::new()).is_none());
    }

    fn park(&mut self, key: LaneKey, item: T) -> Result<(), T> {
        match self.0.get_mut(&key) {
            Some(queue) => {
                queue.push_back(item);
                Ok(())
            }
            None => Err(item),
        }
    }

    fn finish(&mut self, key: LaneKey) -> Option<T> {
        let next = self.0.get_mut(&key).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.0.remove(&key);
        }
        next
    }

    fn waiting(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    fn busy(&self) -> usize {
        self.0.len()
    }

    fn drain(&mut self) -> Vec<T> {
        self.0.values_mut().flat_map(|queue| queue.drain(..)).collect()
    }
}
