//! Who has which partition when.

use std::time::Duration;

use kpipe_core::{Running, StartAt};
use tokio::time::Instant;

use crate::cluster::{Cluster, Protocol};
use crate::member::{Member, Seen, both_until, join};
use crate::service::{Ledger, noting, shut_down, start, until};
use crate::unique;

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
    let (mine, theirs) = (first.held.len(), second.held.len());
    let story = match cluster.protocol() {
        Protocol::Eager => format!("assigned 5, revoked 5, assigned {mine}"),
        _ => format!("assigned 5, revoked {theirs}"),
    };
    assert_eq!((first.story(), second.story()), (story, format!("assigned {theirs}")));
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

pub(crate) async fn two_topics_of_one_partition_are_dealt_out(cluster: impl Cluster) {
    let topics = [cluster.topic(1).await, cluster.topic(1).await];
    let (names, group) = ([topics[0].as_str(), topics[1].as_str()], unique("g"));
    let mut first = join(&cluster, &group, &names).await;
    first.until_held(2).await;
    let mut second = join(&cluster, &group, &names).await;
    // By range each topic is dealt out for itself, and the same member comes first in both.
    let expected = match cluster.protocol() {
        Protocol::Eager => [0, 2],
        Protocol::Cooperative | Protocol::Incremental => [1, 1],
    };
    both_until(&mut first, &mut second, "shares", |first, second| {
        let mut shares = [first.held.len(), second.held.len()];
        shares.sort_unstable();
        first.story().contains("revoked") && shares == expected
    })
    .await;
}

pub(crate) async fn new_partitions_are_dealt_out(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_read(10).await;
    assert_eq!(member.commit(&topic, &[(0, 10)]).await, [Ok(())]);
    cluster.add_partitions(&topic, 2).await;
    member.until("the new ones", |me| me.partitions() == [0, 1, 2]).await;
    for partition in 0..3 {
        cluster.fill(&topic, partition, 10).await;
    }
    member.until_read(40).await;
    assert_eq!((member.start(1), member.start(2)), ((0, true), (0, true)));
    assert_eq!(member.offsets(0), (0..20).collect::<Vec<_>>(), "goes on where it was");
    assert_eq!(member.offsets(2), (0..10).collect::<Vec<_>>());
}

pub(crate) async fn who_is_dropped_leaves_all_the_same(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    let mut first = join(&cluster, &group, &[&topic]).await;
    first.until_held(1).await;
    let begun = Instant::now();
    drop(first);
    let mut second = join(&cluster, &group, &[&topic]).await;
    second.until_held(1).await;
    // Well below the session timeout.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

pub(crate) async fn groups_know_nothing_of_each_other(cluster: impl Cluster) {
    let topic = cluster.topic(2).await;
    let (one, other) = (unique("g"), unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let mut first = join(&cluster, &one, &[&topic]).await;
    first.until_read(10).await;
    assert_eq!(first.commit(&topic, &[(0, 7)]).await, [Ok(())]);
    let mut second = join(&cluster, &other, &[&topic]).await;
    both_until(&mut first, &mut second, "its records", |_, second| second.count() >= 10).await;
    assert_eq!((first.held.len(), second.held.len()), (2, 2));
    assert_eq!(second.start(0), (0, true));
    assert_eq!(cluster.committed(&other, &topic, 0).await, None);
}

pub(crate) async fn members_get_only_what_they_subscribe_to(cluster: impl Cluster) {
    let topics = [cluster.topic(2).await, cluster.topic(2).await];
    let group = unique("g");
    let mut first = join(&cluster, &group, &[&topics[0]]).await;
    first.until_held(2).await;
    let mut second = join(&cluster, &group, &[&topics[1]]).await;
    both_until(&mut first, &mut second, "each its own", |first, second| {
        first.held.len() == 2 && second.held.len() == 2
    })
    .await;
    for (member, topic) in [(&first, &topics[0]), (&second, &topics[1])] {
        assert!(member.held.keys().all(|place| *place.topic == **topic));
    }
}

pub(crate) async fn how_long_the_group_waits_is_known(cluster: impl Cluster) {
    let topic = cluster.topic(1).await;
    for (given, expected) in [(None, 300), (Some(7), 7)] {
        let client = cluster.client(given.map(Duration::from_secs));
        let member = Member::connect(client, &unique("g"), &[&topic], StartAt::Earliest).await;
        let waits = member.expect("joins").rebalance_timeout();
        assert_eq!(waits, Duration::from_secs(expected));
    }
}
