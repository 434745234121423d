//! Things that are to be dropped on one thread of their own, wherever they were used.
//!
//! librdkafka allocates messages on its broker threads. Freed on whichever worker took them, they make
//! several threads contend for the arena of the broker's: with glibc's allocator that costs more than
//! everything else that is done to a record (benches/results).

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::{Condvar, Mutex};

/// What waits to be dropped by the thread that is in [`work`](Self::work).
#[derive(Debug)]
pub(crate) struct Reclaim<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    over: bool,
}

impl<T> Reclaim<T> {
    /// At most `most` things wait at a time.
    pub(crate) fn new(most: usize) -> Self {
        let state = State { waiting: Vec::new(), over: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), most }
    }

    /// Hands over what is in `things`, which is empty afterwards. What there is no room for, or comes
    /// after [`finish`](Self::finish), is dropped here.
    pub(crate) fn give(&self, things: &mut Vec<T>) {
        let mut state = self.state.lock();
        if state.over || state.waiting.len() + things.len() > self.most {
            drop(state);
            things.clear();
            return;
        }
        let slept = state.waiting.is_empty();
        state.waiting.append(things);
        drop(state);
        if slept {
            self.changed.notify_one();
        }
    }

    /// Drops what is given until [`finish`](Self::finish), and then what is left. For one thread.
    pub(crate) fn work(&self) {
        let mut mine = Vec::new();
        let mut state = self.state.lock();
        loop {
            if !state.waiting.is_empty() {
                std::mem::swap(&mut state.waiting, &mut mine);
                drop(state);
                mine.clear();
                state = self.state.lock();
            } else if state.over {
                return;
            } else {
                state = self.changed.wait(state);
            }
        }
    }

    /// Ends [`work`](Self::work).
    pub(crate) fn finish(&self) {
        self.state.lock().over = true;
        self.changed.notify_one();
    }
}
