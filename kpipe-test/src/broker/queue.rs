//! The queue of an assigned partition: what was fetched and not taken.

use std::collections::VecDeque;

use kpipe_core::source::{Arrivals, Event, PartitionQueue, SourceError};
use kpipe_core::{Record, TopicPartition};

use super::Broker;
use super::history::What;
use super::log::Log;
use super::member::MemberId;
use super::state::State;

/// How much of one partition lies prefetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) records: usize,
    /// Overshot by one record.
    pub(super) bytes: u64,
}

/// One assignment's fetch of a partition.
pub(super) struct Split {
    number: u64,
    arrivals: Arrivals,
    queue: VecDeque<Record>,
    bytes: u64,
    /// The offset that follows the last record taken.
    position: i64,
    /// The offset to fetch next.
    fetch_at: i64,
    /// The log's epoch when it was last looked at.
    epoch: usize,
    trouble: Option<Trouble>,
}

/// What follows the records in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The log does not have the position: the policy decides where to go on.
    OutOfRange,
    /// The log was cut below the position: what is committed may still be in it.
    Cut,
    /// Nothing of this partition is handed on any more.
    Stopped,
    /// The partition is gone, which was reported.
    Gone,
}

impl Split {
    fn new(number: u64, start: i64, epoch: usize, arrivals: Arrivals) -> Self {
        Self {
            number,
            arrivals,
            queue: VecDeque::new(),
            bytes: 0,
            position: start,
            fetch_at: start,
            epoch,
            trouble: None,
        }
    }

    /// Fetches up to the limits; returns how many records and bytes came.
    fn fetch(&mut self, log: &Log, limits: Limits) -> (u64, u64) {
        if log.is_cut_below(self.fetch_at, self.epoch) {
            self.trouble = Some(Trouble::Cut);
            return (0, 0);
        }
        self.epoch = log.epoch();
        if !log.contains(self.fetch_at) {
            self.trouble = Some(Trouble::OutOfRange);
            return (0, 0);
        }
        if self.fetch_at == log.end() {
            return (0, 0);
        }
        let (mut records, mut bytes) = (0, 0);
        for record in log.from(self.fetch_at) {
            if self.queue.len() >= limits.records || self.bytes >= limits.bytes {
                return (records, bytes);
            }
            self.fetch_at = record.offset() + 1;
            let len = size(record);
            self.bytes += len;
            bytes += len;
            records += 1;
            self.queue.push_back(record.clone());
        }
        // Over the offsets without a record that follow.
        self.fetch_at = log.end();
        (records, bytes)
    }

    fn pop(&mut self) -> Option<Record> {
        let record = self.queue.pop_front()?;
        self.bytes -= size(&record);
        // What is delivered again does not take the position back.
        self.position = self.position.max(record.offset() + 1);
        Some(record)
    }

    fn push_front(&mut self, record: Record) {
        self.bytes += size(&record);
        self.queue.push_front(record);
    }

    /// Throws away what was fetched.
    fn rewind(&mut self) {
        self.queue.clear();
        self.bytes = 0;
        self.fetch_at = self.position;
        if self.has_no_position() {
            self.trouble = None;
        }
    }

    fn has_no_position(&self) -> bool {
        matches!(self.trouble, Some(Trouble::OutOfRange | Trouble::Cut))
    }

    fn shows_something(&self) -> bool {
        !self.queue.is_empty() || self.has_no_position()
    }
}

fn size(record: &Record) -> u64 {
    (record.key().map_or(0, <[u8]>::len) + record.value().map_or(0, <[u8]>::len)) as u64
}

/// The runtime's end of a queue.
pub(super) struct Queue {
    pub(super) broker: Broker,
    pub(super) member: MemberId,
    pub(super) partition: TopicPartition,
    pub(super) split: u64,
}

impl PartitionQueue for Queue {
    fn take(&self, max: usize, into: &mut Vec<Record>) -> usize {
        self.broker.lock().take(self, max, into)
    }
}

impl State {
    /// Begins the fetch of a partition; returns the number of its split.
    pub(super) fn split(
        &mut self,
        id: MemberId,
        partition: &TopicPartition,
        start: i64,
        arrivals: Arrivals,
    ) -> u64 {
        let member = &mut self.members[id];
        member.splits_made += 1;
        let number = member.splits_made;
        let name = member.name.clone();
        let epoch = self.log(partition).map_or(0, Log::epoch);
        let split = Split::new(number, start, epoch, arrivals.clone());
        self.members[id].splits.insert(partition.clone(), split);
        self.saw(|| What::Started { member: name, partition: partition.clone(), offset: start });
        self.fill(id, partition);
        arrivals.notify();
        number
    }

