//! The Kafka source against librdkafka's mock cluster, in the process: for machines without a broker.
//! What the mock gets wrong (timing, retention, moving positions) is shown on Apache Kafka only.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kpipe_core::source::kafka::Kafka;
use kpipe_core::source::{
    Arrivals, Assignment, Closed, CommitOffset, Connect, Event, Source, StartAt, Subscription,
};
use kpipe_core::{ErrorKind, Record, TopicPartition};
use rdkafka::consumer::{BaseConsumer, Consumer};

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

const TOPIC: &str = "orders";
const GROUP: &str = "billing";
const SOON: Duration = Duration::from_secs(10);

struct Broker {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl Broker {
    fn with_topic(partitions: i32) -> Self {
        let cluster = MockCluster::new(1).expect("a mock cluster");
        cluster.create_topic(TOPIC, partitions, 1).expect("a topic");
        Self { cluster }
    }

    fn kafka(&self) -> Kafka {
        // The mock's fetches are not woken by new records; they come when the wait is over.
        Kafka::brokers(self.cluster.bootstrap_servers()).option("fetch.wait.max.ms", "10")
    }

    /// What the group has committed, asked from outside of it.
    fn committed(&self, partition: i32) -> Offset {
        let asking: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.cluster.bootstrap_servers())
            .set("group.id", GROUP)
            .create()
            .expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition(TOPIC, partition);
        asking.committed_offsets(list, SOON).expect("an answer").elements()[0].offset()
    }

    fn fill(&self, partition: i32, records: usize) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.cluster.bootstrap_servers())
            .create()
            .expect("a producer");
        for number in 0..records {
            let headers = OwnedHeaders::new().insert(Header { key: "n", value: Some("x") });
            let value = number.to_string();
            let record = BaseRecord::to(TOPIC).partition(partition).key("k").payload(&value);
            producer.send(record.headers(headers)).map_err(|(error, _)| error).expect("queued");
        }
        producer.flush(SOON).expect("delivered");
    }

    async fn join(&self) -> Box<dyn Source> {
        Box::new(self.kafka()).connect(subscription(TOPIC)).await.expect("joins")
    }
}

fn subscription(topic: &str) -> Subscription {
    Subscription {
        group_id: GROUP.into(),
        topics: vec![topic.into()],
        start_at: StartAt::Earliest,
        prefetch_bytes: 16 << 20,
        drain_deadline: None,
    }
}

