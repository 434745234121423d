//! A source in memory whose group does what a test says. It lives on the test's own runtime, so that
//! a paused clock covers everything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kpipe_core::source::{
    Arrivals, Assignment, Closed, CommitError, CommitErrorKind, CommitOffset, Connect, Event,
    PartitionQueue, Source, SourceError, Subscription, Traffic,
};
use kpipe_core::{Error, Record, TopicPartition};
use tokio::sync::{mpsc, watch};

/// The test's end of the source; also what connects it.
#[derive(Clone)]
pub(crate) struct Cluster {
    state: Arc<Mutex<State>>,
    events: mpsc::UnboundedSender<Event>,
    receiver: Arc<Mutex<Option<mpsc::UnboundedReceiver<Event>>>>,
}

#[derive(Default)]
struct State {
    logs: BTreeMap<TopicPartition, Vec<Record>>,
    committed: BTreeMap<TopicPartition, i64>,
    assigned: BTreeMap<TopicPartition, Cursor>,
    /// Every commit that was asked for, in order.
    commits: Vec<(TopicPartition, i64)>,
    /// How the next commits are answered; `Ok` once it is empty.
    answers: VecDeque<CommitErrorKind>,
    /// Commits are answered once this is true.
    answering: watch::Sender<bool>,
    released: Vec<TopicPartition>,
    /// How often each partition still fails to be assigned.
    failing: BTreeMap<TopicPartition, u32>,
    assigns_take: Duration,
    take_panics: bool,
    control_thread: bool,
    closed: bool,
    close_hangs: bool,
    taken: u64,
    takes: u64,
}

struct Cursor {
    at: usize,
    epoch: u64,
    arrivals: Arrivals,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let (events, receiver) = mpsc::unbounded_channel();
        let receiver = Arc::new(Mutex::new(Some(receiver)));
        let cluster = Self { state: Arc::default(), events, receiver };
        cluster.answer_commits(true);
        cluster
    }

    /// Lets commits wait for their answer, or go on.
    pub(crate) fn answer_commits(&self, answering: bool) {
        self.state().answering.send_replace(answering);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Appends a record with the next offset.
    pub(crate) fn produce(&self, topic: &str, partition: i32, key: Option<&str>, value: &str) {
        let mut state = self.state();
        let id = TopicPartition::new(topic, partition);
        let log = state.logs.entry(id.clone()).or_default();
        let next = log.last().map_or(0, |record| record.offset() + 1);
        let mut record = Record::builder(topic, partition, next).value(value.to_owned());
        if let Some(key) = key {
            record = record.key(key.to_owned());
        }
        log.push(record.build());
        if let Some(cursor) = state.assigned.get(&id) {
            cursor.arrivals.notify();
        }
    }

    /// Appends a record as it is, at whatever offset it names.
    pub(crate) fn append(&self, record: Record) {
        let id = TopicPartition::new(record.topic(), record.partition());
        let mut state = self.state();
        state.logs.entry(id.clone()).or_default().push(record);
        if let Some(cursor) = state.assigned.get(&id) {
            cursor.arrivals.notify();
        }
    }

    pub(crate) fn send(&self, event: Event) {
        self.events.send(event).expect("the source listens");
    }

    pub(crate) fn assign(&self, topic: &str, partitions: impl IntoIterator<Item = i32>) {
        self.send(Event::Assigned(ids(topic, partitions)));
    }

    pub(crate) fn revoke(&self, topic: &str, partitions: impl IntoIterator<Item = i32>) {
        self.send(Event::Revoked(ids(topic, partitions)));
    }

    /// Answers the next commits with these errors.
    pub(crate) fn fail_commits(&self, kinds: impl IntoIterator<Item = CommitErrorKind>) {
        self.state().answers.extend(kinds);
    }

    /// Lets the next assignments of a partition fail.
    pub(crate) fn fail_assigns(&self, topic: &str, partition: i32, times: u32) {
        self.state().failing.insert(TopicPartition::new(topic, partition), times);
    }

    /// Lets assignments take so long from now on.
    pub(crate) fn slow_assigns(&self, takes: Duration) {
        self.state().assigns_take = takes;
    }

    /// Lets every look into a queue panic.
    pub(crate) fn panic_at_takes(&self) {
        self.state().take_panics = true;
    }

    /// Lets the close never end.
    pub(crate) fn hang_at_close(&self) {
        self.state().close_hangs = true;
    }

    /// Has the control loop run on a thread of its own.
    pub(crate) fn with_control_thread(&self) {
        self.state().control_thread = true;
    }

    pub(crate) fn committed(&self, topic: &str, partition: i32) -> Option<i64> {
        self.state().committed.get(&TopicPartition::new(topic, partition)).copied()
    }

    pub(crate) fn commits(&self) -> Vec<(TopicPartition, i64)> {
        self.state().commits.clone()
    }

    pub(crate) fn released(&self) -> Vec<TopicPartition> {
        self.state().released.clone()
    }

    pub(crate) fn closed(&self) -> bool {
        self.state().closed
    }

    /// How often a queue was asked for records.
    pub(crate) fn takes(&self) -> u64 {
        self.state().takes
    }

    /// Records that left the queues.
    pub(crate) fn taken(&self) -> u64 {
        self.state().taken
    }
}

