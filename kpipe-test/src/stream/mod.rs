//! The production runtime over an in-memory broker, for unit tests.

mod chaos;
mod flush;
mod ticker;

pub use self::chaos::Chaos;
pub(crate) use self::chaos::hand_back_all;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kpipe_core::{Consumer, Error, Record, Report, Running, TopicPartition};

use crate::broker::Broker;
use crate::clock::SharedClock;
use crate::record::TestRecord;
use crate::run::Run;
use crate::witness::Witness;

/// The name of the consumer under test in its group.
pub(crate) const MEMBER: &str = "stream";
/// How long handlers may do nothing, in real time, before a flush takes them for stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// A consumer under test: the production runtime, over a broker in memory.
///
/// It takes the definition that `main` starts, unchanged. What it does with records (order, limits,
/// failures, commits) is the runtime's doing and none of its own.
///
/// KPipe's own waits (commit interval, deadlines) pass in no time, whether or not the test's runtime is
/// paused; what handlers do takes as long as it takes. It works on both kinds of tokio runtime.
///
/// ```
/// use kpipe_core::{Consumer, Failure, OnFailure, Record};
/// use kpipe_test::{TestRecord, TestStream};
///
/// // The service: in its own crate, and started by its `main`.
/// fn billing(limit: u64) -> Consumer {
///     Consumer::new("billing")
///         .topic("payments", move |record: Record| async move {
///             let amount: u64 = std::str::from_utf8(record.value().unwrap_or_default())?.parse()?;
///             if amount > limit {
///                 return Err(Failure::msg("over the limit"));
///             }
///             Ok(())
///         })
///         .on_failure(OnFailure::Drop)
/// }
///
/// #[tokio::test]
/// # async fn test() {}
/// # #[tokio::main(flavor = "current_thread")]
/// async fn a_payment_over_the_limit_is_dropped_and_the_next_one_of_its_card_goes_on() {
///     let mut stream = TestStream::new(billing(100));
///     stream.send("payments", TestRecord::key("card-1").value("250"));
///     stream.send("payments", TestRecord::key("card-1").value("40"));
///     let run = stream.flush().await;
///     run.assert_all_finished();
///     run.assert_in_order_per_key();
///     assert_eq!(run.record("payments", 0, 0).unwrap().errors, ["over the limit"]);
///     assert_eq!(run.committed("payments", 0), Some(2));
/// }
/// # a_payment_over_the_limit_is_dropped_and_the_next_one_of_its_card_goes_on();
/// ```
pub struct TestStream {
    consumer: Option<Consumer>,
    running: Option<Running>,
    group: String,
    topics: Vec<String>,
    partitions: i32,
    patience: Duration,
    broker: Broker,
    clock: SharedClock,
    witness: Arc<Witness>,
}

impl TestStream {
    /// Takes a definition. Nothing runs before the first [`flush`](Self::flush).
    pub fn new(consumer: Consumer) -> Self {
        let clock = SharedClock::default();
        let broker = Broker::with_time(Arc::new(clock.clone()));
        let witness = Arc::new(Witness::new(Arc::new(clock.clone())));
        Self::over(consumer, broker, clock, witness)
    }

    /// One over a broker that is there already.
    pub(crate) fn over(
        consumer: Consumer,
        broker: Broker,
        clock: SharedClock,
        witness: Arc<Witness>,
    ) -> Self {
        let group = consumer.group_id().to_owned();
        let topics = consumer.topics().map(str::to_owned).collect();
        Self {
            consumer: Some(consumer),
            running: None,
            group,
            topics,
            partitions: 1,
            patience: PATIENCE,
            broker,
            witness,
            clock,
        }
    }

    /// How many partitions each of the consumer's topics has, from 1; default 1. To be said before
    /// anything is sent.
    ///
    /// # Panics
    /// If it is less than 1, or something was sent already.
    #[must_use]
    #[track_caller]
    pub fn partitions(mut self, partitions: i32) -> Self {
        assert!(partitions >= 1, "partitions = {partitions}: must be at least 1");
        let empty = self.topics.iter().all(|topic| self.broker.partitions(topic).is_none());
        assert!(empty, "partitions = {partitions}: must be said before anything is sent");
        self.partitions = partitions;
        self
    }

    /// How long handlers may do nothing, in real time, before a flush takes them for stuck and lets
    /// their deadlines pass; default 1 s. What a handler waits for outside of the process (a socket, a
    /// blocking task) must not take longer.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The broker that the stream runs on: to make further topics, read what was written, and script
    /// faults.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Sends a record to one of the consumer's topics, or another that the broker has, and says where it
    /// lies: partition and offset.
    ///
    /// # Panics
    /// If there is no such topic or partition.
    #[track_caller]
    pub fn send(&mut self, topic: &str, record: TestRecord) -> (i32, i64) {
        self.make_topics();
        match self.broker.append(topic, record) {
            Ok(place) => place,
            Err(error) => panic!("{error}; the consumer's topics are {:?}", self.topics),
        }
    }

    /// Starts the consumer if it has not started yet, for a test of its start.
    ///
    /// # Errors
    /// Those of [`Consumer::start`].
    pub async fn start(&mut self) -> Result<(), Error> {
        self.make_topics();
        if let Some(consumer) = self.consumer.take() {
            let client = self.broker.client().named(MEMBER).traced(self.witness.clone());
            self.running = Some(consumer.start(client).await?);
        }
        Ok(())
    }

    /// Stops the consumer as a service does that ends: drains, commits and leaves the group, within
    /// its shutdown deadline. `None` if it never started.
    ///
    /// # Errors
    /// Those of [`Running::shutdown`].
    pub async fn shutdown(mut self) -> Result<Option<Report>, Error> {
        match self.running.take() {
            Some(running) => self.drive(running.until(async {})).await.map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn first_topic(&self) -> Option<&str> {
        self.topics.first().map(String::as_str)
    }

    fn make_topics(&self) {
        for topic in &self.topics {
            if self.broker.partitions(topic).is_none() {
                self.broker.create_topic(topic, self.partitions);
            }
        }
    }

    /// What has happened so far.
    fn run(&self) -> Run {
        let mut logs = BTreeMap::new();
        let mut produced = BTreeMap::new();
        let mut committed = BTreeMap::new();
        for topic in self.broker.topics() {
            let records = self.broker.records(&topic);
            if !self.topics.contains(&topic) {
                produced.insert(topic, records);
                continue;
            }
            for record in records {
                let partition = TopicPartition::new(&*topic, record.partition());
                logs.entry(partition).or_insert_with(Vec::<Record>::new).push(record);
            }
            for partition in 0..self.broker.partitions(&topic).unwrap_or_default() {
                if let Some(next) = self.broker.committed(&self.group, &topic, partition) {
                    committed.insert(TopicPartition::new(&*topic, partition), next);
                }
            }
        }
        let stats = self.running.as_ref().map(Running::stats).unwrap_or_default();
        Run::new(&self.witness.ledger(), logs, committed, produced, stats)
    }
}

impl fmt::Debug for TestStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStream")
            .field("group", &self.group)
            .field("topics", &self.topics)
            .field("started", &self.running.is_some())
            .finish_non_exhaustive()
    }
}