/// Until the group gave something, which is then started.
async fn assigned(source: &mut dyn Source) -> BTreeMap<i32, (Assignment, Arrivals)> {
    loop {
        match source.next_event().await {
            Event::Assigned(partitions) => {
                let wanted: Vec<_> =
                    partitions.into_iter().map(|place| (place, Arrivals::new())).collect();
                let all = source.assign(wanted.clone()).await.into_iter();
                return all
                    .zip(wanted)
                    .map(|(assignment, (_, arrivals))| {
                        (assignment.partition.partition, (assignment, arrivals))
                    })
                    .collect();
            }
            Event::Error(error) => assert!(!error.fatal, "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Takes until it has as many, woken by arrivals and by nothing else.
async fn take(assignment: &Assignment, arrivals: &Arrivals, records: usize) -> Vec<Record> {
    let mut taken = Vec::new();
    while taken.len() < records {
        if assignment.queue.take(100, &mut taken) < 100 && taken.len() < records {
            tokio::time::timeout(SOON, arrivals.arrived()).await.expect("a wake-up");
        }
    }
    taken
}

#[tokio::test]
async fn a_member_reads_commits_and_leaves() {
    let broker = Broker::with_topic(2);
    broker.fill(0, 250);
    broker.fill(1, 50);
    let mut source = broker.join().await;
    let held = assigned(&mut *source).await;
    assert_eq!(held.keys().copied().collect::<Vec<_>>(), [0, 1]);
    for (partition, records) in [(0, 250), (1, 50)] {
        let (assignment, arrivals) = &held[&partition];
        assert_eq!((assignment.start, assignment.uncommitted_start), (0, true));
        let taken = take(assignment, arrivals, records).await;
        let offsets: Vec<_> = taken.iter().map(Record::offset).collect();
        assert_eq!(offsets, (0..records as i64).collect::<Vec<_>>());
        assert_eq!(taken[7].value(), Some(&b"7"[..]));
        assert_eq!(taken[7].headers().get("n").expect("there").value(), Some(&b"x"[..]));
    }
    let place = |partition| TopicPartition::new(TOPIC, partition);
    let commit = [(1, 20), (0, 250)]
        .map(|(partition, next)| CommitOffset { partition: place(partition), next });
    let answers = source.commit(commit.to_vec()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(source.log_ends(vec![place(1), place(0)]).await, [Some(50), Some(250)]);
    assert_eq!(source.traffic().records_delivered, 300);
    assert_eq!(source.close(SOON).await, Closed::Completely);
    let (assignment, _) = &held[&0];
    assert_eq!(assignment.queue.take(1, &mut Vec::new()), 0, "a queue that outlived its source");

    assert_eq!(
        (broker.committed(0), broker.committed(1)),
        (Offset::Offset(250), Offset::Offset(20))
    );
}

#[tokio::test]
async fn a_partition_that_was_unassigned_yields_nothing_and_can_be_assigned_again() {
    let broker = Broker::with_topic(2);
    broker.fill(0, 10);
    broker.fill(1, 10);
    let mut source = broker.join().await;
    let held = assigned(&mut *source).await;
    let (old, arrivals) = &held[&0];
    assert_eq!(take(old, arrivals, 5).await.len(), 10);
    let place = TopicPartition::new(TOPIC, 0);
    let commit = CommitOffset { partition: place.clone(), next: 3 };
    assert!(source.commit(vec![commit]).await[0].is_ok());

    source.unassign(vec![place.clone()]).await;
    assert_eq!(old.queue.take(1, &mut Vec::new()), 0);
    let fresh = Arrivals::new();
    let mut again = source.assign(vec![(place, fresh.clone())]).await;
    let again = again.pop().expect("still this member's");
    assert_eq!((again.start, again.uncommitted_start), (3, false));
    assert_eq!(take(&again, &fresh, 7).await[0].offset(), 3);
    assert_eq!(old.queue.take(1, &mut Vec::new()), 0, "the old queue stays what it is");
    // The other partition, which an eager member has to name again, has lost nothing.
    let (other, arrivals) = &held[&1];
    let taken = take(other, arrivals, 10).await;
    assert_eq!(taken.iter().map(Record::offset).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    source.close(SOON).await;
}

#[tokio::test]
async fn a_topic_that_does_not_exist_and_one_that_may_not_be_read_are_told_apart() {
    let broker = Broker::with_topic(1);
    let missing = Box::new(broker.kafka()).connect(subscription("missing")).await.err();
    assert_eq!(missing.expect("refused").kind(), ErrorKind::UnknownTopic);
    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    broker.cluster.topic_error(TOPIC, denied).expect("set");
    let error = Box::new(broker.kafka()).connect(subscription(TOPIC)).await.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(error.to_string().contains(TOPIC), "{error}");
}

#[tokio::test]
async fn a_broker_that_goes_away_is_an_error_and_not_the_end() {
    let broker = Broker::with_topic(1);
    let mut source = broker.join().await;
    let held = assigned(&mut *source).await;
    broker.cluster.broker_down(1).expect("down");
    let start = Instant::now();
    loop {
        let event = tokio::time::timeout(SOON, source.next_event()).await.expect("an event");
        if let Event::Error(error) = event {
            assert!(!error.fatal);
            break;
        }
    }
    assert!(start.elapsed() < SOON);
    broker.cluster.broker_up(1).expect("up");
    broker.fill(0, 5);
    let (assignment, arrivals) = &held[&0];
    assert_eq!(take(assignment, arrivals, 5).await.len(), 5);
    source.close(SOON).await;
}

/// The client would ask again with the same settings for ever, and the consumer would stand still.
#[tokio::test]
async fn a_session_timeout_that_the_broker_refuses_ends_the_membership() {
    let broker = Broker::with_topic(1);
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT;
    broker.cluster.request_errors(RDKafkaApiKey::JoinGroup, &[refusal]);
    let mut source = broker.join().await;
    let event = tokio::time::timeout(SOON, source.next_event()).await.expect("an event");
    let Event::Error(error) = event else { panic!("{event:?}") };
    assert!(error.fatal, "{error}");
    assert!(error.message.contains("group.min.session.timeout.ms"), "{error}");
    source.close(SOON).await;
}

#[tokio::test]
async fn a_source_that_nobody_waits_for_any_more_leaves_by_itself() {
    let broker = Broker::with_topic(1);
    // Given up half-way, and dropped with an assignment that nobody answered.
    drop(Box::new(broker.kafka()).connect(subscription(TOPIC)));
    let mut source = broker.join().await;
    while !matches!(source.next_event().await, Event::Assigned(_)) {}
    let start = Instant::now();
    drop(source);
    assert!(start.elapsed() < Duration::from_millis(100), "a drop does not block");
}
