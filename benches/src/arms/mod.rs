//! The consumers that are compared, and what they have in common.

mod buffer_unordered;
mod floor;
mod kpipe;
mod spawn;
mod stream;

use std::fmt;

use clap::ValueEnum;
use kpipe_core::Ordering;
use rdkafka::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde::{Deserialize, Serialize};

use crate::Fallible;
use crate::handler::Handler;
use crate::work::Work;
use crate::workload::KEYS;

/// A consumer to measure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// rdkafka's `StreamConsumer`, each record awaited in place; the client's default settings.
    Stream,
    /// The same with fetch settings that keep it fed.
    StreamTuned,
    /// A task per record and a semaphore, tuned.
    Spawn,
    /// `buffer_unordered` over the stream, tuned.
    BufferUnordered,
    /// KPipe, any record beside any other.
    Parallel,
    /// KPipe, one at a time for each key.
    Key,
    /// KPipe, one at a time in each partition.
    Partition,
    /// KPipe, one at a time.
    Sequential,
    /// No handler: each partition's messages are taken in batches and dropped. What the client costs
    /// at the least, whoever uses it.
    Floor,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "stream",
            Self::StreamTuned => "stream-tuned",
            Self::Spawn => "spawn",
            Self::BufferUnordered => "buffer-unordered",
            Self::Parallel => "parallel",
            Self::Key => "key",
            Self::Partition => "partition",
            Self::Sequential => "sequential",
            Self::Floor => "floor",
        })
    }
}

impl Arm {
    /// Whether the arm hands records to a handler at all.
    pub fn has_handlers(self) -> bool {
        self != Self::Floor
    }

    /// The most handlers that the arm lets run at once.
    pub fn concurrency(self, max_in_flight: usize, partitions: u32) -> usize {
        match self {
            Self::Stream | Self::StreamTuned | Self::Sequential | Self::Floor => 1,
            Self::Partition => max_in_flight.min(partitions as usize),
            Self::Key => max_in_flight.min(KEYS as usize),
            Self::Spawn | Self::BufferUnordered | Self::Parallel => max_in_flight,
        }
    }
}

/// One run of one arm.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RunSpec {
    /// Which one.
    pub arm: Arm,
    /// The broker.
    pub bootstrap: String,
    /// A filled topic; all of it is read.
    pub topic: String,
    /// A group that has committed nothing.
    pub group: String,
    /// Records in the topic.
    pub records: u64,
    /// Partitions of the topic.
    pub partitions: u32,
    /// How many handlers may run at once, where the arm runs more than one.
    pub max_in_flight: usize,
    /// How many records KPipe may hold; its default if `None`.
    pub max_held: Option<u64>,
    /// Options of librdkafka, name and value.
    pub set: Vec<(String, String)>,
}

/// What an arm is given.
#[derive(Debug)]
pub struct Run<W> {
    /// What to read and within which limits.
    pub spec: RunSpec,
    /// What handles the records.
    pub handler: Handler<W>,
}

impl<W> Run<W> {
    /// A client as people set one up that stores offsets itself.
    fn stream_consumer(&self, fetch: Fetch) -> Fallible<StreamConsumer> {
        let consumer: StreamConsumer = self.config(fetch).create()?;
        consumer.subscribe(&[&self.spec.topic])?;
        Ok(consumer)
    }

    fn config(&self, fetch: Fetch) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.spec.bootstrap)
            .set("group.id", &self.spec.group)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.offset.store", "false");
        if let Fetch::Tuned = fetch {
            config.set("fetch.queue.backoff.ms", "10").set("fetch.wait.max.ms", "100");
        }
        for (key, value) in &self.spec.set {
            config.set(key, value);
        }
        config
    }
}

/// How a plain client fetches.
#[derive(Clone, Copy)]
enum Fetch {
    /// As the client comes. Each time 100,000 records are queued its fetcher sleeps for a second.
    Default,
    /// The fetcher looks again after 10 ms.
    Tuned,
}

/// Runs the arm until every record was handled, what it finished is committed and its client is
/// closed.
pub async fn run<W: Work>(run: &'static Run<W>) -> Fallible<()> {
    match run.spec.arm {
        // In a task of its own, so that it runs on a worker: the main task's wake-ups go from thread
        // to thread, and what it spawns goes through the runtime's shared queue.
        Arm::Stream => tokio::spawn(stream::run(run, Fetch::Default)).await?,
        Arm::StreamTuned => tokio::spawn(stream::run(run, Fetch::Tuned)).await?,
        Arm::Spawn => tokio::spawn(spawn::run(run)).await?,
        Arm::BufferUnordered => buffer_unordered::run(run).await,
        Arm::Parallel => kpipe::run(run, Ordering::Parallel).await,
        Arm::Key => kpipe::run(run, Ordering::Key).await,
        Arm::Partition => kpipe::run(run, Ordering::Partition).await,
        Arm::Sequential => kpipe::run(run, Ordering::Sequential).await,
        Arm::Floor => floor::run(run).await,
    }
}

/// Commits what was stored and closes the client; both wait, so not on a worker thread.
async fn close(consumer: StreamConsumer) -> Fallible<()> {
    tokio::task::spawn_blocking(move || match consumer.commit_consumer_state(CommitMode::Sync) {
        // The last automatic commit may have taken it all.
        Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()),
        Err(error) => Err(error.into()),
    })
    .await?
}