fn ids(topic: &str, partitions: impl IntoIterator<Item = i32>) -> Vec<TopicPartition> {
    partitions.into_iter().map(|partition| TopicPartition::new(topic, partition)).collect()
}

impl Connect for Cluster {
    fn connect(
        self: Box<Self>,
        _: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, Error>> {
        let events = self.receiver.lock().unwrap().take().expect("a cluster is connected once");
        let source: Box<dyn Source> = Box::new(Member { cluster: *self, events, epochs: 0 });
        async move { Ok(source) }.boxed()
    }
}

struct Member {
    cluster: Cluster,
    events: mpsc::UnboundedReceiver<Event>,
    epochs: u64,
}

impl Source for Member {
    fn next_event(&mut self) -> BoxFuture<'_, Event> {
        async {
            match self.events.recv().await {
                Some(event) => event,
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn assign(
        &mut self,
        partitions: Vec<(TopicPartition, Arrivals)>,
    ) -> BoxFuture<'static, Vec<Assignment>> {
        let mut assignments = Vec::new();
        for (partition, arrivals) in partitions {
            self.epochs += 1;
            let mut state = self.cluster.state();
            if let Some(left) = state.failing.get_mut(&partition).filter(|left| **left > 0) {
                *left -= 1;
                let error = SourceError { message: "scripted".to_owned(), fatal: false };
                self.cluster.send(Event::Failed(partition, error));
                continue;
            }
            let committed = state.committed.get(&partition).copied();
            let log = state.logs.entry(partition.clone()).or_default();
            let start = committed.or(log.first().map(Record::offset)).unwrap_or(0);
            let at = log.partition_point(|record| record.offset() < start);
            let queue = Queue {
                cluster: self.cluster.clone(),
                partition: partition.clone(),
                epoch: self.epochs,
            };
            arrivals.notify();
            let cursor = Cursor { at, epoch: self.epochs, arrivals };
            state.assigned.insert(partition.clone(), cursor);
            assignments.push(Assignment {
                partition,
                start,
                uncommitted_start: committed.is_none(),
                queue: Box::new(queue),
            });
        }
        let takes = self.cluster.state().assigns_take;
        async move {
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            assignments
        }
        .boxed()
    }

    fn unassign(&mut self, partitions: Vec<TopicPartition>) -> BoxFuture<'_, ()> {
        let mut state = self.cluster.state();
        for partition in partitions {
            state.assigned.remove(&partition);
            state.released.push(partition);
        }
        async {}.boxed()
    }

    fn commit(
        &self,
        offsets: Vec<CommitOffset>,
    ) -> BoxFuture<'static, Vec<Result<(), CommitError>>> {
        let mut state = self.cluster.state();
        let failure = state.answers.pop_front();
        let answers = offsets
            .into_iter()
            .map(|CommitOffset { partition, next, .. }| {
                state.commits.push((partition.clone(), next));
                match failure {
                    None => {
                        state.committed.insert(partition, next);
                        Ok(())
                    }
                    Some(kind) => Err(CommitError { kind, message: "scripted".to_owned() }),
                }
            })
            .collect();
        let mut answering = state.answering.subscribe();
        async move {
            // The sender lives as long as the cluster, and the cluster as long as its members.
            let _ = answering.wait_for(|answering| *answering).await;
            answers
        }
        .boxed()
    }

    fn log_ends(&self, partitions: Vec<TopicPartition>) -> BoxFuture<'static, Vec<Option<i64>>> {
        let state = self.cluster.state();
        let end = |id| {
            let last = state.logs.get(id)?.last();
            Some(last.map_or(0, |record| record.offset() + 1))
        };
        let ends = partitions.iter().map(end).collect();
        async { ends }.boxed()
    }

    fn traffic(&self) -> Traffic {
        Traffic { records_delivered: self.cluster.taken(), ..Traffic::default() }
    }

    fn wants_control_thread(&self) -> bool {
        self.cluster.state().control_thread
    }

    fn close(self: Box<Self>, _: Duration) -> BoxFuture<'static, Closed> {
        let mut state = self.cluster.state();
        state.closed = true;
        if state.close_hangs {
            futures::future::pending().boxed()
        } else {
            async { Closed::Completely }.boxed()
        }
    }
}

struct Queue {
    cluster: Cluster,
    partition: TopicPartition,
    epoch: u64,
}

impl PartitionQueue for Queue {
    fn take(&self, max: usize, into: &mut Vec<Record>) -> usize {
        let mut state = self.cluster.state();
        let State { logs, assigned, taken, takes, take_panics, .. } = &mut *state;
        *takes += 1;
        assert!(!*take_panics, "asked to panic");
        let Some(cursor) = assigned.get_mut(&self.partition).filter(|c| c.epoch == self.epoch)
        else {
            return 0;
        };
        let log = &logs[&self.partition];
        let end = log.len().min(cursor.at + max);
        into.extend_from_slice(&log[cursor.at..end]);
        let count = end - cursor.at;
        cursor.at = end;
        *taken += count as u64;
        count
    }
}
