//! Logs with holes, and logs that are cut from under a member.

use std::time::Duration;

use crate::cluster::{Cluster, End};
use crate::member::{Seen, join};
use crate::service::{Ledger, noting, shut_down, start, until, until_asked};
use crate::unique;

pub(crate) async fn a_committed_transaction_leaves_an_offset_without_a_record(
    cluster: impl Cluster,
) {
    gap(cluster, End::Commit).await;
}

pub(crate) async fn an_aborted_transaction_leaves_offsets_without_records(cluster: impl Cluster) {
    gap(cluster, End::Abort).await;
}

/// Five records, four in a transaction with its marker, five records.
async fn gap(cluster: impl Cluster, end: End) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 5).await;
    cluster.transaction(&topic, 0, 4, end).await;
    // The marker is written after the producer has its answer.
    until_asked("the marker", async || cluster.log_range(&topic, 0).await == (0, 10)).await;
    let visible: Vec<i64> = match end {
        End::Commit => (0..9).collect(),
        End::Abort => (0..5).collect(),
    };
    let ledger = Ledger::default();
    let running = start(&cluster, noting(&group, &topic, &ledger, Duration::ZERO)).await;
    let last = *visible.last().expect("some");
    until_asked("what is there is committed", async || {
        cluster.committed(&group, &topic, 0).await == Some(last + 1)
    })
    .await;
    assert_eq!(ledger.offsets(0), visible);
    // The frontier passes the gap with the next record.
    cluster.fill(&topic, 0, 5).await;
    until_asked("the rest is committed", async || {
        cluster.committed(&group, &topic, 0).await == Some(15)
    })
    .await;
    assert_eq!(ledger.offsets(0), visible.into_iter().chain(10..15).collect::<Vec<_>>());
    let report = shut_down(running).await;
    assert_eq!(report.stats.duplicates, 0, "{report}");

    // A position in the gap is one in the log.
    cluster.alter_committed(&group, &topic, 0, 9, "").await.expect("committed");
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_read(5).await;
    assert_eq!(member.start(0), (9, false));
    assert_eq!(member.offsets(0), (10..15).collect::<Vec<_>>());
    assert_eq!(member.seen, [Seen::Assigned(vec![0])]);
}

pub(crate) async fn records_deleted_from_under_a_member_are_skipped(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_held(2).await;
    member.left_alone = vec![0];
    // Far more than what may lie prefetched.
    cluster.fill(&topic, 0, 20_000).await;
    cluster.fill(&topic, 1, 2_000).await;
    member.until("the other", |me| me.offsets(1).len() >= 1_000).await;
    cluster.delete_records(&topic, 0, 19_000).await;
    member.left_alone.clear();
    member.until("the rest", |me| me.offsets(0).last() == Some(&19_999)).await;
    member.until("the other's rest", |me| me.offsets(1).last() == Some(&1_999)).await;
    assert!(member.saw(&Seen::PositionLost(0)), "{:?}", member.seen);
    assert_eq!(member.start(0), (19_000, true));
    let offsets = member.offsets(0);
    let prefetched = offsets.iter().take_while(|offset| **offset < 19_000).count();
    assert!(prefetched < 18_000, "deleted before it was fetched");
    assert!(offsets[..prefetched].iter().copied().eq(0..prefetched as i64), "none is left out");
    assert!(offsets[prefetched..].iter().copied().eq(19_000..20_000), "none is left out");
    assert!(member.offsets(1).into_iter().eq(0..2_000), "the other partition goes on");
}

pub(crate) async fn a_topic_that_is_deleted_is_reported_and_the_others_go_on(
    cluster: impl Cluster,
) {
    let (gone, stays) = (cluster.topic(1).await, cluster.topic(1).await);
    cluster.fill(&gone, 0, 10).await;
    let mut member = join(&cluster, &unique("g"), &[&gone, &stays]).await;
    member.until_read(10).await;
    member.until_held(2).await;
    cluster.delete_topic(&gone).await;
    cluster.fill(&stays, 0, 10).await;
    member.until_read(20).await;
    member.until("the rebalance", |me| me.held.len() == 1).await;
    assert_eq!(&*member.held.keys().next().expect("one").topic, stays.as_str());
    cluster.fill(&stays, 0, 10).await;
    member.until_read(30).await;
    assert!(member.saw(&Seen::Error { fatal: false }), "{:?}", member.seen);
    assert!(!member.saw(&Seen::Error { fatal: true }), "{:?}", member.seen);
}

pub(crate) async fn the_end_of_the_log_and_the_lag_are_the_brokers(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    cluster.fill(&topic, 0, 30).await;
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_read(30).await;
    assert_eq!(member.log_ends(&topic, &[1, 0]).await, [Some(0), Some(30)]);
    assert_eq!(member.log_ends(&topic, &[0, 7]).await, [Some(30), None], "no such partition");
    member.close().await;

    let ledger = Ledger::default();
    let running = start(&cluster, noting(&group, &topic, &ledger, Duration::ZERO)).await;
    cluster.fill(&topic, 0, 30).await;
    let lags = || running.stats().partitions.iter().map(|one| one.lag).collect::<Vec<_>>();
    until("everything is handled", || ledger.len() == 60).await;
    until("no lag", || lags() == [Some(0), Some(0)]).await;
    let ends: Vec<_> = running.stats().partitions.iter().map(|one| one.log_end).collect();
    assert_eq!(ends, [Some(60), Some(0)]);
    assert_eq!(cluster.log_range(&topic, 0).await, (0, 60));
    shut_down(running).await;
}

pub(crate) async fn records_deleted_below_the_position_cost_nothing(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 10).await;
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_read(10).await;
    cluster.delete_records(&topic, 0, 10).await;
    assert_eq!(cluster.log_range(&topic, 0).await, (10, 10));
    cluster.fill(&topic, 0, 5).await;
    member.until_read(15).await;
    assert_eq!(member.offsets(0), (0..15).collect::<Vec<_>>());
    assert_eq!(member.seen, [Seen::Assigned(vec![0])]);
}

pub(crate) async fn a_topic_made_anew_is_read_from_its_beginning(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(1).await, unique("g"));
    cluster.fill(&topic, 0, 100).await;
    let mut member = join(&cluster, &group, &[&topic]).await;
    member.until_read(100).await;
    assert_eq!(member.commit(&topic, &[(0, 100)]).await, [Ok(())]);
    cluster.delete_topic(&topic).await;
    cluster.create_topic(&topic, 1).await;
    cluster.fill(&topic, 0, 50).await;
    member.read.clear();
    member.until_read(50).await;
    assert_eq!(member.offsets(0), (0..50).collect::<Vec<_>>());
}
