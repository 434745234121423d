//! Leaving (G10, C36).

use std::time::{Duration, Instant};

use kpipe_core::source::kafka::Kafka;
use kpipe_core::source::{Closed, Connect, Event};

use super::cluster::Cluster;
use super::member::{Member, PROTOCOLS, group, subscription};

const AMPLE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_close_is_quick_and_the_others_get_the_partitions_at_once() {
    for protocol in PROTOCOLS {
        let Some(cluster) = Cluster::get() else { return };
        let (topic, group) = (cluster.topic(2).await, group());
        let kafka = || Kafka::brokers(cluster.address).options(protocol.iter().copied());
        let mut first = Member::join_with(kafka(), subscription(&group, &topic)).await;
        first.until_assigned(2).await;
        let mut second = Member::join_with(kafka(), subscription(&group, &topic)).await;
        while first.held.len() != 1 || second.held.len() != 1 {
            tokio::join!(first.step(), second.step());
        }
        let start = Instant::now();
        let (closed, took) = first.close(AMPLE).await;
        assert_eq!(closed, Closed::Completely, "{protocol:?}");
        assert!(took < Duration::from_secs(2), "{protocol:?}: {took:?}");
        second.until_assigned(2).await;
        // Well below the session timeout of 45 s: the group was left, not missed.
        assert!(start.elapsed() < Duration::from_secs(8), "{protocol:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_answers_a_rebalance_that_nobody_answered() {
    let Some(cluster) = Cluster::get() else { return };
    for protocol in PROTOCOLS {
        let (topic, group) = (cluster.topic(2).await, group());
        let kafka = || Kafka::brokers(cluster.address).options(protocol.iter().copied());
        // An assignment.
        let source = Box::new(kafka()).connect(subscription(&group, &topic)).await;
        let mut source = source.expect("connects");
        while !matches!(source.next_event().await, Event::Assigned(_)) {}
        let start = Instant::now();
        assert_eq!(source.close(AMPLE).await, Closed::Completely);
        assert!(start.elapsed() < Duration::from_secs(2), "{protocol:?}: {:?}", start.elapsed());
        // A revoke.
        let mut first = Member::join_with(kafka(), subscription(&group, &topic)).await;
        first.until_assigned(2).await;
        first.defer = Duration::from_secs(3_600);
        let mut second = Member::join_with(kafka(), subscription(&group, &topic)).await;
        while !first.saw("Revoked") {
            tokio::join!(first.step(), second.step());
        }
        let (closed, took) = first.close(AMPLE).await;
        assert_eq!(closed, Closed::Completely);
        assert!(took < Duration::from_secs(2), "{protocol:?}: {took:?}");
        second.until_assigned(2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_dropped_leaves_the_group_all_the_same() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(1).await, group());
    let mut first = Member::join(cluster, &group, &topic).await;
    first.until_assigned(1).await;
    let start = Instant::now();
    drop(first);
    assert!(start.elapsed() < Duration::from_millis(100), "a drop does not block");
    let mut second = Member::join(cluster, &group, &topic).await;
    second.until_assigned(1).await;
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[test]
fn a_source_needs_no_runtime_to_be_dropped_or_closed() {
    let Some(cluster) = Cluster::get() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (topic, group) = (runtime.block_on(cluster.topic(1)), group());
    let connect =
        || Box::new(Kafka::brokers(cluster.address)).connect(subscription(&group, &topic));
    // The future needs none either.
    let source = futures::executor::block_on(connect()).expect("connects");
    drop(runtime);
    let start = Instant::now();
    drop(source);
    let source = futures::executor::block_on(connect()).expect("connects");
    let closed = futures::executor::block_on(source.close(AMPLE));
    assert_eq!(closed, Closed::Completely);
    assert!(start.elapsed() < AMPLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_has_no_time_goes_on_in_the_background() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(1).await, group());
    let mut first = Member::join(cluster, &group, &topic).await;
    first.until_assigned(1).await;
    let (closed, took) = first.close(Duration::ZERO).await;
    assert_eq!(closed, Closed::InBackground);
    assert!(took < Duration::from_millis(500), "{took:?}");
    let mut second = Member::join(cluster, &group, &topic).await;
    second.until_assigned(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_that_outlive_their_source_are_empty() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(1).await, group());
    cluster.fill(&topic, 0, 100);
    let mut member = Member::join(cluster, &group, &topic).await;
    member.left_alone = vec![0];
    member.until_assigned(1).await;
    let held = std::mem::take(&mut member.held);
    assert_eq!(member.close(AMPLE).await.0, Closed::Completely);
    let mut records = Vec::new();
    for held in held.values() {
        assert_eq!(held.assignment.queue.take(10, &mut records), 0);
    }
}
