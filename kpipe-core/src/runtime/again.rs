//! Partitions that could not be consumed and are tried again, so that none is left lying until the
//! next rebalance (G11).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::record::TopicPartition;
use crate::source::Clock;

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

/// What failed, and when it is its turn.
pub(super) struct Again {
    clock: Clock,
    failed: BTreeMap<TopicPartition, Attempt>,
}

struct Attempt {
    /// `None` while it is tried, or is consumed again.
    due: Option<Instant>,
    next_wait: Duration,
}

impl Again {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, failed: BTreeMap::new() }
    }

    /// Notes a failure. The waits of a partition grow for as long as the group leaves it here.
    pub(super) fn failed(&mut self, partition: TopicPartition) {
        let attempt =
            self.failed.entry(partition).or_insert(Attempt { due: None, next_wait: FIRST });
        if attempt.due.is_none() {
            attempt.due = Some(self.clock.now() + attempt.next_wait);
            attempt.next_wait = (attempt.next_wait * 2).min(LONGEST);
        }
    }

    /// The group took these away.
    pub(super) fn forget(&mut self, partitions: &[TopicPartition]) {
        self.failed.retain(|partition, _| !partitions.contains(partition));
    }

    /// Waits until some are due and returns them; for ever if none failed. Cancel safe.
    pub(super) async fn next(&mut self) -> Vec<TopicPartition> {
        let Some(first) = self.failed.values().filter_map(|attempt| attempt.due).min() else {
            return std::future::pending().await;
        };
        self.clock.sleep_until(first).await;
        let now = self.clock.now();
        let due = self.failed.iter_mut().filter(|(_, one)| one.due.is_some_and(|due| due <= now));
        due.map(|(partition, attempt)| {
            attempt.due = None;
            partition.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_until_the_partition_is_taken_away() {
        let mut again = Again::new(Clock::default());
        let begun = Instant::now();
        let partition = TopicPartition::new("t", 0);
        let mut waits = Vec::new();
        for _ in 0..6 {
            again.failed(partition.clone());
            again.failed(partition.clone());
            let before = begun.elapsed();
            assert_eq!(again.next().await, std::slice::from_ref(&partition));
            waits.push((begun.elapsed() - before).as_secs());
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        again.failed(partition.clone());
        again.forget(std::slice::from_ref(&partition));
        again.failed(partition.clone());
        let before = begun.elapsed();
        again.next().await;
        assert_eq!((begun.elapsed() - before).as_secs(), 5);
    }
}
