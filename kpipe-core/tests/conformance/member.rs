//! A member without a runtime: it makes the calls that the runtime would, and keeps what it saw.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kpipe_core::source::{
    Arrivals, Assignment, Closed, CommitErrorKind, CommitOffset, Connect, Event, Source,
    Subscription,
};
use kpipe_core::{Error, Record, StartAt, TopicPartition};
use tokio::time::Instant;

use crate::PATIENCE;
use crate::cluster::Cluster;

/// An event without what differs from client to client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Assigned(Vec<i32>),
    Revoked(Vec<i32>),
    Lost(Vec<i32>),
    PositionLost(i32),
    Failed(i32),
    Error { fatal: bool },
}

pub(crate) struct Member {
    source: Box<dyn Source>,
    pub(crate) held: BTreeMap<TopicPartition, Assignment>,
    /// Everything that was handed out, over all assignments.
    pub(crate) read: BTreeMap<TopicPartition, Vec<Record>>,
    pub(crate) seen: Vec<Seen>,
    /// Nothing is let go of; what the member was asked for, or has lost, is noted in `kept`.
    pub(crate) keeps: bool,
    pub(crate) kept: Vec<TopicPartition>,
    /// Partitions that are not drained.
    pub(crate) left_alone: Vec<i32>,
}

/// Joins as a first member of a group would, from the earliest record.
pub(crate) async fn join(cluster: &impl Cluster, group: &str, topics: &[&str]) -> Member {
    join_at(cluster, group, topics, StartAt::Earliest).await
}

pub(crate) async fn join_at(
    cluster: &impl Cluster,
    group: &str,
    topics: &[&str],
    start_at: StartAt,
) -> Member {
    let client = cluster.client(None);
    Member::connect(client, group, topics, start_at).await.expect("joins")
}

impl Member {
    pub(crate) async fn connect(
        client: impl Connect,
        group: &str,
        topics: &[&str],
        start_at: StartAt,
    ) -> Result<Self, Error> {
        let subscription = Subscription {
            group_id: group.to_owned(),
            topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
            start_at,
            prefetch_bytes: 64 << 20,
            drain_deadline: None,
        };
        Ok(Self {
            source: Box::new(client).connect(subscription).await?,
            held: BTreeMap::new(),
            read: BTreeMap::new(),
            seen: Vec::new(),
            keeps: false,
            kept: Vec::new(),
            left_alone: Vec::new(),
        })
    }

    /// Takes what is there, then deals with one event, if one comes soon.
    pub(crate) async fn step(&mut self) {
        self.drain();
        let soon = Duration::from_millis(10);
        let Ok(event) = tokio::time::timeout(soon, self.source.next_event()).await else { return };
        match event {
            Event::Assigned(places) => {
                // Of assignments of nothing Kafka's client tells more than there are rebalances, and the
                // in-memory one nothing: a runtime has nothing to do for them.
                if !places.is_empty() {
                    self.seen.push(Seen::Assigned(numbers(&places)));
                }
                self.assign(places).await;
            }
            Event::Revoked(places) => {
                self.seen.push(Seen::Revoked(numbers(&places)));
                self.asked_for(places).await;
            }
            Event::Lost(places) => {
                self.seen.push(Seen::Lost(numbers(&places)));
                self.asked_for(places).await;
            }
            Event::PositionLost(place) => {
                self.seen.push(Seen::PositionLost(place.partition));
                self.unassign(vec![place.clone()]).await;
                self.assign(vec![place]).await;
            }
            Event::Failed(place, _) => self.seen.push(Seen::Failed(place.partition)),
            Event::Error(error) => self.seen.push(Seen::Error { fatal: error.fatal }),
        }
    }

    fn drain(&mut self) {
        for (place, assignment) in &self.held {
            if !self.left_alone.contains(&place.partition) {
                let read = self.read.entry(place.clone()).or_default();
                assignment.queue.take(1_000, read);
            }
        }
    }

