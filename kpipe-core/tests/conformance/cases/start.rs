//! Where reading starts.

use std::time::Duration;

use kpipe_core::{ErrorKind, StartAt, TopicPartition};

use crate::cluster::Cluster;
use crate::member::{Member, Seen, join, join_at};
use crate::service::{Ledger, noting, shut_down, until_asked};
use crate::unique;

pub(crate) async fn earliest_is_the_first_record_that_the_log_holds(cluster: impl Cluster) {
    let topic = cluster.topic(1).await;
    cluster.fill(&topic, 0, 10).await;
    cluster.delete_records(&topic, 0, 3).await;
    let mut member = join(&cluster, &unique("g"), &[&topic]).await;
    member.until_read(7).await;
    assert_eq!(member.start(0), (3, true));
    assert_eq!(member.offsets(0), [3, 4, 5, 6, 7, 8, 9]);
}

pub(crate) async fn latest_is_the_end_of_the_log(cluster: impl Cluster) {
    let topic = cluster.topic(1).await;
    cluster.fill(&topic, 0, 10).await;
    let mut member = join_at(&cluster, &unique("g"), &[&topic], StartAt::Latest).await;
    member.until_held(1).await;
    assert_eq!(member.start(0), (10, true));
    cluster.fill(&topic, 0, 3).await;
    member.until_read(3).await;
    assert_eq!(member.offsets(0), [10, 11, 12]);
}

/// Else a rebalance before the first commit would skip what came between.
pub(crate) async fn latest_is_committed_at_once(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let ledger = Ledger::default();
    let consumer = noting(&group, &topic, &ledger, Duration::ZERO);
    let running = consumer.start_at(StartAt::Latest).start(cluster.client(None)).await;
    let running = running.expect("starts");
    until_asked("the start is committed", async || {
        cluster.committed(&group, &topic, 0).await == Some(10)
    })
    .await;
    shut_down(running).await;
    assert_eq!(ledger.len(), 0);
}

pub(crate) async fn fail_reports_the_partition_and_goes_on_with_the_others(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    for partition in 0..2 {
        cluster.fill(&topic, partition, 10).await;
    }
    cluster.alter_committed(&group, &topic, 1, 6, "").await.expect("committed");
    let mut member = join_at(&cluster, &group, &[&topic], StartAt::Fail).await;
    member.until("the report", |me| me.saw(&Seen::Failed(0))).await;
    member.until_read(4).await;
    assert_eq!(member.partitions(), [1]);
    assert_eq!(member.start(1), (6, false));
    assert_eq!(member.offsets(1), [6, 7, 8, 9]);
    assert_eq!(member.offsets(0), [] as [i64; 0]);
}

pub(crate) async fn a_partition_that_failed_is_assigned_again(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let mut member = join_at(&cluster, &group, &[&topic], StartAt::Fail).await;
    member.until("the report", |me| me.saw(&Seen::Failed(0))).await;
    assert_eq!(member.commit(&topic, &[(0, 7)]).await, [Ok(())]);
    member.assign(vec![TopicPartition::new(topic.as_str(), 0)]).await;
    assert_eq!(member.start(0), (7, false));
    member.until_read(3).await;
    assert_eq!(member.offsets(0), [7, 8, 9]);
    assert_eq!(member.delivered(), 3);
}

pub(crate) async fn what_is_committed_is_resumed(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    for partition in 0..2 {
        cluster.fill(&topic, partition, 10).await;
    }
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_read(20).await;
    assert_eq!(first.commit(&topic, &[(1, 7), (0, 4)]).await, [Ok(()), Ok(())]);
    first.close().await;
    // The policy has no say in it.
    let mut second = join_at(&cluster, &group, &[&topic], StartAt::Latest).await;
    second.until_read(9).await;
    assert_eq!((second.start(0), second.start(1)), ((4, false), (7, false)));
    assert_eq!(second.offsets(0), [4, 5, 6, 7, 8, 9]);
    assert_eq!(second.offsets(1), [7, 8, 9]);
}

