//! What becomes of a commit.

use std::time::Duration;

use kpipe_core::source::CommitErrorKind;
use kpipe_core::source::kafka::Kafka;

use kpipe_core::TopicPartition;

use super::cluster::Cluster;
use super::member::{Member, group, subscription};

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_in_the_order_asked_and_for_each_partition() {
    let Some(cluster) = Cluster::get() else { return };
    let topics = [cluster.topic(3).await, cluster.topic(1).await];
    let mut wanted = subscription(&group(), &topics[0]);
    wanted.topics.push(topics[1].as_str().into());
    let mut member = Member::join_with(Kafka::brokers(cluster.address), wanted).await;
    member.until_assigned(4).await;
    assert!(member.commit(&[]).await.is_empty());

    cluster.delete(&topics[1]).await;
    // One of four has no topic any more: it alone fails, though librdkafka puts its error on all.
    let asked: [(&str, i32, i64); 4] =
        [(&topics[0], 2, 3), (&topics[1], 0, 1), (&topics[0], 0, 5), (&topics[0], 1, 7)];
    let answers = member.commit(&asked).await;
    let outcome: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().err().map(|error| error.kind)).collect();
    assert_eq!(outcome, [None, Some(CommitErrorKind::Retry), None, None], "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commits_are_under_way_at_once() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(1).await, group());
    cluster.fill(&topic, 0, 100);
    let mut member = Member::join(cluster, &group, &topic).await;
    member.until_assigned(1).await;
    let place = member.held.keys().next().expect("assigned").clone();
    let commits: Vec<_> = (1..=100)
        .map(|next| {
            let offset = kpipe_core::source::CommitOffset { partition: place.clone(), next };
            member.source().commit(vec![offset])
        })
        .collect();
    for answers in futures::future::join_all(commits).await {
        assert!(answers[0].is_ok(), "{answers:?}");
    }
    member.close(Duration::from_secs(10)).await;
    let mut next = Member::join(cluster, &group, &topic).await;
    next.until_assigned(1).await;
    assert_eq!(next.held.values().next().expect("assigned").assignment.start, 100);
}

/// The group stops waiting for a revoke that takes longer than `max.poll.interval.ms`.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_no_longer_one_is_told_by_its_commit() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(2).await, group());
    let kafka = || {
        Kafka::brokers(cluster.address)
            .option("session.timeout.ms", "6000")
            .option("max.poll.interval.ms", "6000")
    };
    let mut first = Member::join_with(kafka(), subscription(&group, &topic)).await;
    first.until_assigned(2).await;
    first.defer = Duration::from_secs(3_600);
    let mut second = Member::join_with(kafka(), subscription(&group, &topic)).await;
    while second.held.len() != 2 {
        tokio::join!(first.step(), second.step());
    }
    let answers = first.commit(&[(&topic, 0, 0)]).await;
    assert_eq!(answers[0].as_ref().expect_err("fenced").kind, CommitErrorKind::Fenced);
    assert!(first.saw("Revoked"), "{:?}", first.events);
    // Given back, the partitions are not this member's any more, and it joins again.
    let all = [0, 1].map(|partition| TopicPartition::new(topic.as_str(), partition));
    first.unassign(all.to_vec()).await;
    while first.held.len() != 1 || second.held.len() != 1 {
        tokio::join!(first.step(), second.step());
    }
}
