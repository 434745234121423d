//! Since when records are in hand, without a clock reading or a time stamp for each.

use std::collections::VecDeque;
use std::time::Duration;

use crate::frontier::Seq;

/// Batches closer together than this share an entry.
pub(super) const STEP: Duration = Duration::from_millis(10);
/// With more entries than this every second one goes: behind a stuck record, ages get coarser
/// instead of memory growing.
pub(super) const MOST: usize = 512;

/// Pairs of a sequence number and when it came, in order: a record is as old as the last entry at
/// or before it.
#[derive(Debug, Default)]
pub(super) struct Ages {
    entries: VecDeque<(Seq, Duration)>,
}

impl Ages {
    /// A batch starting with `first` came `now`; nothing before `oldest` is asked for again.
    pub(super) fn note(&mut self, first: Seq, now: Duration, oldest: Option<Seq>) {
        let oldest = oldest.unwrap_or(first);
        while self.entries.get(1).is_some_and(|(seq, _)| *seq <= oldest) {
            self.entries.pop_front();
        }
        if self.entries.back().is_some_and(|(_, at)| now.saturating_sub(*at) < STEP) {
            return;
        }
        if self.entries.len() >= MOST {
            let mut keep = false;
            self.entries.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.entries.push_back((first, now));
    }

    /// When a record came.
    pub(super) fn of(&self, seq: Seq) -> Option<Duration> {
        let after = self.entries.partition_point(|(first, _)| *first <= seq);
        after.checked_sub(1).map(|at| self.entries[at].1)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
