//! Apache Kafka, as the target `kafka` finds or starts it.

#[path = "../../../kafka/cluster.rs"]
mod cluster;
mod process;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kpipe_core::kafka::Kafka;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};

use self::process::Child;
use crate::cluster::{Cluster, End, NewRecord, Protocol, Refusal};
use crate::service::until;
use crate::unique;

const SOON: Duration = Duration::from_secs(10);

pub(crate) struct Apache {
    broker: cluster::Cluster,
    protocol: Protocol,
    producer: BaseProducer<Reports>,
    /// Outsiders, by group.
    outsiders: Mutex<BTreeMap<String, Arc<BaseConsumer>>>,
}

impl Apache {
    /// `None`, with the reason printed, where there is no broker and none can be started.
    pub(crate) fn get(protocol: Protocol) -> Option<Self> {
        let broker = cluster::Cluster::get()?;
        let producer = ClientConfig::new()
            .set("bootstrap.servers", broker.address)
            .set("linger.ms", "1")
            // As the Java client's default.
            .set("partitioner", "murmur2_random")
            // So that the broker is the one to refuse.
            .set("message.max.bytes", "10000000")
            .set("topic.metadata.propagation.max.ms", "500")
            .create_with_context(Reports)
            .expect("a producer");
        Some(Self { broker, protocol, producer, outsiders: Mutex::default() })
    }

    fn outsider(&self, group: &str) -> Arc<BaseConsumer> {
        let mut outsiders = self.outsiders.lock().unwrap();
        let outsider = outsiders.entry(group.to_owned()).or_insert_with(|| {
            let config = ClientConfig::new()
                .set("bootstrap.servers", self.broker.address)
                .set("group.id", group)
                .create();
            Arc::new(config.expect("a client"))
        });
        outsider.clone()
    }

    fn send(&self, topic: &str, record: &NewRecord) -> Arc<Report> {
        let report = Arc::new(Report::default());
        let mut waiting = to_send(topic, record, report.clone());
        while let Err((error, again)) = self.producer.send(waiting) {
            match error.rdkafka_error_code() {
                Some(Code::QueueFull) => {
                    self.producer.poll(Duration::from_millis(10));
                    waiting = again;
                }
                Some(code) => {
                    *report.0.lock().unwrap() = Some(Err(code));
                    break;
                }
                None => panic!("producing: {error}"),
            }
        }
        report
    }
}

impl Cluster for Apache {
    type Client = Kafka;
    type Process = Child;

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn client(&self, waited_for: Option<Duration>) -> Kafka {
        let kafka = Kafka::brokers(self.broker.address)
            // What is deleted or deleted from is noticed soon.
            .option("topic.metadata.propagation.max.ms", "500")
            .option("topic.metadata.refresh.interval.ms", "500")
            // Little lies ahead.
            .options([("queued.min.messages", "100"), ("fetch.max.bytes", "20000")])
            .options([("fetch.message.max.bytes", "10000"), ("message.max.bytes", "20000")]);
        let kafka = match self.protocol {
            Protocol::Eager => kafka
                .options([("partition.assignment.strategy", "range")])
                .option("heartbeat.interval.ms", "300"),
            Protocol::Cooperative => kafka
                .options([("partition.assignment.strategy", "cooperative-sticky")])
                .option("heartbeat.interval.ms", "300"),
            Protocol::Incremental => kafka.option("group.protocol", "consumer"),
        };
        let Some(timeout) = waited_for else { return kafka };
        let kafka = kafka.option("max.poll.interval.ms", timeout.as_millis().to_string());
        match self.protocol {
            Protocol::Incremental => kafka,
            _ => kafka.option("session.timeout.ms", "6000"),
        }
    }

    async fn process(&self, group: &str, topic: &str) -> Child {
        Child::start(self.broker.address, group, topic)
    }

    async fn topic(&self, partitions: i32) -> String {
        self.broker.topic(partitions).await
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        self.broker.create(topic, partitions).await;
    }

    async fn delete_topic(&self, topic: &str) {
        self.broker.delete(topic).await;
    }

