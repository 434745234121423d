//! Revokes that are answered late, or not at all.

use std::time::Duration;

use kpipe_core::StartAt;
use kpipe_core::source::CommitErrorKind;
use tokio::time::Instant;

use crate::cluster::{Cluster, Protocol};
use crate::member::{Member, both_until, join};
use crate::{PATIENCE, unique};

pub(crate) async fn nothing_is_handed_on_before_it_is_given_back(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    for partition in 0..2 {
        cluster.fill(&topic, partition, 10).await;
    }
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_read(20).await;
    first.keeps = true;
    let mut second = join(&cluster, &group, &[&topic]).await;
    both_until(&mut first, &mut second, "the revoke", |first, _| !first.kept.is_empty()).await;
    let deadline = Instant::now() + Duration::from_secs(1);
    both_until(&mut first, &mut second, "a while", |_, _| Instant::now() >= deadline).await;
    assert_eq!(second.held.len(), 0);
    // It is still a member, and what it commits counts.
    assert_eq!(first.commit(&topic, &[(0, 10), (1, 10)]).await, [Ok(()), Ok(())]);
    first.let_go().await;
    both_until(&mut first, &mut second, "they share", |first, second| {
        first.held.len() == 1 && second.held.len() == 1
    })
    .await;
    let moved = second.partitions()[0];
    assert_eq!(second.start(moved), (10, false));
    // Both go on, and what was read is not read again.
    for partition in 0..2 {
        cluster.fill(&topic, partition, 5).await;
    }
    both_until(&mut first, &mut second, "the rest", |first, second| {
        first.count() >= 25 && second.count() >= 5
    })
    .await;
    assert_eq!(second.offsets(moved), (10..15).collect::<Vec<_>>());
    assert_eq!(first.offsets(1 - moved), (0..15).collect::<Vec<_>>());
    let story = match cluster.protocol() {
        Protocol::Eager => "assigned 2, revoked 2, assigned 1",
        _ => "assigned 2, revoked 1",
    };
    assert_eq!((first.story().as_str(), second.story().as_str()), (story, "assigned 1"));
}

/// Others would not commit what they could finish if records went on coming.
pub(crate) async fn nothing_is_delivered_while_something_is_to_be_given_back(
    cluster: impl Cluster,
) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_held(2).await;
    first.keeps = true;
    let mut second = join(&cluster, &group, &[&topic]).await;
    both_until(&mut first, &mut second, "the revoke", |first, _| !first.kept.is_empty()).await;
    for partition in 0..2 {
        cluster.fill(&topic, partition, 10).await;
    }
    let while_ago = Instant::now() + Duration::from_secs(1);
    both_until(&mut first, &mut second, "a while", |_, _| Instant::now() >= while_ago).await;
    assert_eq!(first.count(), 0, "of what it keeps neither");
    first.let_go().await;
    both_until(&mut first, &mut second, "all of it", |first, second| {
        first.count() + second.count() >= 20
    })
    .await;
    for partition in 0..2 {
        let all = [first.offsets(partition), second.offsets(partition)].concat();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }
}

pub(crate) async fn who_does_not_give_back_in_time_is_out(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    let waited_for = Some(Duration::from_secs(6));
    let connect = async || {
        let client = cluster.client(waited_for);
        Member::connect(client, &group, &[&topic], StartAt::Earliest).await
    };
    let mut first = connect().await.expect("joins");
    first.until_held(2).await;
    assert_eq!(first.commit(&topic, &[(0, 0), (1, 0)]).await, [Ok(()), Ok(())]);
    first.keeps = true;
    let mut second = connect().await.expect("joins");
    if cluster.protocol() == Protocol::Cooperative {
        // Their rebalance was over when the revoke came: nobody counts the time until there is another.
        let long = Instant::now() + Duration::from_secs(7);
        both_until(&mut first, &mut second, "long", |_, _| Instant::now() >= long).await;
        assert_eq!((first.kept.len(), second.held.len()), (1, 0));
        let mut third = connect().await.expect("joins");
        let next = async {
            while third.held.len() != 1 {
                tokio::join!(first.step(), second.step(), third.step());
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("the others share");
        third.close().await;
    }
    both_until(&mut first, &mut second, "all for the second", |_, second| second.held.len() == 2)
        .await;
    assert!(!first.kept.is_empty(), "{:?}", first.seen);
    cluster.fill(&topic, 0, 5).await;
    second.until_read(5).await;
    assert_eq!(second.commit(&topic, &[(0, 5)]).await, [Ok(())]);
    // Too late.
    let late = first.commit(&topic, &[(0, 3), (1, 3)]).await;
    assert_eq!(late, [Err(CommitErrorKind::Fenced), Err(CommitErrorKind::Fenced)]);
    assert_eq!(cluster.committed(&group, &topic, 0).await, Some(5));
    assert_eq!(cluster.committed(&group, &topic, 1).await, Some(0));
    // It joins again by itself once it has let go.
    first.let_go().await;
    both_until(&mut first, &mut second, "they share", |first, second| {
        first.held.len() == 1 && second.held.len() == 1
    })
    .await;
    // What it was not asked for is lost, which it is told once the revoke is answered.
    let story = match cluster.protocol() {
        Protocol::Eager => "assigned 2, revoked 2, assigned 1",
        _ => "assigned 2, revoked 1, lost 1, assigned 1",
    };
    assert_eq!(first.story(), story);
}

pub(crate) async fn who_closes_owes_nothing(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.left_alone = vec![0, 1];
    first.until_held(2).await;
    first.keeps = true;
    let mut second = join(&cluster, &group, &[&topic]).await;
    both_until(&mut first, &mut second, "the revoke", |first, _| !first.kept.is_empty()).await;
    let held = std::mem::take(&mut first.held);
    first.close().await;
    second.until_held(2).await;
    assert!(!second.story().contains("lost"), "{}", second.story());
    let mut records = Vec::new();
    for held in held.values() {
        assert_eq!(
            held.queue.take(10, &mut records),
            0,
            "a queue that outlives its source is empty"
        );
    }
}
