//! Positions that a log does not have, or no longer has.

use std::time::Duration;

use kpipe_core::source::StartAt;
use kpipe_core::source::kafka::Kafka;

use super::cluster::Cluster;
use super::member::{COOPERATIVE, EAGER, Member, assert_contiguous, group, subscription};

/// The batch call of librdkafka only ever raises the position that it resumes from. After a step
/// back, by its own offset reset, the next rebalance resumes from the old position and skips what
/// lies between, without an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_and_a_rebalance_lose_nothing() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(2).await, group());
    let cooperative = || Kafka::brokers(cluster.address).options(COOPERATIVE.iter().copied());
    for partition in 0..2 {
        cluster.fill(&topic, partition, 1_000);
    }
    let mut member = Member::join_with(cooperative(), subscription(&group, &topic)).await;
    member.until_read(2_000).await;

    cluster.delete(&topic).await;
    cluster.create(&topic, 2).await;
    for partition in 0..2 {
        cluster.fill(&topic, partition, 500);
    }
    member.read.clear();
    member.batch = 10;
    member
        .until("both start again", |me| (0..2).all(|partition| me.offsets(partition).len() >= 100))
        .await;
    for partition in 0..2 {
        cluster.fill(&topic, partition, 3_000);
    }
    // The rebalance pauses and resumes every partition, the one that stays as well.
    let mut second = Member::join_with(cooperative(), subscription(&group, &topic)).await;
    let mut share = 2;
    while share != 1 || second.held.len() != 1 {
        tokio::join!(member.step(), second.step());
        share = member.held.len();
    }
    let kept = member.partitions()[0];
    member.batch = 1_000;
    member.until("the rest", |me| me.offsets(kept).last() == Some(&3_499)).await;
    assert_contiguous(&without_repeats(&member.offsets(kept)), 0, 3_500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_was_deleted_is_replaced_by_the_policy_for_that_partition_alone() {
    for protocol in [EAGER, COOPERATIVE] {
        let Some(cluster) = Cluster::get() else { return };
        let (topic, group) = (cluster.topic(2).await, group());
        let kafka = Kafka::brokers(cluster.address).options(protocol.iter().copied());
        // Few records fit ahead, so that the rest is deleted before it is fetched.
        let kafka = kafka.option("queued.min.messages", "100").option("fetch.max.bytes", "20000");
        let kafka =
            kafka.option("fetch.message.max.bytes", "10000").option("message.max.bytes", "20000");
        let mut member = Member::join_with(kafka, subscription(&group, &topic)).await;
        member.until_assigned(2).await;
        member.left_alone = vec![0];
        cluster.fill(&topic, 0, 50_000);
        cluster.fill(&topic, 1, 2_000);
        member.until_read(1_000).await;
        cluster.truncate(&topic, 0, 49_000).await;
        member.left_alone.clear();
        member.until("the rest", |me| me.offsets(0).last() == Some(&49_999)).await;
        member.until("the other", |me| me.offsets(1).last() == Some(&1_999)).await;
        assert!(member.saw("PositionLost"), "{protocol:?}: {:?}", member.events);
        let offsets = member.offsets(0);
        let jump =
            offsets.iter().position(|&offset| offset == 49_000).expect("where the log begins");
        assert!(jump < 48_000, "{protocol:?}: nothing was deleted in time");
        assert_contiguous(&offsets[..jump], 0, jump as i64);
        assert_contiguous(&offsets[jump..], 49_000, 50_000);
        assert_contiguous(&member.offsets(1), 0, 2_000);
        member.close(Duration::from_secs(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committed_offset_that_was_deleted_is_replaced_by_the_policy_with_a_warning() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(1).await, group());
    cluster.fill(&topic, 0, 1_000);
    let mut first = Member::join(cluster, &group, &topic).await;
    first.until_read(1_000).await;
    assert!(first.commit(&[(&topic, 0, 300)]).await[0].is_ok());
    first.close(Duration::from_secs(10)).await;
    cluster.truncate(&topic, 0, 600).await;

    let mut wanted = subscription(&group, &topic);
    wanted.start_at = StartAt::Fail;
    let mut strict = Member::join_with(Kafka::brokers(cluster.address), wanted).await;
    strict.until("the report", |me| me.saw("Failed")).await;
    assert!(strict.saw("the committed offset 300 is not in the log, which begins at 600"));
    strict.close(Duration::from_secs(10)).await;

    let mut member = Member::join(cluster, &group, &topic).await;
    member.until_read(400).await;
    assert_contiguous(&member.offsets(0), 600, 1_000);
    assert!(
        member
            .saw("the committed offset 300 is not in the log, which begins at 600; starts at 600")
    );
    assert!(member.held.values().all(|held| held.assignment.uncommitted_start));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committed_offset_beyond_the_end_is_replaced_by_the_policy() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(1).await, group());
    cluster.fill(&topic, 0, 1_000);
    let mut first = Member::join(cluster, &group, &topic).await;
    first.until_assigned(1).await;
    // Kafka takes any number; so does a group whose topic is made anew.
    assert!(first.commit(&[(&topic, 0, 5_000)]).await[0].is_ok());
    first.close(Duration::from_secs(10)).await;

    let mut member = Member::join(cluster, &group, &topic).await;
    member.until_read(1_000).await;
    assert!(member.saw("PositionLost"), "{:?}", member.events);
    assert_contiguous(&member.offsets(0), 0, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_deleted_is_reported_and_the_others_go_on() {
    let Some(cluster) = Cluster::get() else { return };
    let (gone, stays) = (cluster.topic(1).await, cluster.topic(1).await);
    let mut wanted = subscription(&group(), &gone);
    wanted.topics.push(stays.as_str().into());
    // How long the client waits for a topic that is not there; 30 s by default.
    let kafka = Kafka::brokers(cluster.address).option("topic.metadata.propagation.max.ms", "500");
    let mut member = Member::join_with(kafka, wanted).await;
    member.until_assigned(2).await;
    cluster.delete(&gone).await;
    let missing = format!("{gone} [0]: topic does not exist");
    member.until("the report", |me| me.saw(&missing)).await;
    cluster.fill(&stays, 0, 100);
    member.until_read(100).await;
}

/// librdkafka may deliver a record twice when it pauses a partition during a take.
fn without_repeats(offsets: &[i64]) -> Vec<i64> {
    let mut kept: Vec<i64> = Vec::new();
    for &offset in offsets {
        if kept.last().is_none_or(|&last| offset > last) {
            kept.push(offset);
        }
    }
    kept
}
