//! The in-memory broker. On a paused clock nothing waits for real.

use std::time::Duration;

use kpipe_core::Running;
use kpipe_test::{Broker, Client, ProduceErrorKind, TestRecord};

use crate::cluster::{Cluster, End, NewRecord, Process, Protocol, Refusal};
use crate::service::{Ledger, noting};
use crate::unique;

const SESSION: Duration = Duration::from_secs(6);

pub(crate) struct Memory {
    broker: Broker,
    protocol: Protocol,
}

impl Memory {
    pub(crate) fn new(protocol: Protocol) -> Self {
        let kind = match protocol {
            Protocol::Eager => kpipe_test::Protocol::Eager,
            Protocol::Cooperative => kpipe_test::Protocol::Cooperative,
            Protocol::Incremental => kpipe_test::Protocol::Incremental,
        };
        let broker = Broker::builder()
            .protocol(kind)
            .session_timeout(SESSION)
            .heartbeat(Duration::from_millis(300))
            .prefetch_records(100)
            .build();
        Self { broker, protocol }
    }
}

impl Cluster for Memory {
    type Client = Client;
    type Process = InMemory;

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn client(&self, waited_for: Option<Duration>) -> Client {
        let client = self.broker.client();
        match waited_for {
            Some(timeout) => client.rebalance_timeout(timeout),
            None => client,
        }
    }

    async fn process(&self, group: &str, topic: &str) -> InMemory {
        let name = unique("m");
        let consumer = noting(group, topic, &Ledger::default(), Duration::from_millis(5));
        let running = consumer.start(self.broker.client().named(&name)).await.expect("starts");
        InMemory { broker: self.broker.clone(), name, _running: running }
    }

    async fn topic(&self, partitions: i32) -> String {
        let name = unique("t");
        self.broker.create_topic(&name, partitions);
        name
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        self.broker.create_topic(topic, partitions);
    }

    async fn delete_topic(&self, topic: &str) {
        assert!(self.broker.delete_topic(topic), "{topic} exists");
    }

    async fn add_partitions(&self, topic: &str, more: i32) {
        self.broker.add_partitions(topic, more);
    }

    async fn produce(&self, topic: &str, record: NewRecord) -> Result<(i32, i64), Refusal> {
        let written = self.broker.producer().send(topic, to_send(record)).await;
        written.map_err(|error| match error.kind() {
            ProduceErrorKind::TooLarge => Refusal::TooLarge,
            ProduceErrorKind::UnknownTopic => Refusal::UnknownTopic,
            kind => panic!("{kind:?}: {error}"),
        })
    }

    async fn fill(&self, topic: &str, partition: i32, records: u32) {
        for number in 0..records {
            let record = NewRecord::of(&format!("{number:08}")).key(format!("k{}", number % 7));
            self.produce(topic, record.to(partition)).await.expect("written");
        }
    }

    async fn transaction(&self, topic: &str, partition: i32, records: u32, end: End) {
        match end {
            End::Commit => self.fill(topic, partition, records).await,
            // A consumer of what is committed sees none of them.
            End::Abort => self.broker.skip(topic, partition, i64::from(records)),
        }
        self.broker.skip(topic, partition, 1);
    }

    async fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        self.broker.truncate_before(topic, partition, before);
    }

    async fn log_range(&self, topic: &str, partition: i32) -> (i64, i64) {
        self.broker.log_range(topic, partition).expect("the partition exists")
    }

    async fn committed_with(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Option<(i64, String)> {
        let next = self.broker.committed(group, topic, partition)?;
        let metadata = self.broker.committed_metadata(group, topic, partition)?;
        Some((next, String::from_utf8(metadata.to_vec()).expect("text")))
    }

    async fn alter_committed(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        next: i64,
        metadata: &str,
    ) -> Result<(), String> {
        let altered =
            self.broker.alter_committed(group, topic, partition, next, metadata.to_owned());
        altered.map_err(|refused| refused.to_string())
    }
}

/// A member that the broker takes for a process.
pub(crate) struct InMemory {
    broker: Broker,
    name: String,
    _running: Running,
}

impl Process for InMemory {
    fn die(self) {
        assert!(self.broker.kill(&self.name, SESSION));
    }

    fn freeze(&self) {
        assert!(self.broker.cut_off(&self.name, Duration::from_secs(3_600)));
    }

    fn thaw(&self) {
        self.broker.come_back();
    }
}

fn to_send(record: NewRecord) -> TestRecord {
    let NewRecord { partition, key, value, headers, timestamp } = record;
    let mut sent = match key {
        Some(key) => TestRecord::key(key),
        None => TestRecord::new(),
    };
    sent = match value {
        Some(value) => sent.value(value),
        None => sent.tombstone(),
    };
    for (name, value) in headers {
        sent = match value {
            Some(value) => sent.header(name, value),
            None => sent.null_header(name),
        };
    }
    if let Some(partition) = partition {
        sent = sent.partition(partition);
    }
    if let Some(timestamp) = timestamp {
        sent = sent.timestamp(timestamp);
    }
    sent
}
