//! A source in memory: a topic whose records are all there, so that what is measured is the consumer
//! and nothing of a client or a broker.

use std::fmt;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use kpipe_core::source::{
    Arrivals, Assignment, Closed, CommitError, CommitOffset, Connect, Event, PartitionQueue,
    Source, Subscription, Traffic,
};
use kpipe_core::{Error, Record, TopicPartition};

use crate::workload::{self, KEYS, VALUE_LEN};

/// The records of a topic by partition. A clone shares them; each connection reads them all.
#[derive(Clone)]
pub struct Memory {
    topic: Arc<str>,
    partitions: Arc<[Arc<[Record]>]>,
}

impl Memory {
    /// The topic that the broker's benches fill, in memory.
    pub fn fill(topic: &str, records: u64, partitions: u32) -> Self {
        let topic: Arc<str> = topic.into();
        let keys: Vec<_> = (0..KEYS).map(|key| bytes::Bytes::from(workload::key(key))).collect();
        let mut filled = vec![Vec::new(); partitions as usize];
        let mut value = [0; VALUE_LEN];
        for i in 0..records {
            workload::encode(i, &mut value);
            let partition = workload::partition(i, partitions);
            let into = &mut filled[partition as usize];
            let record = Record::builder(topic.clone(), partition, into.len() as i64)
                .key(keys[(i % KEYS) as usize].clone())
                .value(value.to_vec());
            into.push(record.build());
        }
        Self { topic, partitions: filled.into_iter().map(Arc::from).collect() }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// All records, a batch of each partition in turn, as a plain consumer gets them.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let queues: Vec<_> = self.partitions.iter().cloned().map(Queue::new).collect();
        let mut batch = Vec::new();
        let mut turn = 0;
        std::iter::from_fn(move || {
            while batch.is_empty() {
                let found = (0..queues.len()).any(|_| {
                    turn = (turn + 1) % queues.len();
                    queues[turn].take(PLAIN_BATCH, &mut batch) > 0
                });
                if !found {
                    return None;
                }
                batch.reverse();
            }
            batch.pop()
        })
    }
}

/// Records that a plain consumer gets from one partition before it turns to the next.
const PLAIN_BATCH: usize = 500;

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl Connect for Memory {
    fn connect(
        self: Box<Self>,
        _: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, Error>> {
        let source = Membership { memory: *self, assigned: false, delivered: Arc::default() };
        ready(Ok(Box::new(source) as Box<dyn Source>)).boxed()
    }
}

/// The one member of its group.
struct Membership {
    memory: Memory,
    assigned: bool,
    delivered: Arc<Mutex<Traffic>>,
}

impl Membership {
    fn partition(&self, number: usize) -> TopicPartition {
        TopicPartition::new(self.memory.topic.clone(), number as i32)
    }
}

impl Source for Membership {
    fn next_event(&mut self) -> BoxFuture<'_, Event> {
        if self.assigned {
            return pending().boxed();
        }
        self.assigned = true;
        let all = (0..self.memory.partitions.len()).map(|number| self.partition(number));
        ready(Event::Assigned(all.collect())).boxed()
    }

    fn assign(
        &mut self,
        partitions: Vec<(TopicPartition, Arrivals)>,
    ) -> BoxFuture<'static, Vec<Assignment>> {
        let assigned = partitions.into_iter().map(|(partition, arrivals)| {
            let records = self.memory.partitions[partition.partition as usize].clone();
            let traffic = self.delivered.clone();
            let queue = Box::new(Counted { queue: Queue::new(records), traffic });
            arrivals.notify();
            Assignment { partition, start: 0, uncommitted_start: false, queue }
        });
        let assigned: Vec<_> = assigned.collect();
        ready(assigned).boxed()
    }

    fn unassign(&mut self, _: Vec<TopicPartition>) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn commit(
        &self,
        offsets: Vec<CommitOffset>,
    ) -> BoxFuture<'static, Vec<Result<(), CommitError>>> {
        ready(offsets.iter().map(|_| Ok(())).collect()).boxed()
    }

    fn log_ends(&self, partitions: Vec<TopicPartition>) -> BoxFuture<'static, Vec<Option<i64>>> {
        let end = |at: &TopicPartition| self.memory.partitions.get(at.partition as usize);
        let ends = partitions.iter().map(|at| end(at).map(|records| records.len() as i64));
        ready(ends.collect()).boxed()
    }

    fn traffic(&self) -> Traffic {
        let delivered = *self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        Traffic {
            records_fetched: delivered.records_delivered,
            bytes_fetched: delivered.bytes_delivered,
            last_poll: Some(Instant::now()),
            ..delivered
        }
    }

    fn close(self: Box<Self>, _: Duration) -> BoxFuture<'static, Closed> {
        ready(Closed::Completely).boxed()
    }
}

/// One reader of one partition.
struct Queue {
    records: Arc<[Record]>,
    next: AtomicUsize,
}

impl Queue {
    fn new(records: Arc<[Record]>) -> Self {
        Self { records, next: AtomicUsize::new(0) }
    }
}

impl PartitionQueue for Queue {
    fn take(&self, max: usize, into: &mut Vec<Record>) -> usize {
        let start = self.next.load(Relaxed);
        let end = self.records.len().min(start + max);
        into.extend_from_slice(&self.records[start..end]);
        self.next.store(end, Relaxed);
        end - start
    }
}

/// A queue that tells what it delivered, as the client's does.
struct Counted {
    queue: Queue,
    traffic: Arc<Mutex<Traffic>>,
}

impl PartitionQueue for Counted {
    fn take(&self, max: usize, into: &mut Vec<Record>) -> usize {
        let taken = self.queue.take(max, into);
        let bytes: usize = into[into.len() - taken..].iter().map(Record::payload_len).sum();
        let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.records_delivered += taken as u64;
        traffic.bytes_delivered += bytes as u64;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_consumer_gets_every_record_of_a_partition_in_order() {
        let memory = Memory::fill("numbers", 12_345, 8);
        let mut next = [0; 8];
        for record in memory.records() {
            let next = &mut next[record.partition() as usize];
            assert_eq!(record.offset(), *next);
            *next += 1;
        }
        assert_eq!(next.iter().sum::<i64>(), 12_345);
    }
}
