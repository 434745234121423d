//! Pressure, and the end.

use std::time::Duration;

use kpipe_core::{Consumer, Ordering, Record};
use tokio::sync::Semaphore;

use crate::cluster::Cluster;
use crate::member::join;
use crate::service::{Ledger, noting, shut_down, start, until};
use crate::unique;

pub(crate) async fn what_is_held_back_is_not_fetched_twice(cluster: impl Cluster) {
    const RECORDS: u32 = 2_000;
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    for partition in 0..2 {
        cluster.fill(&topic, partition, RECORDS).await;
    }
    let gate = std::sync::Arc::new(Semaphore::new(0));
    let behind = gate.clone();
    let handler = move |_: Record| {
        let gate = behind.clone();
        async move {
            gate.acquire().await.expect("open").forget();
            Ok(())
        }
    };
    let consumer = Consumer::new(group.as_str())
        .topic(topic.as_str(), handler)
        .ordering(Ordering::Parallel)
        .max_in_flight(10)
        .max_held(50);
    let running = start(&cluster, consumer).await;
    let all = u64::from(2 * RECORDS);
    // Again and again it is full, and goes on.
    for round in 1..=4 {
        until("it is full", || running.stats().in_flight == 10).await;
        assert!(running.stats().held <= 50);
        assert!(running.stats().records_delivered < all);
        gate.add_permits(100);
        until("it goes on", || running.stats().passed == round * 100).await;
    }
    gate.add_permits(all as usize);
    until("everything is handled", || running.stats().passed == all).await;
    until("all of it was reported", || running.stats().records_fetched >= all).await;
    let report = shut_down(running).await;
    let stats = &report.stats;
    assert_eq!((stats.received, stats.passed, stats.duplicates), (all, all, 0), "{report}");
    assert_eq!(stats.records_delivered, all);
    assert_eq!(stats.records_fetched, all);
}

pub(crate) async fn a_shutdown_commits_and_leaves(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    for partition in 0..2 {
        cluster.fill(&topic, partition, 100).await;
    }
    let ledger = Ledger::default();
    // Nothing is committed on the way.
    let consumer = noting(&group, &topic, &ledger, Duration::from_millis(2))
        .commit_interval(Duration::from_secs(60));
    let running = start(&cluster, consumer).await;
    until("some is handled", || ledger.len() >= 50).await;
    let report = shut_down(running).await;
    let begun = tokio::time::Instant::now();
    let mut next = join(&cluster, &group, &[&topic]).await;
    next.until_held(2).await;
    // Well below the session timeout of 45 s.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for partition in 0..2 {
        let handled = ledger.offsets(partition);
        let position = handled.len() as i64;
        assert_eq!(handled, (0..position).collect::<Vec<_>>());
        assert_eq!(next.start(partition), (position, false), "{report}");
        assert_eq!(cluster.committed(&group, &topic, partition).await, Some(position));
    }
    next.until_read(200 - ledger.len()).await;
}
