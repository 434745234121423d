//! What the broker saw, in order.

use std::sync::Arc;

use kpipe_core::TopicPartition;
use kpipe_core::source::CommitErrorKind;
use tokio::time::Instant;

/// One thing that the broker saw; see [`Broker::history`](super::Broker::history).
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// When, on the broker's clock.
    pub at: Instant,
    /// What.
    pub what: What,
}

/// What the broker saw. A member goes by its name; after a restart under the same name it is another
/// member of that name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// A record was written.
    Written {
        /// Where.
        partition: TopicPartition,
        /// At which offset.
        offset: i64,
    },
    /// A producer was told that its record was not written, or was not told that it was.
    Refused {
        /// To which topic.
        topic: Arc<str>,
        /// What it was told.
        kind: super::ProduceErrorKind,
    },
    /// Records left a queue for the runtime.
    Delivered {
        /// To whom.
        member: Arc<str>,
        /// Of which partition.
        partition: TopicPartition,
        /// The first offset.
        first: i64,
        /// The last offset.
        last: i64,
        /// How many records.
        records: usize,
    },
    /// A member came into the group.
    Joined {
        /// Who.
        member: Arc<str>,
    },
    /// A member left the group.
    Left {
        /// Who.
        member: Arc<str>,
    },
    /// A member's process died.
    Killed {
        /// Who.
        member: Arc<str>,
    },
    /// The group did not wait for a member any longer, or a test said so.
    Expelled {
        /// Who.
        member: Arc<str>,
    },
    /// A member heard that these partitions are its own.
    Assigned {
        /// Who.
        member: Arc<str>,
        /// Since which generation.
        generation: i64,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// The fetch of a partition began.
    Started {
        /// By whom.
        member: Arc<str>,
        /// Of which partition.
        partition: TopicPartition,
        /// From which offset.
        offset: i64,
    },
    /// A member heard that the group wants these back.
    Revoked {
        /// Who.
        member: Arc<str>,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// A member heard that it has lost these.
    Lost {
        /// Who.
        member: Arc<str>,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// A member gave a partition back.
    Released {
        /// Who.
        member: Arc<str>,
        /// Which.
        partition: TopicPartition,
    },
    /// A commit was asked for.
    CommitAsked {
        /// By whom.
        member: Arc<str>,
        /// In which generation it thought to be.
        generation: i64,
        /// For which partition.
        partition: TopicPartition,
        /// The offset of the first record that is not finished.
        next: i64,
    },
    /// A commit was stored.
    Committed {
        /// Of whom.
        member: Arc<str>,
        /// For which partition.
        partition: TopicPartition,
        /// The offset of the first record that is not finished.
        next: i64,
    },
    /// A commit was not stored.
    CommitRefused {
        /// Of whom.
        member: Arc<str>,
        /// For which partition.
        partition: TopicPartition,
        /// How it was answered.
        kind: CommitErrorKind,
    },
    /// A position turned out to lie outside of the log, or beyond where it was cut.
    PositionLost {
        /// Whose.
        member: Arc<str>,
        /// In which partition.
        partition: TopicPartition,
        /// The position.
        offset: i64,
    },
    /// A partition could not be started, or stopped for an error.
    Failed {
        /// Whose.
        member: Arc<str>,
        /// Which.
        partition: TopicPartition,
    },
    /// A log's beginning moved.
    Truncated {
        /// Of which partition.
        partition: TopicPartition,
        /// The first offset that is left.
        start: i64,
    },
    /// A log lost its end.
    Cut {
        /// Of which partition.
        partition: TopicPartition,
        /// The offset that the next record gets.
        end: i64,
    },
    /// A log's end moved over offsets that have no record.
    Skipped {
        /// Of which partition.
        partition: TopicPartition,
        /// How many.
        offsets: i64,
    },
    /// A record was removed from within a log.
    Compacted {
        /// Of which partition.
        partition: TopicPartition,
        /// Its offset.
        offset: i64,
    },
}

/// Kept, or only counted.
#[derive(Debug, Default)]
pub(super) struct History {
    seen: Vec<Seen>,
    steps: usize,
    off: bool,
}

impl History {
    pub(super) fn new(keep: bool) -> Self {
        Self { off: !keep, ..Self::default() }
    }

    pub(super) fn saw(&mut self, at: Instant, what: impl FnOnce() -> What) {
        self.steps += 1;
        if !self.off {
            self.seen.push(Seen { at, what: what() });
        }
    }

    /// How much was seen so far, kept or not.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn seen(&self) -> &[Seen] {
        &self.seen
    }

    pub(super) fn take(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.seen)
    }
}
