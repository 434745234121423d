//! What came of a test's records, and assertions that say what they expected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use kpipe_core::source::Outcome;
use kpipe_core::{Record, Stats, TopicPartition};

use crate::witness::{Ledger, What};

/// How many records an assertion names at most.
const NAMED: usize = 10;

/// What has happened up to a [`flush`](crate::TestStream::flush).
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) records: BTreeMap<(TopicPartition, i64), RecordRun>,
    /// Beginnings and ends of attempts, in order.
    pub(crate) course: Vec<Course>,
    pub(crate) committed: BTreeMap<TopicPartition, i64>,
    pub(crate) produced: BTreeMap<String, Vec<Record>>,
    pub(crate) stats: Stats,
}

/// What came of one record, over all assignments of its partition.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecordRun {
    /// Its key.
    pub key: Option<Bytes>,
    /// How often it was received: more than once after a rebalance, or if the broker delivers it twice.
    pub received: u32,
    /// How many attempts began.
    pub attempts: u32,
    /// The errors of the attempts that failed.
    pub errors: Vec<String>,
    /// How often it was finished: passed, or dropped by policy.
    pub finished: u32,
    /// Where it is now.
    pub state: RecordState,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordState {
    /// In the broker's log: not delivered, or not any more since its partition was taken away.
    #[default]
    NotReceived,
    /// Received, and behind its key, or waiting for a slot.
    Waiting,
    /// An attempt runs.
    Running,
    /// It came to its end.
    Ended(Outcome),
}

impl fmt::Display for RecordState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReceived => "not received",
            Self::Waiting => "received and waiting",
            Self::Running => "running",
            Self::Ended(Outcome::Passed) => "passed",
            Self::Ended(Outcome::Dropped) => "dropped by policy",
            Self::Ended(Outcome::Held) => "failed and held",
            Self::Ended(Outcome::Abandoned) => "abandoned",
            Self::Ended(_) => "ended",
        })
    }
}

/// A beginning or an end, in the order of their happening.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    pub(crate) partition: TopicPartition,
    pub(crate) offset: i64,
    pub(crate) began: bool,
    /// Its assignment was over already.
    pub(crate) late: bool,
}

impl Run {
    /// Follows the steps over these logs.
    pub(crate) fn new(
        ledger: &Ledger,
        logs: BTreeMap<TopicPartition, Vec<Record>>,
        committed: BTreeMap<TopicPartition, i64>,
        produced: BTreeMap<String, Vec<Record>>,
        stats: Stats,
    ) -> Self {
        let mut run =
            Self { records: BTreeMap::new(), course: Vec::new(), committed, produced, stats };
        for (partition, log) in logs {
            for record in log {
                let key = record.key_bytes();
                let record_run = RecordRun { key, ..RecordRun::default() };
                run.records.insert((partition.clone(), record.offset()), record_run);
            }
        }
        run.follow(ledger);
        run
    }

    fn follow(&mut self, ledger: &Ledger) {
        let mut current: BTreeMap<&TopicPartition, u64> = BTreeMap::new();
        let mut closed: BTreeSet<(&TopicPartition, u64)> = BTreeSet::new();
        for step in &ledger.steps {
            let (partition, epoch) = (&step.partition, step.epoch);
            let counts = !closed.contains(&(partition, epoch));
            let offset = match step.what {
                What::Assigned { .. } => {
                    current.insert(partition, epoch);
                    continue;
                }
                What::Closed => {
                    closed.insert((partition, epoch));
                    self.give_up_unfinished(partition);
                    continue;
                }
                What::Received { offset }
                | What::Duplicate { offset }
                | What::Began { offset }
                | What::Failed { offset, .. }
                | What::Ended { offset, .. }
                | What::GivenUp { offset } => offset,
            };
            let is_current = counts && current.get(partition) == Some(&epoch);
            let record = self.records.entry((partition.clone(), offset)).or_default();
            let mut state = record.state;
            match &step.what {
                What::Received { .. } => {
                    record.received += 1;
                    state = RecordState::Waiting;
                }
                What::Began { .. } => {
                    record.attempts += 1;
                    state = RecordState::Running;
                    let partition = partition.clone();
                    self.course.push(Course { partition, offset, began: true, late: !counts });
                }
                What::Failed { error, .. } => record.errors.push(error.clone()),
                What::Ended { outcome, .. } => {
                    let finished = matches!(outcome, Outcome::Passed | Outcome::Dropped);
                    record.finished += u32::from(finished && counts);
                    state = RecordState::Ended(*outcome);
                    let partition = partition.clone();
                    self.course.push(Course { partition, offset, began: false, late: !counts });
                }
                What::GivenUp { .. } => state = RecordState::NotReceived,
                _ => {}
            }
            // What an assignment that is over still tells says nothing of the one that is on.
            if is_current {
                record.state = state;
            }
        }
    }

    /// Unfinished records of an assignment that ended are delivered again, to whom it may be.
    fn give_up_unfinished(&mut self, partition: &TopicPartition) {
        let all = (partition.clone(), i64::MIN)..=(partition.clone(), i64::MAX);
        for (_, record) in self.records.range_mut(all) {
            if matches!(record.state, RecordState::Waiting | RecordState::Running) {
                record.state = RecordState::NotReceived;
            }
        }
    }

    /// What came of one record; `None` if there is no such record.
    pub fn record(&self, topic: &str, partition: i32, offset: i64) -> Option<&RecordRun> {
        self.records.get(&(TopicPartition::new(topic, partition), offset))
    }

