//! Drives a source by hand, as the runtime would, and keeps what it saw.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kpipe_core::source::kafka::Kafka;
use kpipe_core::source::{
    Arrivals, Assignment, Closed, CommitError, CommitOffset, Connect, Event, Source, StartAt,
    Subscription,
};
use kpipe_core::{Error, Record, TopicPartition};

use super::cluster::Cluster;

/// Long enough for anything that comes at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// One way to change an assignment each, with a heartbeat that notices a rebalance soon.
pub(crate) const PROTOCOLS: [&[(&str, &str)]; 3] = [EAGER, COOPERATIVE, CONSUMER];
pub(crate) const EAGER: &[(&str, &str)] =
    &[("partition.assignment.strategy", "range"), ("heartbeat.interval.ms", "300")];
pub(crate) const COOPERATIVE: &[(&str, &str)] =
    &[("partition.assignment.strategy", "cooperative-sticky"), ("heartbeat.interval.ms", "300")];
/// The broker sets its heartbeat: every 5 s by default.
pub(crate) const CONSUMER: &[(&str, &str)] = &[("group.protocol", "consumer")];

/// A member of a group.
pub(crate) struct Member {
    source: Option<Box<dyn Source>>,
    pub(crate) held: BTreeMap<TopicPartition, Held>,
    /// Everything handed out, by partition, over all assignments.
    pub(crate) read: BTreeMap<TopicPartition, Vec<Record>>,
    pub(crate) events: Vec<String>,
    /// How long a revoke waits before it is answered.
    pub(crate) defer: Duration,
    revoking: Option<(Vec<TopicPartition>, Instant)>,
    /// Partitions that are not drained.
    pub(crate) left_alone: Vec<i32>,
    /// At most this many records are taken at a time.
    pub(crate) batch: usize,
}

/// A partition that is assigned.
pub(crate) struct Held {
    pub(crate) assignment: Assignment,
    pub(crate) arrivals: Arrivals,
}

pub(crate) fn group() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("g-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn subscription(group: &str, topic: &str) -> Subscription {
    Subscription {
        group_id: group.into(),
        topics: vec![topic.into()],
        start_at: StartAt::Earliest,
        prefetch_bytes: 64 << 20,
        drain_deadline: None,
    }
}

impl Member {
    pub(crate) async fn join(cluster: Cluster, group: &str, topic: &str) -> Self {
        Self::join_with(Kafka::brokers(cluster.address), subscription(group, topic)).await
    }

    pub(crate) async fn join_with(kafka: Kafka, subscription: Subscription) -> Self {
        Self::try_join(kafka, subscription).await.expect("joins")
    }

    pub(crate) async fn try_join(kafka: Kafka, subscription: Subscription) -> Result<Self, Error> {
        Ok(Self {
            source: Some(Box::new(kafka).connect(subscription).await?),
            held: BTreeMap::new(),
            read: BTreeMap::new(),
            events: Vec::new(),
            defer: Duration::ZERO,
            revoking: None,
            left_alone: Vec::new(),
            batch: 1_000,
        })
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        &mut **self.source.as_mut().expect("not closed")
    }

    /// Works until the condition holds.
    pub(crate) async fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < PATIENCE, "waited for {what}; saw {:?}", self.events);
            self.step().await;
        }
    }

    pub(crate) async fn until_assigned(&mut self, partitions: usize) {
        self.until("an assignment", |me| me.held.len() == partitions).await;
    }

    pub(crate) async fn until_read(&mut self, records: usize) {
        self.until("records", |me| me.count() >= records).await;
    }

    pub(crate) fn count(&self) -> usize {
        self.read.values().map(Vec::len).sum()
    }

    /// The offsets read of a partition, in the order in which they came.
    pub(crate) fn offsets(&self, partition: i32) -> Vec<i64> {
        let of = |(place, _): &(&TopicPartition, _)| place.partition == partition;
        self.read.iter().filter(of).flat_map(|(_, read)| read.iter().map(Record::offset)).collect()
    }

    pub(crate) fn partitions(&self) -> Vec<i32> {
        self.held.keys().map(|place| place.partition).collect()
    }

    pub(crate) fn saw(&self, event: &str) -> bool {
        self.events.iter().any(|seen| seen.contains(event))
    }

    /// Takes what is there, then deals with one event, if one comes soon.
    pub(crate) async fn step(&mut self) {
        self.drain();
        if self.revoking.as_ref().is_some_and(|(_, due)| Instant::now() >= *due) {
            let (partitions, _) = self.revoking.take().expect("just looked");
            self.unassign(partitions).await;
        }
        let wait = Duration::from_millis(10);
        let Ok(event) = tokio::time::timeout(wait, self.source().next_event()).await else {
            return;
        };
        self.events.push(format!("{event:?}"));
        match event {
            Event::Assigned(partitions) => self.assign(partitions).await,
            Event::Revoked(partitions) if self.defer.is_zero() => self.unassign(partitions).await,
            Event::Revoked(partitions) => {
                self.revoking = Some((partitions, Instant::now() + self.defer));
            }
            Event::Lost(partitions) => {
                self.revoking = None;
                self.unassign(partitions).await;
            }
            Event::PositionLost(place) => {
                self.unassign(vec![place.clone()]).await;
                self.assign(vec![place]).await;
            }
            Event::Failed(..) | Event::Error(_) => {}
        }
    }

    pub(crate) async fn assign(&mut self, partitions: Vec<TopicPartition>) {
        let wanted: Vec<_> = partitions.into_iter().map(|one| (one, Arrivals::new())).collect();
        let arrivals: BTreeMap<_, _> = wanted.iter().cloned().collect();
        for assignment in self.source().assign(wanted).await {
            let place = assignment.partition.clone();
            let arrivals = arrivals[&place].clone();
            self.held.insert(place, Held { assignment, arrivals });
        }
    }

    pub(crate) async fn unassign(&mut self, partitions: Vec<TopicPartition>) {
        for place in &partitions {
            self.held.remove(place);
        }
        self.source().unassign(partitions).await;
    }

    pub(crate) fn drain(&mut self) {
        for (place, held) in &self.held {
            if self.left_alone.contains(&place.partition) {
                continue;
            }
            let read = self.read.entry(place.clone()).or_default();
            held.assignment.queue.take(self.batch, read);
        }
    }

    pub(crate) async fn commit(
        &mut self,
        offsets: &[(&str, i32, i64)],
    ) -> Vec<Result<(), CommitError>> {
        let offsets = offsets.iter().map(|(topic, partition, next)| CommitOffset {
            partition: TopicPartition::new(*topic, *partition),
            next: *next,
        });
        let offsets = offsets.collect();
        self.source().commit(offsets).await
    }

    pub(crate) async fn close(mut self, within: Duration) -> (Closed, Duration) {
        let start = Instant::now();
        let closed = self.source.take().expect("not closed").close(within).await;
        (closed, start.elapsed())
    }
}

/// Every offset from `from` up to `to`, once and in order.
pub(crate) fn assert_contiguous(offsets: &[i64], from: i64, to: i64) {
    let expected: Vec<i64> = (from..to).collect();
    assert_same(offsets, &expected);
}

/// Shows the first difference only.
pub(crate) fn assert_same<T: PartialEq + Debug>(found: &[T], expected: &[T]) {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(at) = differs {
        panic!("at {at}: found {:?}, expected {:?}", found[at], expected[at]);
    }
    assert_eq!(found.len(), expected.len(), "length");
}
