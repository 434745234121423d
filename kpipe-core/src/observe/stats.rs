use std::fmt;
use std::time::Duration;

use crate::failure::FailureKind;
use crate::partition::{Counts, HeldRecord, View};
use crate::record::TopicPartition;

/// A consumer at one instant; made by [`Running::stats`](crate::Running::stats) and
/// [`Monitor::stats`](crate::Monitor::stats).
///
/// At rest, when nothing is in flight, waiting or failed, every record received is accounted for
/// (G8): `received = passed + dropped + abandoned + duplicates`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Records that partitions took in, of all assignments so far.
    pub received: u64,
    /// Records whose handler returned `Ok`.
    pub passed: u64,
    /// Records that failed and were dropped by policy.
    pub dropped: u64,
    /// Records that were not finished when their partition was taken away or the consumer shut
    /// down; they are delivered again, here or elsewhere.
    pub abandoned: u64,
    /// Of those abandoned, the ones that had failed and stayed until then.
    pub abandoned_failed: u64,
    /// Records that the client delivered a second time within one assignment; they were not
    /// handled again.
    pub duplicates: u64,
    /// Attempts running.
    pub in_flight: u64,
    /// How many may run: [`max_in_flight`](crate::Consumer::max_in_flight), or 1 under
    /// [`Ordering::Sequential`](crate::Ordering::Sequential).
    pub max_in_flight: u64,
    /// Records held: running, waiting behind their key, or failed and kept.
    pub held: u64,
    /// How many may be held: [`max_held`](crate::Consumer::max_held).
    pub max_held: u64,
    /// Whether some partition cannot take more, because the records or the bytes held have reached
    /// their limit. That is usual while attempts run as fast as they may; with
    /// [`in_flight`](Self::in_flight) far below [`max_in_flight`](Self::max_in_flight) the room is
    /// taken by records that failed and stay, or that wait behind few keys.
    pub full: bool,
    /// Payload bytes of the records held.
    pub bytes_held: u64,
    /// Records that failed and stay (see [`OnFailure::Hold`](crate::OnFailure::Hold)).
    pub failed: u64,
    /// Commits that the broker acknowledged.
    pub commits: u64,
    /// Commits that failed; they are tried again while the partition is this member's.
    pub commit_failures: u64,
    /// Records that the client fetched over the network, as far as it has reported them.
    pub records_fetched: u64,
    /// Payload bytes that the client fetched, likewise. What lies above
    /// [`bytes_delivered`](Self::bytes_delivered) is prefetched, or was fetched twice (G5).
    pub bytes_fetched: u64,
    /// Records that the client handed over.
    pub records_delivered: u64,
    /// Payload bytes that the client handed over.
    pub bytes_delivered: u64,
    /// How long ago the group was last polled (G3); `None` if the source does not poll.
    pub poll_age: Option<Duration>,
    /// How long the oldest unfinished record of all partitions has been in hand (G3), to within
    /// 10 ms, or coarser behind a record that is stuck for long.
    pub oldest_age: Option<Duration>,
    /// Errors that the client reported and goes on from.
    pub client_errors: u64,
    /// Partitions that are this member's and cannot be consumed for now, with the reason; they are
    /// tried again after 5 s to a minute.
    pub failed_partitions: Vec<(TopicPartition, String)>,
    /// The partitions assigned now, by topic and number.
    pub partitions: Vec<PartitionStats>,
}

/// A partition at one instant.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartitionStats {
    /// Which partition.
    pub partition: TopicPartition,
    /// The next offset to commit: every record below it is finished.
    pub frontier: i64,
    /// What the group has on record, as far as this member knows.
    pub committed: Option<i64>,
    /// The end of the log, asked of the broker every few seconds.
    pub log_end: Option<i64>,
    /// The log's end minus what is committed, or minus the frontier before the first commit.
    /// Backpressure does not stop the asking, so a partition that is held back shows its real lag.
    pub lag: Option<i64>,
    /// Records taken in that are running or about to.
    pub active: u64,
    /// Records that wait behind their key.
    pub waiting: u64,
    /// Records that failed and stay.
    pub failed: u64,
    /// The one of those with the lowest offset: what is committed cannot pass it.
    pub first_failed: Option<FailedRecord>,
    /// Records finished beyond the frontier.
    pub finished_beyond: u64,
    /// Whether those have reached [`max_finished_beyond`](crate::Consumer::max_finished_beyond), so
    /// that the partition takes nothing more until its frontier moves.
    pub full: bool,
    /// How long the oldest unfinished record has been in hand.
    pub oldest_age: Option<Duration>,
}

/// A record that failed and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedRecord {
    /// Its offset.
    pub offset: i64,
    /// Its key as text, at most the first 16 bytes and what is not text replaced; `None` for a null
    /// key.
    pub key: Option<String>,
    /// What kind of thing its attempt failed of.
    pub kind: FailureKind,
    /// What its handler said.
    pub error: String,
}

impl From<HeldRecord> for FailedRecord {
    fn from(held: HeldRecord) -> Self {
        let HeldRecord { offset, failed } = held;
        Self { offset, key: failed.key.text(), kind: failed.kind, error: failed.error }
    }
}

/// Shown as `offset 7, key card-1: card declined`.
impl fmt::Display for FailedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}", self.offset)?;
        if let Some(key) = &self.key {
            write!(f, ", key {key}")?;
        }
        write!(f, ": {}", self.error)
    }
}

impl Stats {
    /// Records received that have not ended yet: running, waiting, or failed and kept. 0 at rest.
    pub fn unfinished(&self) -> u64 {
        self.received - self.passed - self.dropped - self.abandoned - self.duplicates
    }

    /// The lag over all partitions assigned; `None` while that of one of them is not known, as in the
    /// first seconds after it was assigned, before the broker has told the log's end.
    pub fn lag(&self) -> Option<i64> {
        self.partitions.iter().map(|partition| partition.lag).sum()
    }

    pub(crate) fn count(&mut self, counts: Counts) {
        self.received += counts.received;
        self.passed += counts.passed;
        self.dropped += counts.dropped;
        self.abandoned += counts.abandoned;
        self.duplicates += counts.duplicates;
    }

    pub(crate) fn add(&mut self, id: TopicPartition, view: View, now: Duration, end: Option<i64>) {
        self.count(view.counts);
        self.failed += view.held;
        let oldest_age = view.oldest.map(|since| now.saturating_sub(since));
        self.oldest_age = self.oldest_age.max(oldest_age);
        let done = view.committed.unwrap_or(view.frontier);
        self.partitions.push(PartitionStats {
            partition: id,
            frontier: view.frontier,
            committed: view.committed,
            log_end: end,
            lag: end.map(|end| (end - done).max(0)),
            active: view.active,
            waiting: view.waiting,
            failed: view.held,
            first_failed: view.first_held.map(FailedRecord::from),
            finished_beyond: view.finished_beyond,
            full: view.window_full,
            oldest_age,
        });
    }
}
