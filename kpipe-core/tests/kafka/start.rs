//! What keeps a consumer from starting is said at the start (C34).

use std::time::{Duration, Instant};

use kpipe_core::source::kafka::Kafka;
use kpipe_core::{Consumer, ErrorKind, Record};

use super::cluster::Cluster;
use super::member::{Member, group, subscription};

async fn refused(kafka: Kafka, topic: &str) -> kpipe_core::Error {
    Member::try_join(kafka, subscription(&group(), topic)).await.err().expect("must not start")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_answer_is_named() {
    // A port that was free a moment ago and on which nobody listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let start = Instant::now();
    let kafka = Kafka::brokers(address.as_str()).connect_timeout(Duration::from_secs(1));
    let error = refused(kafka, "any").await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains(&address), "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_does_not_exist_is_named_and_not_created() {
    let Some(cluster) = Cluster::get() else { return };
    for _ in 0..2 {
        let error = refused(Kafka::brokers(cluster.address), "no-such-topic").await;
        assert_eq!(error.kind(), ErrorKind::UnknownTopic, "{error}");
        assert!(error.to_string().contains("`no-such-topic`"), "{error}");
    }
    let error = refused(Kafka::brokers(cluster.address), "not a name").await;
    assert_eq!(error.kind(), ErrorKind::UnknownTopic, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_refused_before_anything_is_asked_of_a_broker() {
    let start = Instant::now();
    for (name, value) in [
        ("enable.auto.commit", "true"),
        ("no.such.option", "1"),
        ("isolation.level", "serializable"),
        ("max.poll.interval.ms", "1000"),
    ] {
        let error = refused(Kafka::brokers("127.0.0.1:1").option(name, value), "any").await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().starts_with(name), "{error}");
    }
    let error = refused(Kafka::brokers(""), "any").await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_librdkafka_finds_contradictory_are_reported_in_its_words() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(1).await;
    let kafka = Kafka::brokers(cluster.address)
        .option("partition.assignment.strategy", "range,cooperative-sticky");
    let error = refused(kafka, &topic).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("partition.assignment.strategy"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_are_reported_at_once_and_not_when_the_time_is_up() {
    let Some(cluster) = Cluster::get() else { return };
    // To a broker that knows no credentials any are wrong.
    let kafka = Kafka::brokers(cluster.address)
        .option("security.protocol", "sasl_plaintext")
        .option("sasl.mechanisms", "PLAIN")
        .option("sasl.username", "me")
        .option("sasl.password", "hunter2")
        .connect_timeout(Duration::from_secs(60));
    let start = Instant::now();
    let error = refused(kafka, "any").await;
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// Only the group itself can tell, after the start; the client would ask again for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_timeout_that_the_broker_refuses_ends_the_consumer() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(1).await;
    let consumer = Consumer::new(group()).topic(topic, |_: Record| async { Ok(()) });
    let kafka = Kafka::brokers(cluster.address).option("session.timeout.ms", "1");
    let running = consumer.start(kafka).await.expect("starts");
    let until = running.until(std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(30), until).await.expect("an end");
    let error = ended.expect_err("and not a good one");
    assert_eq!(error.kind(), ErrorKind::Client);
    assert!(error.to_string().contains("group.min.session.timeout.ms"), "{error}");
}
