//! Who has which partition when.

use std::time::Duration;

use kpipe_core::source::CommitErrorKind;
use kpipe_core::{Running, StartAt};
use tokio::time::Instant;

use crate::cluster::{Cluster, Protocol};
use crate::member::{Member, Seen, both_until, join};
use crate::service::{Ledger, noting, shut_down, start, until};
use crate::{PATIENCE, unique};

pub(crate) async fn a_member_without_a_share_waits_for_one(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_read(10).await;
    let mut second = join(&cluster, &group, &[&topic]).await;
    // It asks everybody else to join again, and then one of the two has nothing.
    both_until(&mut first, &mut second, "a rebalance", |first, second| {
        let revoked = first.saw(&Seen::Revoked(vec![0]));
        revoked && first.held.len() + second.held.len() == 1
    })
    .await;
    let (mut owner, mut other) =
        if first.held.is_empty() { (second, first) } else { (first, second) };
    assert_eq!(owner.commit(&topic, &[(0, 4)]).await, [Ok(())]);
    tokio::join!(owner.step(), other.step());
    other.read.clear();
    owner.close().await;
    other.until_read(6).await;
    assert_eq!(other.start(0), (4, false));
    assert_eq!(other.offsets(0), [4, 5, 6, 7, 8, 9]);
}

pub(crate) async fn each_partition_has_one_owner(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(5).await, unique("g"));
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_held(5).await;
    assert_eq!(first.seen, [Seen::Assigned(vec![0, 1, 2, 3, 4])]);
    let mut second = join(&cluster, &group, &[&topic]).await;
    both_until(&mut first, &mut second, "shares", |first, second| {
        first.held.len().min(second.held.len()) == 2 && first.held.len() + second.held.len() == 5
    })
    .await;
    let mut all = [first.partitions(), second.partitions()].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4]);
    assert!(!first.lost_anything() && !second.lost_anything());
    let revoked = first.seen.iter().filter_map(|seen| match seen {
        Seen::Revoked(partitions) => Some(partitions.len()),
        _ => None,
    });
    let revoked: usize = revoked.sum();
    match cluster.protocol() {
        Protocol::Eager => assert_eq!(revoked, 5, "everything is given back"),
        _ => assert_eq!(revoked, second.held.len(), "only what moves is given back"),
    }
}

pub(crate) async fn a_joiner_takes_its_share_with_work_in_flight(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(4).await, unique("g"));
    fill_all(&cluster, &topic).await;
    let (ledger, takes) = (Ledger::default(), Duration::from_millis(5));
    let first = start(&cluster, noting(&group, &topic, &ledger, takes)).await;
    until("the first gets on", || ledger.len() > 100).await;
    let second = start(&cluster, noting(&group, &topic, &ledger, takes)).await;
    until("they share", || share(&first) == 2 && share(&second) == 2).await;
    fill_all(&cluster, &topic).await;
    until("everything is handled", || ledger.len() == 1_600).await;
    for report in [shut_down(first).await, shut_down(second).await] {
        assert!(report.uncommitted.is_empty(), "{report}");
        assert!(report.stats.passed >= 400, "{report}");
    }
    assert_handled_once(&cluster, &group, &topic, &ledger).await;
}

pub(crate) async fn who_leaves_is_taken_over_from(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(4).await, unique("g"));
    let (ledger, takes) = (Ledger::default(), Duration::from_millis(5));
    let first = start(&cluster, noting(&group, &topic, &ledger, takes)).await;
    let second = start(&cluster, noting(&group, &topic, &ledger, takes)).await;
    until("they share", || share(&first) == 2 && share(&second) == 2).await;
    fill_all(&cluster, &topic).await;
    fill_all(&cluster, &topic).await;
    until("both get on", || first.stats().passed > 20 && second.stats().passed > 20).await;
    let report = shut_down(first).await;
    assert!(report.uncommitted.is_empty(), "{report}");
    assert!(report.stats.passed < 800, "it left in the middle: {report}");
    until("everything is handled", || ledger.len() == 1_600).await;
    assert_eq!(share(&second), 4);
    shut_down(second).await;
    assert_handled_once(&cluster, &group, &topic, &ledger).await;
}

async fn fill_all(cluster: &impl Cluster, topic: &str) {
    for partition in 0..4 {
        cluster.fill(topic, partition, 200).await;
    }
}

fn share(member: &Running) -> usize {
    member.stats().partitions.len()
}

async fn assert_handled_once(cluster: &impl Cluster, group: &str, topic: &str, ledger: &Ledger) {
    assert_eq!(ledger.twice(), []);
    for partition in 0..4 {
        assert_eq!(ledger.offsets(partition), (0..400).collect::<Vec<_>>());
        assert_eq!(cluster.committed(group, topic, partition).await, Some(400));
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
}

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
    assert!(!first.lost_anything() && !second.lost_anything());
}

pub(crate) async fn a_close_hands_on_at_once(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_held(2).await;
    let mut second = join(&cluster, &group, &[&topic]).await;
    both_until(&mut first, &mut second, "they share", |first, second| {
        first.held.len() == 1 && second.held.len() == 1
    })
    .await;
    let begun = Instant::now();
    first.close().await;
    second.until_held(2).await;
    // Well below the session timeout of 45 s.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(cluster.committed(&group, &topic, 0).await, None, "nor was anything committed");
}