    async fn add_partitions(&self, topic: &str, more: i32) {
        let led = || {
            let metadata = self.producer.client().fetch_metadata(Some(topic), SOON);
            let metadata = metadata.expect("an answer");
            let partitions = metadata.topics()[0].partitions().iter();
            partitions.filter(|partition| partition.leader() >= 0).count()
        };
        let all = led() + more as usize;
        let admin: AdminClient<_> = ClientConfig::new()
            .set("bootstrap.servers", self.broker.address)
            .create()
            .expect("an admin client");
        let wanted = NewPartitions::new(topic, all);
        let added = admin.create_partitions(&[wanted], &AdminOptions::new()).await;
        added.expect("an answer")[0].as_ref().expect("added");
        // Asking also tells the producer.
        until("they are led", || led() == all).await;
    }

    async fn produce(&self, topic: &str, record: NewRecord) -> Result<(i32, i64), Refusal> {
        let report = self.send(topic, &record);
        self.producer.flush(SOON).expect("an answer");
        let written = report.0.lock().unwrap().take().expect("reported");
        written.map_err(|code| match code {
            Code::MessageSizeTooLarge => Refusal::TooLarge,
            Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition => {
                Refusal::UnknownTopic
            }
            code => panic!("{code:?}"),
        })
    }

    async fn fill(&self, topic: &str, partition: i32, records: u32) {
        let mut reports = Vec::new();
        for number in 0..records {
            let record = NewRecord::of(&format!("{number:08}")).key(format!("k{}", number % 7));
            reports.push(self.send(topic, &record.to(partition)));
        }
        self.producer.flush(SOON).expect("an answer");
        for report in reports {
            report.0.lock().unwrap().take().expect("reported").expect("written");
        }
    }

    async fn transaction(&self, topic: &str, partition: i32, records: u32, end: End) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.broker.address)
            .set("transactional.id", unique("x"))
            .create()
            .expect("a producer");
        producer.init_transactions(SOON).expect("ready");
        producer.begin_transaction().expect("begun");
        for number in 0..records {
            let value = format!("{number:08}");
            let record = BaseRecord::<str, str>::to(topic).partition(partition).payload(&value);
            producer.send(record).map_err(|(error, _)| error).expect("room");
        }
        producer.flush(SOON).expect("written");
        let ended = match end {
            End::Commit => producer.commit_transaction(SOON),
            End::Abort => producer.abort_transaction(SOON),
        };
        ended.expect("ended");
    }

    async fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        self.broker.truncate(topic, partition, before).await;
    }

    async fn log_range(&self, topic: &str, partition: i32) -> (i64, i64) {
        self.producer.client().fetch_watermarks(topic, partition, SOON).expect("an answer")
    }

    async fn committed_with(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Option<(i64, String)> {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let list = self.outsider(group).committed_offsets(list, SOON).expect("an answer");
        let committed = &list.elements()[0];
        let Offset::Offset(next) = committed.offset() else { return None };
        Some((next, committed.metadata().to_owned()))
    }

    async fn alter_committed(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        next: i64,
        metadata: &str,
    ) -> Result<(), String> {
        let mut list = TopicPartitionList::new();
        let mut entry = list.add_partition(topic, partition);
        entry.set_offset(Offset::Offset(next)).expect("an offset");
        entry.set_metadata(metadata);
        let committed = self.outsider(group).commit(&list, CommitMode::Sync);
        committed.map_err(|error: KafkaError| error.to_string())
    }
}

/// Where a record was written, or why it was not.
#[derive(Default)]
struct Report(Mutex<Option<Result<(i32, i64), Code>>>);

struct Reports;

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Arc<Report>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Arc<Report>) {
        let written = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.rdkafka_error_code().expect("a code")),
        };
        *report.0.lock().unwrap() = Some(written);
    }
}

fn to_send<'a>(
    topic: &'a str,
    record: &'a NewRecord,
    report: Arc<Report>,
) -> BaseRecord<'a, [u8], [u8], Arc<Report>> {
    let mut sent = BaseRecord::with_opaque_to(topic, report);
    sent.partition = record.partition;
    sent.key = record.key.as_deref();
    sent.payload = record.value.as_deref();
    sent.timestamp = record.timestamp;
    if !record.headers.is_empty() {
        let mut headers = OwnedHeaders::new();
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: value.as_ref() });
        }
        sent = sent.headers(headers);
    }
    sent
}
