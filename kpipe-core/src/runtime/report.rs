use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::shared::Shared;
use crate::observe::{FailedRecord, Stats};
use crate::record::TopicPartition;
use crate::source::Closed;

/// How a consumer ended; made by [`Running::shutdown`](crate::Running::shutdown) (G10).
///
/// Its `Display` is one line for a log, such as
/// `10 received: 3 passed, 0 dropped, 7 abandoned (1 of them failed, the first at t/0 offset 3: card
/// declined), 0 duplicate; positions committed in 2 partitions; closed in 12ms`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The counts at the end; no partition is assigned any more, unless time ran out. Records that
    /// had failed and stayed are among those abandoned
    /// ([`abandoned_failed`](Stats::abandoned_failed)).
    pub stats: Stats,
    /// The failed record with the lowest offset in each partition whose last assignment to this
    /// member ended with one: where those who come next will stand.
    pub first_failed: BTreeMap<TopicPartition, FailedRecord>,
    /// The position that the broker acknowledged last for each partition that this member had. A
    /// start that was found by [`StartAt`](crate::StartAt) is committed too, so an entry does not
    /// mean that a record was handled.
    pub committed: BTreeMap<TopicPartition, i64>,
    /// Partitions whose last offset could not be committed, with the offset; their records below it
    /// are handled again by whoever comes next.
    pub uncommitted: BTreeMap<TopicPartition, i64>,
    /// Whether the client was closed in time or goes on closing in a detached thread.
    pub closed: Closed,
    /// How long the shutdown took, from the moment it was asked for.
    pub took: Duration,
}

impl Report {
    /// What a shutdown comes to, finished or not.
    pub(super) fn of(shared: &Shared, closed: Closed) -> Self {
        Self {
            stats: shared.stats(),
            first_failed: shared.first_failed(),
            committed: shared.committed(),
            uncommitted: shared.uncommitted(),
            closed,
            took: shared.stopping_for(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { received, passed, dropped, abandoned, duplicates, .. } = self.stats;
        write!(
            f,
            "{received} received: {passed} passed, {dropped} dropped, {abandoned} abandoned"
        )?;
        // After a shutdown that ran out of time some may still run.
        let unfinished = self.stats.unfinished();
        if unfinished > 0 {
            write!(f, ", {unfinished} not finished")?;
        }
        let failed = self.stats.abandoned_failed + self.stats.failed;
        if failed > 0 {
            write!(f, " ({failed} of them failed")?;
            if let Some((partition, first)) = self.first_failed.first_key_value() {
                write!(f, ", the first at {partition} {first}")?;
            }
            f.write_str(")")?;
        }
        let partitions = match self.committed.len() {
            1 => "1 partition".to_owned(),
            count => format!("{count} partitions"),
        };
        write!(f, ", {duplicates} duplicate; positions committed in {partitions}")?;
        for (partition, next) in &self.uncommitted {
            write!(f, ", {partition} not at {next}")?;
        }
        match self.closed {
            Closed::Completely => write!(f, "; closed in {:?}", self.took),
            Closed::InBackground => {
                write!(f, "; still closing in the background after {:?}", self.took)
            }
        }
    }
}
