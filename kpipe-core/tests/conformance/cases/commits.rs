//! What becomes of a commit.

use std::time::Duration;

use kpipe_core::source::{CommitErrorKind, CommitOffset};
use kpipe_core::{Consumer, Failure, Ordering, Record, TopicPartition};

use crate::cluster::Cluster;
use crate::member::{both_until, join};
use crate::service::{Ledger, noting, shut_down, start, until, until_asked};
use crate::unique;

pub(crate) async fn an_outsider_commits_up_to_4096_bytes_of_metadata(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    assert_eq!(cluster.committed(&group, &topic, 0).await, None);
    cluster.alter_committed(&group, &topic, 0, 3, "").await.expect("taken");
    assert_eq!(cluster.committed_with(&group, &topic, 0).await, Some((3, String::new())));
    let most = "x".repeat(4_096);
    cluster.alter_committed(&group, &topic, 0, 4, &most).await.expect("taken");
    assert_eq!(cluster.committed_with(&group, &topic, 0).await, Some((4, most.clone())));
    let more = "x".repeat(4_097);
    assert!(cluster.alter_committed(&group, &topic, 0, 5, &more).await.is_err());
    assert_eq!(cluster.committed_with(&group, &topic, 0).await, Some((4, most)));
    // There is no such partition.
    assert!(cluster.alter_committed(&group, &topic, 1, 0, "").await.is_err());
    assert_eq!(cluster.committed(&unique("g"), &topic, 0).await, None, "another group");
}

pub(crate) async fn an_outsider_commits_only_while_the_group_is_empty(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_held(1).await;
    assert_eq!(member.commit(&topic, &[(0, 0)]).await, [Ok(())]);
    assert!(cluster.alter_committed(&group, &topic, 0, 7, "").await.is_err());
    assert_eq!(cluster.committed(&group, &topic, 0).await, Some(0));
    member.close().await;
    until_asked("the outsider's turn", async || {
        cluster.alter_committed(&group, &topic, 0, 7, "").await.is_ok()
    })
    .await;
    assert_eq!(cluster.committed(&group, &topic, 0).await, Some(7));
}

pub(crate) async fn a_commit_may_go_back(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_read(10).await;
    for next in [8, 3, 9, 0] {
        assert_eq!(member.commit(&topic, &[(0, next)]).await, [Ok(())]);
        assert_eq!(cluster.committed(&group, &topic, 0).await, Some(next));
    }
    // Beyond the log too.
    assert_eq!(member.commit(&topic, &[(0, 1_000)]).await, [Ok(())]);
    assert_eq!(cluster.committed(&group, &topic, 0).await, Some(1_000));
    assert!(member.commit(&topic, &[]).await.is_empty());
}

/// A commit is judged by who is a member, and not by who owns the partition.
pub(crate) async fn whoever_is_a_member_commits_any_partition(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    let other = cluster.topic(1).await;
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_held(2).await;
    let mut second = join(&cluster, &group, &[&topic]).await;
    both_until(&mut first, &mut second, "they share", |first, second| {
        first.held.len() == 1 && second.held.len() == 1
    })
    .await;
    let (mine, theirs) = (first.partitions()[0], second.partitions()[0]);
    let answers = first.commit(&topic, &[(theirs, 2), (mine, 1)]).await;
    assert_eq!(answers, [Ok(()), Ok(())]);
    assert_eq!(cluster.committed(&group, &topic, theirs).await, Some(2));
    assert_eq!(first.commit(&other, &[(0, 4)]).await, [Ok(())], "of a topic of no concern to it");
    assert_eq!(cluster.committed(&group, &other, 0).await, Some(4));
}

pub(crate) async fn what_was_finished_is_not_handled_again_after_a_restart(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(3).await, unique("g"));
    for partition in 0..3 {
        cluster.fill(&topic, partition, 50).await;
    }
    let ledger = Ledger::default();
    let consumer = || noting(&group, &topic, &ledger, Duration::from_millis(1));
    let running = start(&cluster, consumer()).await;
    until("some is handled", || ledger.len() >= 60).await;
    let report = shut_down(running).await;
    assert!(report.uncommitted.is_empty(), "{report}");
    assert_eq!(ledger.len() as i64, report.committed.values().sum::<i64>(), "{report}");
    for (place, next) in &report.committed {
        assert_eq!(cluster.committed(&group, &topic, place.partition).await, Some(*next));
    }
    let running = start(&cluster, consumer()).await;
    until("the rest is handled", || ledger.len() == 150).await;
    shut_down(running).await;
    assert_eq!(ledger.twice(), []);
}

pub(crate) async fn a_failed_record_is_where_the_next_member_begins(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let ledger = Ledger::default();
    let noted = ledger.clone();
    let handler = move |record: Record| {
        noted.note(&record);
        async move {
            match record.offset() {
                4 => Err(Failure::msg("declined")),
                _ => Ok(()),
            }
        }
    };
    let consumer = Consumer::new(group.as_str())
        .topic(topic.as_str(), handler)
        .ordering(Ordering::Parallel)
        .commit_interval(Duration::from_millis(200));
    let running = start(&cluster, consumer).await;
    until("all were tried", || ledger.len() == 10).await;
    until_asked("what may be committed is", async || {
        cluster.committed(&group, &topic, 0).await == Some(4)
    })
    .await;
    let report = shut_down(running).await;
    assert_eq!((report.stats.passed, report.stats.abandoned_failed), (9, 1), "{report}");
    let mut next = join(&cluster, &group, &[&topic]).await;
    next.until_read(6).await;
    assert_eq!(next.start(0), (4, false));
}

pub(crate) async fn a_deleted_topic_takes_its_committed_offsets_along(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    let stays = cluster.topic(1).await;
    for topic in [&topic, &stays] {
        cluster.alter_committed(&group, topic, 0, 7, "").await.expect("committed");
    }
    cluster.delete_topic(&topic).await;
    cluster.create_topic(&topic, 1).await;
    until_asked("the offset is gone", async || {
        cluster.committed(&group, &topic, 0).await.is_none()
    })
    .await;
    assert_eq!(cluster.committed(&group, &stays, 0).await, Some(7));
}

pub(crate) async fn a_commit_in_a_deleted_topic_fails_for_that_alone(cluster: impl Cluster) {
    let topics = [cluster.topic(1).await, cluster.topic(1).await];
    let mut member = join(&cluster, &unique("g"), &[&topics[0], &topics[1]]).await;
    member.until_held(2).await;
    cluster.delete_topic(&topics[1]).await;
    let wanted = [(&topics[1], 0, 3), (&topics[0], 0, 5), (&topics[0], 7, 9)];
    let answers = member.commit_all(wanted.map(|(topic, partition, next)| CommitOffset {
        partition: TopicPartition::new(topic.as_str(), partition),
        next,
    }));
    let retry = Err(CommitErrorKind::Retry);
    assert_eq!(answers.await, [retry, Ok(()), retry]);
}