pub(crate) async fn a_position_at_either_end_of_the_log_is_in_it(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    for partition in 0..2 {
        cluster.fill(&topic, partition, 10).await;
        cluster.delete_records(&topic, partition, 5).await;
    }
    cluster.alter_committed(&group, &topic, 0, 5, "").await.expect("committed");
    cluster.alter_committed(&group, &topic, 1, 10, "").await.expect("committed");
    let mut member = join_at(&cluster, &group, &[&topic], StartAt::Fail).await;
    member.until_read(5).await;
    cluster.fill(&topic, 1, 1).await;
    member.until_read(6).await;
    assert_eq!((member.start(0), member.start(1)), ((5, false), (10, false)));
    assert_eq!((member.offsets(0), member.offsets(1)), (vec![5, 6, 7, 8, 9], vec![10]));
    assert_eq!(member.seen, [Seen::Assigned(vec![0, 1])]);
}

pub(crate) async fn a_position_below_the_log_gives_way_to_the_policy(cluster: impl Cluster) {
    let topic = cluster.topic(1).await;
    cluster.fill(&topic, 0, 10).await;
    cluster.delete_records(&topic, 0, 5).await;
    for (policy, start) in [(StartAt::Earliest, 5), (StartAt::Latest, 10)] {
        let group = unique("g");
        cluster.alter_committed(&group, &topic, 0, 2, "").await.expect("committed");
        let mut member = join_at(&cluster, &group, &[&topic], policy).await;
        member.until_held(1).await;
        assert_eq!(member.start(0), (start, true), "{policy:?}");
        let told = Seen::Error { fatal: false };
        member.until("word of it", |me| me.saw(&told)).await;
        member.until_read(10 - start as usize).await;
        assert_eq!(member.offsets(0), (start..10).collect::<Vec<_>>(), "{policy:?}");
    }
    assert_refused(&cluster, &topic, 2).await;
}

pub(crate) async fn a_position_beyond_the_log_is_lost_and_gives_way_to_the_policy(
    cluster: impl Cluster,
) {
    let topic = cluster.topic(1).await;
    cluster.fill(&topic, 0, 10).await;
    for (policy, start) in [(StartAt::Earliest, 0), (StartAt::Latest, 10)] {
        let group = unique("g");
        cluster.alter_committed(&group, &topic, 0, 50, "").await.expect("committed");
        let mut member = join_at(&cluster, &group, &[&topic], policy).await;
        member.until_held(1).await;
        assert_eq!(member.start(0), (50, false), "{policy:?}");
        member.until("the loss", |me| me.saw(&Seen::PositionLost(0))).await;
        member.until_held(1).await;
        assert_eq!(member.start(0), (start, true), "{policy:?}");
        member.until_read(10 - start as usize).await;
        assert_eq!(member.offsets(0), (start..10).collect::<Vec<_>>(), "{policy:?}");
    }
    assert_refused(&cluster, &topic, 50).await;
}

/// Under the policy of failing, this position is reported and nothing is read.
async fn assert_refused(cluster: &impl Cluster, topic: &str, committed: i64) {
    let group = unique("g");
    cluster.alter_committed(&group, topic, 0, committed, "").await.expect("committed");
    let mut member = join_at(cluster, &group, &[topic], StartAt::Fail).await;
    member.until("the report", |me| me.saw(&Seen::Failed(0))).await;
    assert!(member.held.is_empty());
    assert_eq!(member.count(), 0);
}

pub(crate) async fn a_topic_that_does_not_exist_is_named(cluster: impl Cluster) {
    let there = cluster.topic(1).await;
    let topics = [there.as_str(), "no-such-topic"];
    let client = cluster.client(None);
    let joined = Member::connect(client, &unique("g"), &topics, StartAt::Earliest).await;
    let error = joined.err().expect("must not start");
    assert_eq!(error.kind(), ErrorKind::UnknownTopic, "{error}");
    assert!(error.to_string().contains("`no-such-topic`"), "{error}");
}
