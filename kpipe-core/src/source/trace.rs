//! What the runtime does with each record, told as it happens.

use tokio::time::Instant;

use crate::record::TopicPartition;

/// A witness that a source brings along, for a test kit that checks what happened. It is called where
/// the thing happens, on the record's path, so it must be quick and must not panic; production sources
/// have none.
pub trait Trace: Send + Sync + 'static {
    /// Something happened in an assignment of `partition`; `epoch` tells the assignments of one
    /// consumer apart.
    fn saw(&self, partition: &TopicPartition, epoch: u64, event: TraceEvent<'_>);
}

/// What a [`Trace`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// The assignment begins; its first record wanted is at `start`.
    Assigned {
        /// The offset.
        start: i64,
    },
    /// A record came out of the partition's queue and is counted.
    Received {
        /// Its offset.
        offset: i64,
    },
    /// It is below what is expected, because it came before, and is not run.
    Duplicate {
        /// Its offset.
        offset: i64,
    },
    /// An attempt at a record begins.
    Began {
        /// Its offset.
        offset: i64,
        /// Which attempt in this assignment, from 1.
        attempt: u32,
        /// When it is ended if it has not ended by itself.
        deadline: Option<Instant>,
    },
    /// An attempt failed, before the policy decides what becomes of its record.
    Failed {
        /// The record's offset.
        offset: i64,
        /// The handler's error, the panic's text or the deadline's.
        error: &'a str,
    },
    /// A record that had begun has come to its end in this assignment.
    Ended {
        /// Its offset.
        offset: i64,
        /// How.
        outcome: Outcome,
    },
    /// A record was received and given up before it began: its partition was taken away, or the
    /// consumer stopped.
    GivenUp {
        /// Its offset.
        offset: i64,
    },
    /// The assignment is over: from here on nothing that happens in it counts (G7).
    Closed,
}

/// How a record that had begun came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler finished it.
    Passed,
    /// It failed and is dropped by policy.
    Dropped,
    /// It failed and stays; the committed offset waits for it.
    Held,
    /// It was cut short by a revoke or a shutdown, and is delivered again.
    Abandoned,
}

// Object safety, checked at compile time.
const _: Option<&dyn Trace> = None;
