//! Revokes that are answered later, in each protocol (C35), and partitions that come back.

use std::time::{Duration, Instant};

use kpipe_core::source::kafka::Kafka;

use super::cluster::Cluster;
use super::member::{CONSUMER, COOPERATIVE, EAGER, Member, assert_contiguous, group, subscription};

const DEFERRED: Duration = Duration::from_secs(2);

async fn a_deferred_revoke(protocol: &[(&str, &str)]) {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(4).await, group());
    for partition in 0..4 {
        cluster.fill(&topic, partition, 100);
    }
    let kafka = || Kafka::brokers(cluster.address).options(protocol.iter().copied());
    let mut first = Member::join_with(kafka(), subscription(&group, &topic)).await;
    first.until_read(400).await;
    first.defer = DEFERRED;

    let mut second = Member::join_with(kafka(), subscription(&group, &topic)).await;
    let start = Instant::now();
    let mut committed = false;
    while first.held.len() != 2 || second.held.len() != 2 {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?} {:?}",
            first.events,
            second.events
        );
        tokio::join!(first.step(), second.step());
        // While the revoke is open this member is still one and may commit.
        if first.saw("Revoked") && !committed {
            committed = true;
            let all: Vec<_> = (0..4).map(|partition| (topic.as_str(), partition, 100)).collect();
            let answers = first.commit(&all).await;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
    }
    assert!(committed, "{:?}", first.events);
    assert!(start.elapsed() >= DEFERRED, "nothing was given away before it was given back");
    assert!(!first.saw("Lost"), "{:?}", first.events);
    let mut all = [first.partitions(), second.partitions()].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    // Both go on, and nobody reads again what was committed.
    for partition in 0..4 {
        cluster.fill(&topic, partition, 50);
    }
    let mine = first.partitions();
    while second.count() < 100 || mine.iter().any(|&one| first.offsets(one).last() != Some(&149)) {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", second.events);
        tokio::join!(first.step(), second.step());
    }
    for partition in second.partitions() {
        assert_contiguous(&second.offsets(partition), 100, 150);
    }
    for partition in mine {
        assert_contiguous(&first.offsets(partition), 0, 150);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_can_be_answered_later_eager() {
    a_deferred_revoke(EAGER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_can_be_answered_later_cooperative() {
    a_deferred_revoke(COOPERATIVE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_can_be_answered_later_consumer_protocol() {
    a_deferred_revoke(CONSUMER).await;
}

/// A partition that is not split again after it came back stalls without an error, and the callback
/// of an old handle can end the new one's.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_comes_back_is_read_and_wakes_its_intake() {
    for protocol in [COOPERATIVE, CONSUMER] {
        let Some(cluster) = Cluster::get() else { return };
        let (topic, group) = (cluster.topic(2).await, group());
        let kafka = || Kafka::brokers(cluster.address).options(protocol.iter().copied());
        let mut first = Member::join_with(kafka(), subscription(&group, &topic)).await;
        first.until_assigned(2).await;
        let rounds = if protocol == CONSUMER { 1 } else { 3 };
        for round in 0..rounds {
            let mut second = Member::join_with(kafka(), subscription(&group, &topic)).await;
            while first.held.len() != 1 || second.held.len() != 1 {
                tokio::join!(first.step(), second.step());
            }
            let moved = second.partitions()[0];
            second.close(Duration::from_secs(10)).await;
            first.until_assigned(2).await;
            // Empty what is there, then wait for the callback and nothing else.
            first.until("quiet", |me| me.held.len() == 2).await;
            first.drain();
            let held =
                first.held.iter().find(|(place, _)| place.partition == moved).expect("back").1;
            let arrivals = held.arrivals.clone();
            let mut raised = futures::FutureExt::now_or_never(arrivals.arrived());
            while raised.is_some() {
                raised = futures::FutureExt::now_or_never(arrivals.arrived());
            }
            cluster.fill(&topic, moved, 10);
            tokio::time::timeout(Duration::from_secs(5), arrivals.arrived())
                .await
                .expect("a wake-up");
            let expected = 10 * (round + 1);
            let mine = move |me: &Member| me.count() >= expected;
            first.until("the records", mine).await;
        }
        first.close(Duration::from_secs(10)).await;
    }
}

/// More members than partitions: an assignment of nothing has to be answered too.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_assignment_is_answered() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(1).await, group());
    let kafka = || Kafka::brokers(cluster.address).options(EAGER.iter().copied());
    cluster.fill(&topic, 0, 20);
    let mut first = Member::join_with(kafka(), subscription(&group, &topic)).await;
    first.until_read(20).await;
    let mut second = Member::join_with(kafka(), subscription(&group, &topic)).await;
    while !second.saw("Assigned([])") && !first.saw("Assigned([])") {
        tokio::join!(first.step(), second.step());
    }
    // The one that has it leaves, and the other one gets it.
    while first.held.len() + second.held.len() != 1 {
        tokio::join!(first.step(), second.step());
    }
    let (owner, mut other) = if first.held.len() == 1 { (first, second) } else { (second, first) };
    owner.close(Duration::from_secs(10)).await;
    other.until_assigned(1).await;
    other.read.clear();
    cluster.fill(&topic, 0, 5);
    other.until("all of it", |me| me.offsets(0).last() == Some(&24)).await;
}

/// A static member comes back to its partitions, and nobody else notices that it was away.
#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_finds_its_partitions_again() {
    for protocol in [EAGER, COOPERATIVE] {
        let Some(cluster) = Cluster::get() else { return };
        let (topic, group) = (cluster.topic(2).await, group());
        let member = async |name: &str| {
            let kafka = Kafka::brokers(cluster.address).options(protocol.iter().copied());
            let kafka = kafka.option("group.instance.id", name);
            Member::join_with(kafka, subscription(&group, &topic)).await
        };
        let (mut first, mut second) = (member("a").await, member("b").await);
        while first.held.len() != 1 || second.held.len() != 1 {
            tokio::join!(first.step(), second.step());
        }
        let (mine, seen) = (first.partitions(), second.events.len());
        let (closed, took) = first.close(Duration::from_secs(10)).await;
        assert_eq!(closed, kpipe_core::source::Closed::Completely);
        assert!(took < Duration::from_secs(2), "{took:?}");
        let mut back = member("a").await;
        while back.held.len() != 1 {
            tokio::join!(back.step(), second.step());
        }
        assert_eq!(back.partitions(), mine, "{protocol:?}");
        assert_eq!(second.events[seen..], [] as [String; 0], "{protocol:?}");
    }
}