    fn take(&mut self, from: &Queue, max: usize, into: &mut Vec<Record>) -> usize {
        let (id, partition) = (from.member, &from.partition);
        let current = |split: &Split| split.number == from.split;
        let member = &self.members[id];
        let stopped = |split: &Split| split.trouble == Some(Trouble::Stopped);
        let split = member.splits.get(partition);
        if member.is_paused() || !split.is_some_and(|split| current(split) && !stopped(split)) {
            return 0;
        }
        let before = into.len();
        loop {
            let wanted = max - (into.len() - before);
            let Some(split) = self.members[id].splits.get_mut(partition) else { break };
            let records = split.queue.len().min(wanted);
            into.extend((0..records).map_while(|_| split.pop()));
            // A full take may leave the queue empty for a moment: what comes next is signalled.
            self.fill(id, partition);
            let split = &self.members[id].splits[partition];
            if into.len() - before == max || split.queue.is_empty() {
                break;
            }
        }
        let taken = &into[before..];
        if let (Some(first), Some(last)) = (taken.first(), taken.last()) {
            let (first, last, records) = (first.offset(), last.offset(), taken.len());
            let member = &mut self.members[id];
            member.traffic.records_delivered += records as u64;
            member.traffic.bytes_delivered += taken.iter().map(size).sum::<u64>();
            let member = member.name.clone();
            let partition = partition.clone();
            self.saw(|| What::Delivered { member, partition, first, last, records });
        }
        let count = taken.len();
        self.show_trouble(id, partition);
        count
    }

    /// A position outside of the log is noticed where the queue ends.
    fn show_trouble(&mut self, id: MemberId, partition: &TopicPartition) {
        let Some(split) = self.members[id].splits.get_mut(partition) else { return };
        if !split.has_no_position() || !split.queue.is_empty() {
            return;
        }
        let reset = split.trouble.replace(Trouble::Stopped) == Some(Trouble::OutOfRange);
        let offset = split.fetch_at;
        let member = &mut self.members[id];
        if reset {
            member.reset.insert(partition.clone());
        }
        member.tell(Event::PositionLost(partition.clone()));
        let (member, partition) = (member.name.clone(), partition.clone());
        self.saw(|| What::PositionLost { member, partition, offset });
    }

    /// Fetches what there is room for, and signals records that come into an empty queue.
    pub(super) fn fill(&mut self, id: MemberId, partition: &TopicPartition) {
        if !self.reaches_broker(id) || self.members[id].is_paused() {
            return;
        }
        let Self { topics, members, .. } = self;
        let member = &mut members[id];
        let Some(split) = member.splits.get_mut(partition) else { return };
        if split.has_no_position() || split.trouble == Some(Trouble::Stopped) {
            return;
        }
        let log = topics.get(&partition.topic).and_then(|topic| topic.log(partition.partition));
        let Some(log) = log else {
            if split.trouble.replace(Trouble::Gone).is_none() {
                let message = format!("{partition}: the topic or partition does not exist");
                member.tell(Event::Error(SourceError { message, fatal: false }));
            }
            return;
        };
        let showed = split.shows_something();
        split.trouble = None;
        let (records, bytes) = split.fetch(log, member.limits);
        member.traffic.records_fetched += records;
        member.traffic.bytes_fetched += bytes;
        if !showed && split.shows_something() {
            split.arrivals.notify();
        }
    }

    /// A log has more, or less.
    pub(super) fn log_changed(&mut self, partition: &TopicPartition) {
        for id in 0..self.members.len() {
            if self.members[id].splits.contains_key(partition) {
                self.fill(id, partition);
            }
        }
    }

    /// Fetches everything that a member has anew from where it was taken: what was prefetched is gone.
    pub(super) fn fetch_again(&mut self, id: MemberId) {
        let partitions: Vec<_> = self.members[id].splits.keys().cloned().collect();
        for partition in partitions {
            if let Some(split) = self.members[id].splits.get_mut(&partition) {
                split.rewind();
            }
            self.fill(id, &partition);
            let again = self.faults.redelivers();
            self.deliver_again(id, &partition, again);
        }
    }

    /// Fetches for every queue of a member.
    pub(super) fn fill_all(&mut self, id: MemberId) {
        let partitions: Vec<_> = self.members[id].splits.keys().cloned().collect();
        for partition in partitions {
            self.fill(id, &partition);
        }
    }

    /// Puts the last records that were taken into the queue again; returns how many.
    pub(super) fn deliver_again(
        &mut self,
        id: MemberId,
        partition: &TopicPartition,
        records: usize,
    ) -> usize {
        let Self { topics, members, .. } = self;
        let log = topics.get(&partition.topic).and_then(|topic| topic.log(partition.partition));
        let member = &mut members[id];
        let (Some(split), Some(log)) = (member.splits.get_mut(partition), log) else { return 0 };
        if split.trouble == Some(Trouble::Stopped) {
            return 0;
        }
        let mut again = 0;
        for record in log.before(split.position, records).rev() {
            member.traffic.records_fetched += 1;
            member.traffic.bytes_fetched += size(record);
            split.push_front(record.clone());
            again += 1;
        }
        if again > 0 {
            split.arrivals.notify();
        }
        again
    }

    /// Nothing of this partition is handed on until it is assigned again.
    pub(super) fn stop(&mut self, id: MemberId, partition: &TopicPartition) {
        if let Some(split) = self.members[id].splits.get_mut(partition) {
            split.trouble = Some(Trouble::Stopped);
            split.queue.clear();
            split.bytes = 0;
        }
    }
}
