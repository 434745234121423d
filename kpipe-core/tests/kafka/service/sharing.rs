//! Members that come and go while work is in flight.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, Record, Running};

use super::super::cluster::Cluster;
use super::super::member::group;
use super::{Ledger, committed, start_with, until, until_within};

const PARTITIONS: i32 = 6;
const RECORDS: u32 = 1_500;

/// Asserts that no two records of a key run at once, whichever member runs them.
#[derive(Clone, Default)]
struct Keys(Arc<Mutex<HashSet<Key>>>);

type Key = (i32, Vec<u8>);

impl Keys {
    fn enter(&self, record: &Record) -> Key {
        let key = (record.partition(), record.key().unwrap().to_vec());
        assert!(self.0.lock().unwrap().insert(key.clone()), "two at once of {key:?}");
        key
    }
}

async fn member(
    cluster: Cluster,
    protocol: (&str, &str),
    group: &str,
    topic: &str,
    ledger: &Ledger,
    keys: &Keys,
) -> Running {
    let (ledger, keys) = (ledger.clone(), keys.clone());
    let consumer = Consumer::new(group).topic(topic, move |record: Record| {
        let (ledger, keys) = (ledger.clone(), keys.clone());
        async move {
            let key = keys.enter(&record);
            tokio::time::sleep(Duration::from_millis(2)).await;
            ledger.note(&record);
            keys.0.lock().unwrap().remove(&key);
            Ok(())
        }
    });
    let kafka = Kafka::brokers(cluster.address).option(protocol.0, protocol.1);
    start_with(consumer.commit_interval(Duration::from_millis(200)), kafka).await
}

async fn members_come_and_go(protocol: (&str, &str)) {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(PARTITIONS).await;
    for partition in 0..PARTITIONS {
        cluster.fill(&topic, partition, RECORDS);
    }
    let (group, ledger, keys) = (group(), Ledger::default(), Keys::default());
    let all = PARTITIONS as usize * RECORDS as usize;
    let join = || member(cluster, protocol, &group, &topic, &ledger, &keys);

    let first = join().await;
    until("the first gets on", || ledger.distinct() > all / 10).await;
    let second = join().await;
    until_within(Duration::from_secs(20), "the second owns a share", || {
        !second.stats().partitions.is_empty()
    })
    .await;
    let third = join().await;
    until_within(Duration::from_secs(20), "the third owns a share", || {
        !third.stats().partitions.is_empty()
    })
    .await;
    let report = first.shutdown(Duration::from_secs(10)).await.unwrap();
    assert!(report.uncommitted.is_empty(), "{report}");
    until("everything is handled", || ledger.distinct() == all).await;

    let mut abandoned = report.stats.abandoned;
    for running in [second, third] {
        let report = running.shutdown(Duration::from_secs(10)).await.unwrap();
        let stats = &report.stats;
        assert_eq!(stats.received, stats.passed + stats.abandoned + stats.duplicates, "{report}");
        abandoned += stats.abandoned;
    }
    assert_eq!(committed(cluster, &group, &topic, PARTITIONS), [i64::from(RECORDS); 6]);
    // Only what lay beyond a record that was given up is handled again.
    assert!(u64::from(ledger.repeats()) <= abandoned * 7, "{} repeats", ledger.repeats());
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_eager() {
    members_come_and_go(("partition.assignment.strategy", "range")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_cooperative() {
    members_come_and_go(("partition.assignment.strategy", "cooperative-sticky")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_consumer_protocol() {
    members_come_and_go(("group.protocol", "consumer")).await;
}

/// The one who leaves has handlers of ten minutes; the joiner owns its share within the drain
/// deadline and 2 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_joiner_does_not_wait_for_endless_handlers() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(2).await;
    cluster.fill(&topic, 0, 10);
    cluster.fill(&topic, 1, 10);
    let group = group();
    let endless = Consumer::new(group.clone())
        .topic(topic.as_str(), |_: Record| async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        })
        .drain_deadline(Duration::from_secs(2));
    let first = start_with(endless, Kafka::brokers(cluster.address)).await;
    until("its handlers run", || first.stats().in_flight > 0).await;

    let ledger = Ledger::default();
    let noting = ledger.clone();
    let joiner = Consumer::new(group).topic(topic.as_str(), move |record: Record| {
        noting.note(&record);
        async { Ok(()) }
    });
    let begun = Instant::now();
    let second = start_with(joiner, Kafka::brokers(cluster.address)).await;
    until("the joiner handles its share", || ledger.distinct() >= 10).await;
    // The group notices a joiner at the others' next heartbeat, 3 s by default.
    assert!(begun.elapsed() < Duration::from_secs(2 + 2 + 3), "{:?}", begun.elapsed());
    second.shutdown(Duration::from_secs(5)).await.unwrap();
    first.shutdown(Duration::from_secs(2)).await.unwrap();
}
