use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::observe::Stats;
use crate::record::TopicPartition;
use crate::source::Closed;

/// How a consumer ended; made by [`Running::shutdown`](crate::Running::shutdown) (G10).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The counts at the end; no partition is assigned any more.
    pub stats: Stats,
    /// What the broker acknowledged last for each partition that this member had.
    pub committed: BTreeMap<TopicPartition, i64>,
    /// Partitions whose last offset could not be committed, with the offset; their records below it
    /// are handled again by whoever comes next.
    pub uncommitted: BTreeMap<TopicPartition, i64>,
    /// Whether the client was closed in time or goes on closing in a detached thread.
    pub closed: Closed,
    /// How long the shutdown took.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { received, passed, dropped, abandoned, duplicates, .. } = self.stats;
        write!(
            f,
            "{received} received: {passed} passed, {dropped} dropped, {abandoned} abandoned, \
             {duplicates} duplicate; {} partitions committed",
            self.committed.len()
        )?;
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
