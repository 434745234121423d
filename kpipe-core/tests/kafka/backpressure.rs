//! Partitions that are not drained (G4, G5).

use std::time::{Duration, Instant};

use kpipe_core::source::Traffic;

use super::cluster::Cluster;
use super::member::{Member, assert_contiguous, group, subscription};

/// Until librdkafka has reported what it fetched, which it does once a second.
async fn until_counted(member: &mut Member, counted: impl Fn(Traffic) -> bool) -> Traffic {
    let start = Instant::now();
    loop {
        let traffic = member.source().traffic();
        if counted(traffic) {
            return traffic;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{traffic:?}");
        member.step().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_not_drained_holds_up_nobody_and_fetches_nothing_twice() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(4).await;
    for partition in 0..4 {
        cluster.fill(&topic, partition, 20_000);
    }
    let mut wanted = subscription(&group(), &topic);
    // A share of 1 MiB: far less than lies in each partition.
    wanted.prefetch_bytes = 4 << 20;
    let kafka = kpipe_core::source::kafka::Kafka::brokers(cluster.address);
    let mut member = Member::join_with(kafka, wanted).await;
    member.left_alone = vec![0];
    member.until("the other three", |me| me.count() == 60_000).await;
    for partition in 1..4 {
        assert_contiguous(&member.offsets(partition), 0, 20_000);
    }
    let traffic = until_counted(&mut member, |t| t.records_fetched > 60_000).await;
    let ahead = traffic.records_fetched - traffic.records_delivered;
    assert!(ahead < 20_000, "{ahead} were fetched ahead of a partition that nobody drains");

    member.left_alone.clear();
    member.until("the last one", |me| me.count() == 80_000).await;
    assert_contiguous(&member.offsets(0), 0, 20_000);
    let traffic = until_counted(&mut member, |t| t.records_fetched >= 80_000).await;
    assert_eq!((traffic.records_fetched, traffic.records_delivered), (80_000, 80_000));
    // Keys of two bytes, values of eight; both sides count key and value.
    assert_eq!((traffic.bytes_fetched, traffic.bytes_delivered), (800_000, 800_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_by_turns_fetches_nothing_twice() {
    // C23, on a broker
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(3).await;
    for partition in 0..3 {
        cluster.fill(&topic, partition, 10_000);
    }
    let mut wanted = subscription(&group(), &topic);
    wanted.prefetch_bytes = 3 << 20;
    let kafka = kpipe_core::source::kafka::Kafka::brokers(cluster.address);
    let mut member = Member::join_with(kafka, wanted).await;
    member.until_assigned(3).await;
    member.batch = 7;
    let start = Instant::now();
    let mut turn = 0;
    while member.count() < 30_000 {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", member.count());
        turn = (turn + 1) % 3;
        member.left_alone = vec![turn];
        for _ in 0..20 {
            member.drain();
        }
        if turn == 0 {
            tokio::task::yield_now().await;
        }
    }
    for partition in 0..3 {
        assert_contiguous(&member.offsets(partition), 0, 10_000);
    }
    let traffic = until_counted(&mut member, |t| t.records_fetched >= 30_000).await;
    assert_eq!((traffic.records_fetched, traffic.records_delivered), (30_000, 30_000));
}
