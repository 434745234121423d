//! Says so when a consumer cannot take more because of records that do not move on (G11): they would
//! stop it without a word.

use std::collections::BTreeMap;

use crate::observe::{PartitionStats, Stats};
use crate::record::TopicPartition;

/// So many looks in a row, one a second, before it is worth a warning.
const LASTING: u32 = 3;
/// After so many looks without it, the next time is told again.
const OVER: u32 = 60;

/// Watches for it at each look of the control loop.
#[derive(Debug, Default)]
pub(super) struct FullWatch {
    consumer: Episode,
    partitions: BTreeMap<TopicPartition, Episode>,
}

impl FullWatch {
    pub(super) fn look(&mut self, stats: &Stats) {
        if self.consumer.look(is_stuck(stats)) {
            warn_of_consumer(stats);
        }
        self.partitions.retain(|_, episode| episode.is_open());
        for partition in &stats.partitions {
            if !partition.full && !self.partitions.contains_key(&partition.partition) {
                continue;
            }
            let episode = self.partitions.entry(partition.partition.clone()).or_default();
            if episode.look(partition.full) {
                warn_of_partition(partition);
            }
        }
    }
}

/// Whether most of what is held fails to move on, while attempts could run. A consumer that is full
/// because it is busy is not stuck.
fn is_stuck(stats: &Stats) -> bool {
    stats.full
        && stats.in_flight <= stats.max_in_flight / 2
        && (stats.failed + waiting(stats)) * 2 >= stats.held
}

fn waiting(stats: &Stats) -> u64 {
    stats.partitions.iter().map(|partition| partition.waiting).sum()
}

fn warn_of_consumer(stats: &Stats) {
    let Stats { held, max_held, bytes_held, failed, in_flight, .. } = *stats;
    tracing::warn!(
        target: "kpipe", held, max_held, bytes_held, failed, waiting = waiting(stats), in_flight,
        "the consumer is full: what it may hold is taken by records that failed and stay, or that \
         wait behind their key; it takes no others until those move on, which failed ones do not \
         before a restart (see `max_held`, `bytes_in_hand`, `on_failure`)"
    );
}

fn warn_of_partition(stats: &PartitionStats) {
    let PartitionStats { partition, frontier, finished_beyond, failed, .. } = stats;
    tracing::warn!(
        target: "kpipe", %partition, frontier, finished_beyond, failed,
        "the partition is full: too many records are finished beyond one that is not; it takes no \
         others until that one is (see `max_finished_beyond`, `on_failure`)"
    );
}

/// One stretch of time in which something is so, told once.
#[derive(Debug, Default)]
struct Episode {
    /// Looks in a row that found it.
    found: u32,
    /// Looks in a row that did not.
    missed: u32,
    told: bool,
}

impl Episode {
    /// Notes a look; whether it is to be told now.
    fn look(&mut self, found: bool) -> bool {
        if !found {
            self.found = 0;
            self.missed = self.missed.saturating_add(1);
            self.told &= self.missed < OVER;
            return false;
        }
        self.missed = 0;
        self.found = self.found.saturating_add(1);
        self.found >= LASTING && !std::mem::replace(&mut self.told, true)
    }

    fn is_open(&self) -> bool {
        self.found > 0 || self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_is_told_once() {
        let mut episode = Episode::default();
        let mut told = |found, looks| (0..looks).filter(|_| episode.look(found)).count();
        assert_eq!(told(true, LASTING - 1), 0, "it may be over at once");
        assert_eq!(told(false, 1), 0);
        assert_eq!(told(true, 1_000), 1);
        assert_eq!(told(false, OVER - 1), 0);
        assert_eq!(told(true, 1_000), 0, "still the same episode");
        assert_eq!(told(false, OVER), 0);
        assert_eq!(told(true, 1_000), 1);
    }

    #[test]
    fn a_consumer_that_is_busy_is_not_stuck() {
        let full = Stats { full: true, held: 10, max_in_flight: 8, ..Stats::default() };
        assert!(is_stuck(&Stats { failed: 9, in_flight: 1, ..full.clone() }));
        assert!(is_stuck(&Stats { failed: 10, ..full.clone() }));
        assert!(!is_stuck(&Stats { failed: 5, in_flight: 5, ..full.clone() }), "attempts run");
        assert!(!is_stuck(&Stats { failed: 1, in_flight: 4, ..full.clone() }), "of large records");
        assert!(!is_stuck(&Stats { full: false, failed: 9, ..full }));
    }
}