    pub(crate) async fn assign(&mut self, places: Vec<TopicPartition>) {
        let wanted = places.into_iter().map(|place| (place, Arrivals::new())).collect();
        for assignment in self.source.assign(wanted).await {
            self.held.insert(assignment.partition.clone(), assignment);
        }
    }

    async fn asked_for(&mut self, places: Vec<TopicPartition>) {
        if self.keeps {
            self.kept.extend(places);
        } else {
            self.unassign(places).await;
        }
    }

    /// Lets go of what it kept, and of what it is asked for from now on.
    pub(crate) async fn let_go(&mut self) {
        self.keeps = false;
        let kept = std::mem::take(&mut self.kept);
        self.unassign(kept).await;
    }

    async fn unassign(&mut self, places: Vec<TopicPartition>) {
        for place in &places {
            self.held.remove(place);
        }
        self.source.unassign(places).await;
    }

    /// Steps until the condition holds.
    pub(crate) async fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < PATIENCE, "waited for {what}; saw {:?}", self.seen);
            self.step().await;
        }
    }

    pub(crate) async fn until_held(&mut self, partitions: usize) {
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

    /// Where a partition starts, and whether nobody has committed that.
    pub(crate) fn start(&self, partition: i32) -> (i64, bool) {
        let held = self.held.values().find(|held| held.partition.partition == partition);
        let held = held.expect("held");
        (held.start, held.uncommitted_start)
    }

    /// How many records the client says that it handed over.
    pub(crate) fn delivered(&self) -> u64 {
        self.source.traffic().records_delivered
    }

    pub(crate) fn rebalance_timeout(&self) -> Duration {
        self.source.rebalance_timeout()
    }

    /// Whether it saw an event.
    pub(crate) fn saw(&self, event: &Seen) -> bool {
        self.seen.contains(event)
    }

    /// What happened to it, by how many partitions: who gets which of them is up to the assignor.
    pub(crate) fn story(&self) -> String {
        let told = self.seen.iter().map(|seen| match seen {
            Seen::Assigned(partitions) => format!("assigned {}", partitions.len()),
            Seen::Revoked(partitions) => format!("revoked {}", partitions.len()),
            Seen::Lost(partitions) => format!("lost {}", partitions.len()),
            other => format!("{other:?}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    pub(crate) async fn commit(
        &self,
        topic: &str,
        offsets: &[(i32, i64)],
    ) -> Vec<Result<(), CommitErrorKind>> {
        let offsets = offsets.iter().map(|(partition, next)| CommitOffset {
            partition: TopicPartition::new(topic, *partition),
            next: *next,
        });
        self.commit_all(offsets).await
    }

    /// One answer for each, in their order.
    pub(crate) async fn commit_all(
        &self,
        offsets: impl IntoIterator<Item = CommitOffset>,
    ) -> Vec<Result<(), CommitErrorKind>> {
        let answers = self.source.commit(offsets.into_iter().collect()).await;
        answers.into_iter().map(|answer| answer.map_err(|error| error.kind)).collect()
    }

    pub(crate) async fn log_ends(&self, topic: &str, partitions: &[i32]) -> Vec<Option<i64>> {
        let places = partitions.iter().map(|partition| TopicPartition::new(topic, *partition));
        self.source.log_ends(places.collect()).await
    }

    pub(crate) async fn close(self) {
        let closed = self.source.close(Duration::from_secs(10)).await;
        assert_eq!(closed, Closed::Completely);
    }
}

/// Has both step until the condition holds.
pub(crate) async fn both_until(
    one: &mut Member,
    other: &mut Member,
    what: &str,
    so: impl Fn(&Member, &Member) -> bool,
) {
    let begun = Instant::now();
    while !so(one, other) {
        let late = begun.elapsed() >= PATIENCE;
        assert!(!late, "waited for {what}; saw {:?} and {:?}", one.seen, other.seen);
        tokio::join!(one.step(), other.step());
    }
}

fn numbers(places: &[TopicPartition]) -> Vec<i32> {
    let mut numbers: Vec<i32> = places.iter().map(|place| place.partition).collect();
    numbers.sort_unstable();
    numbers
}
