//! G3: how long handlers take is no reason to leave the group.

use std::time::{Duration, Instant};

use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, Record};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::super::cluster::Cluster;
use super::super::member::group;
use super::{Ledger, committed, start_with, until};

const WORK: Duration = Duration::from_secs(10);
const LIMITS: [(&str, &str); 2] =
    [("max.poll.interval.ms", "6000"), ("session.timeout.ms", "6000")];

/// The loop that awaits each record is evicted by one call longer than the interval; KPipe beside it
/// handles every record once.
#[tokio::test(flavor = "multi_thread")]
async fn a_ten_second_handler_does_not_evict_the_member_but_does_evict_a_plain_loop() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(4).await;
    for partition in 0..4 {
        cluster.fill(&topic, partition, 5);
    }
    let evicted = std::thread::spawn({
        let topic = topic.clone();
        move || plain_loop_is_evicted(cluster, &topic)
    });

    let (ledger, group) = (Ledger::default(), group());
    let consumer = Consumer::new(group.clone()).topic(topic.as_str(), {
        let ledger = ledger.clone();
        move |record: Record| {
            let ledger = ledger.clone();
            async move {
                tokio::time::sleep(WORK).await;
                ledger.note(&record);
                Ok(())
            }
        }
    });
    // Two rounds, so that a poll in between would not be enough.
    let consumer = consumer.max_in_flight(10);
    let mut kafka = Kafka::brokers(cluster.address);
    for (name, value) in LIMITS {
        kafka = kafka.option(name, value);
    }
    let running = start_with(consumer, kafka).await;
    until("every record is handled", || ledger.distinct() == 20).await;
    assert_eq!(running.stats().abandoned, 0, "no partition was ever taken away");
    running.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(ledger.repeats(), 0);
    assert_eq!(committed(cluster, &group, &topic, 4), [5; 4]);
    assert!(evicted.join().unwrap(), "the plain loop was not evicted: the test shows nothing");
}

fn plain_loop_is_evicted(cluster: Cluster, topic: &str) -> bool {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.address).set("group.id", group());
    config.set("auto.offset.reset", "earliest");
    for (name, value) in LIMITS {
        config.set(name, value);
    }
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[topic]).expect("subscribed");
    let begun = Instant::now();
    while begun.elapsed() < WORK * 3 {
        match consumer.poll(Duration::from_secs(1)) {
            Some(Ok(_)) => std::thread::sleep(WORK),
            Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::PollExceeded))) => {
                return true;
            }
            Some(Err(_)) | None => {}
        }
    }
    false
}