    /// Every record of the consumer's topics with its partition and offset, in that order.
    pub fn records(&self) -> impl Iterator<Item = (&TopicPartition, i64, &RecordRun)> {
        self.records.iter().map(|((partition, offset), record)| (partition, *offset, record))
    }

    /// How many attempts at a record began; 0 if there is no such record.
    pub fn attempts(&self, topic: &str, partition: i32, offset: i64) -> u32 {
        self.record(topic, partition, offset).map_or(0, |record| record.attempts)
    }

    /// The committed offset: the first record that a restart would read.
    pub fn committed(&self, topic: &str, partition: i32) -> Option<i64> {
        self.committed.get(&TopicPartition::new(topic, partition)).copied()
    }

    /// What lies in another topic of the same broker, in order of partition and offset.
    pub fn produced(&self, topic: &str) -> &[Record] {
        self.produced.get(topic).map_or(&[], Vec::as_slice)
    }

    /// Partition and offset of every attempt at a record with this key, in the order of their
    /// beginnings.
    pub fn order_of(&self, topic: &str, key: impl AsRef<[u8]>) -> Vec<(i32, i64)> {
        let begun = self.course.iter().filter(|step| step.began && &*step.partition.topic == topic);
        let of_key = begun.filter(|step| self.key_of(step) == Some(key.as_ref()));
        of_key.map(|step| (step.partition.partition, step.offset)).collect()
    }

    /// The consumer's own counts.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn key_of(&self, step: &Course) -> Option<&[u8]> {
        self.records.get(&(step.partition.clone(), step.offset))?.key.as_deref()
    }
}

/// Assertions. Each names the records for which it does not hold.
impl Run {
    /// Asserts that every record is finished: passed, or dropped by policy (G1).
    ///
    /// # Panics
    /// If one is not.
    #[track_caller]
    pub fn assert_all_finished(&self) {
        let finished =
            |state| matches!(state, RecordState::Ended(Outcome::Passed | Outcome::Dropped));
        self.assert_each("is not finished", |record| finished(record.state));
    }

    /// Asserts that every record passed.
    ///
    /// # Panics
    /// If one did not.
    #[track_caller]
    pub fn assert_all_passed(&self) {
        let passed = |record: &RecordRun| record.state == RecordState::Ended(Outcome::Passed);
        self.assert_each("did not pass", passed);
    }

    /// Asserts that every record was finished at least once, whatever happened meanwhile (G1).
    ///
    /// # Panics
    /// If one was not.
    #[track_caller]
    pub fn assert_at_least_once(&self) {
        self.assert_each("was never finished", |record| record.finished > 0);
    }

    /// Asserts that no record was finished twice.
    ///
    /// # Panics
    /// If one was.
    #[track_caller]
    pub fn assert_at_most_once(&self) {
        self.assert_each("was finished more than once", |record| record.finished <= 1);
    }

    /// Asserts that of the records of one partition with the same key at most one ran at a time, and
    /// that none was overtaken: its first attempt began after the first attempts of those before it (G2).
    ///
    /// # Panics
    /// If that does not hold. It is not to be expected of `Ordering::Parallel`, nor of a `key_by` that
    /// takes something else than the record's key.
    #[track_caller]
    pub fn assert_in_order_per_key(&self) {
        let mut running: BTreeMap<(&TopicPartition, &[u8]), i64> = BTreeMap::new();
        let mut last: BTreeMap<(&TopicPartition, &[u8]), i64> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for step in &self.course {
            let Some(key) = self.key_of(step) else { continue };
            let lane = (&step.partition, key);
            let (partition, offset) = (&step.partition, step.offset);
            if !step.began {
                running.remove(&lane);
                continue;
            }
            let shown = String::from_utf8_lossy(key);
            if let Some(other) = running.insert(lane, offset) {
                panic!(
                    "records {other} and {offset} of {partition}, both with key {shown:?}, ran at once"
                );
            }
            if !seen.insert((partition, offset)) {
                continue;
            }
            if let Some(before) = last.insert(lane, offset).filter(|before| *before > offset) {
                panic!(
                    "record {offset} of {partition} began after record {before} of its key {shown:?}"
                );
            }
        }
    }

    /// Asserts that no attempt began in an assignment that was over: after the drain of a revoke, or after
    /// a loss (G7).
    ///
    /// # Panics
    /// If one did.
    #[track_caller]
    pub fn assert_nothing_began_after_its_revoke(&self) {
        let late = self.course.iter().find(|step| step.began && step.late);
        if let Some(Course { partition, offset, .. }) = late {
            panic!("record {offset} of {partition} began after its partition had been given back");
        }
    }

    #[track_caller]
    fn assert_each(&self, fault: &str, holds: impl Fn(&RecordRun) -> bool) {
        let wrong: Vec<_> = self.records().filter(|(_, _, record)| !holds(record)).collect();
        if wrong.is_empty() {
            return;
        }
        let mut text = format!("{} of {} records: each {fault}", wrong.len(), self.records.len());
        for (partition, offset, record) in wrong.iter().take(NAMED) {
            text += &format!("\n  record {offset} of {partition}: {}", record.state);
            text +=
                &format!(", attempts {}, finished {} time(s)", record.attempts, record.finished);
            if let Some(error) = record.errors.last() {
                text += &format!(", last error: {error}");
            }
        }
        if wrong.len() > NAMED {
            text += &format!("\n  and {} more", wrong.len() - NAMED);
        }
        panic!("{text}");
    }
}
