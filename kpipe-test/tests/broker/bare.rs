//! A member without a runtime: the test makes the calls that the runtime would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kpipe_core::source::{
    Arrivals, CommitError, CommitErrorKind, CommitOffset, Connect, Event, PartitionQueue, Source,
    Subscription,
};
use kpipe_core::{Record, StartAt, TopicPartition};
use kpipe_test::Client;

pub(crate) const GROUP: &str = "group";
pub(crate) const TOPIC: &str = "orders";

pub(crate) struct Bare {
    pub(crate) source: Box<dyn Source>,
    queues: BTreeMap<i32, Box<dyn PartitionQueue>>,
    pub(crate) arrivals: BTreeMap<i32, Arrivals>,
    pub(crate) starts: BTreeMap<i32, (i64, bool)>,
}

pub(crate) fn at(partition: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, partition)
}

pub(crate) fn subscription(start_at: StartAt) -> Subscription {
    Subscription {
        group_id: GROUP.to_owned(),
        topics: vec![Arc::from(TOPIC)],
        start_at,
        prefetch_bytes: 1 << 20,
        drain_deadline: None,
    }
}

fn numbers(partitions: &[TopicPartition]) -> Vec<i32> {
    partitions.iter().map(|partition| partition.partition).collect()
}

impl Bare {
    pub(crate) async fn join(client: Client) -> Self {
        Self::join_from(client, StartAt::Earliest).await
    }

    pub(crate) async fn join_from(client: Client, start_at: StartAt) -> Self {
        let source = Box::new(client).connect(subscription(start_at)).await.unwrap();
        Self { source, queues: BTreeMap::new(), arrivals: BTreeMap::new(), starts: BTreeMap::new() }
    }

    /// The event that is there, in words: `assigned [0, 1]`.
    pub(crate) fn event(&mut self) -> Option<String> {
        let event = self.source.next_event().now_or_never()?;
        Some(match event {
            Event::Assigned(partitions) => format!("assigned {:?}", numbers(&partitions)),
            Event::Revoked(partitions) => format!("revoked {:?}", numbers(&partitions)),
            Event::Lost(partitions) => format!("lost {:?}", numbers(&partitions)),
            Event::PositionLost(partition) => format!("position lost {}", partition.partition),
            Event::Failed(partition, error) => format!("failed {}: {error}", partition.partition),
            Event::Error(error) if error.fatal => format!("fatal {error}"),
            Event::Error(error) => format!("error {error}"),
        })
    }

    /// Carries out an event, if one is there.
    pub(crate) async fn serve(&mut self) -> bool {
        let Some(event) = self.source.next_event().now_or_never() else { return false };
        match event {
            Event::Assigned(partitions) => self.assign(numbers(&partitions)).await,
            Event::Revoked(partitions) | Event::Lost(partitions) => {
                self.unassign(numbers(&partitions)).await;
            }
            Event::PositionLost(partition) => {
                self.unassign(vec![partition.partition]).await;
                self.assign(vec![partition.partition]).await;
            }
            Event::Failed(partition, _) => self.assign(vec![partition.partition]).await,
            Event::Error(_) => {}
        }
        true
    }

    /// Carries out the event that must be there.
    pub(crate) async fn follow(&mut self, expected: &str) {
        assert_eq!(self.event().as_deref(), Some(expected));
        let list = |text: &str| -> Vec<i32> {
            let inner = text.trim_matches(['[', ']']);
            inner.split(", ").map(|number| number.parse().unwrap()).collect()
        };
        match expected.split_once(' ') {
            Some(("assigned", partitions)) => self.assign(list(partitions)).await,
            Some(("revoked" | "lost", partitions)) => self.unassign(list(partitions)).await,
            _ => {}
        }
    }

    pub(crate) async fn assign(&mut self, partitions: Vec<i32>) {
        let wanted = partitions.iter().map(|partition| (at(*partition), Arrivals::new())).collect();
        for (partition, arrivals) in &wanted as &Vec<(TopicPartition, Arrivals)> {
            self.arrivals.insert(partition.partition, arrivals.clone());
        }
        for assignment in self.source.assign(wanted).await {
            let partition = assignment.partition.partition;
            self.starts.insert(partition, (assignment.start, !assignment.uncommitted_start));
            self.queues.insert(partition, assignment.queue);
        }
    }

    pub(crate) async fn unassign(&mut self, partitions: Vec<i32>) {
        self.source.unassign(partitions.into_iter().map(at).collect()).await;
    }

    /// The offsets of what comes out of a queue, at most `max`.
    pub(crate) fn take(&self, partition: i32, max: usize) -> Vec<i64> {
        let mut records = Vec::new();
        let Some(queue) = self.queues.get(&partition) else { return Vec::new() };
        let taken = queue.take(max, &mut records);
        assert_eq!(taken, records.len());
        records.iter().map(Record::offset).collect()
    }

    pub(crate) async fn commit(&self, partition: i32, next: i64) -> Result<(), CommitErrorKind> {
        let offset = CommitOffset { partition: at(partition), next };
        let mut answers = self.source.commit(vec![offset]).await;
        answers.pop().unwrap().map_err(|error: CommitError| error.kind)
    }

    pub(crate) async fn leave(self) {
        self.source.close(Duration::from_secs(1)).await;
    }
}
