//! G10 in the middle of something else.

use std::time::Duration;

use kpipe_core::source::Closed;
use kpipe_core::{Consumer, Record};
use tokio::time::Instant;

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

#[tokio::test(start_paused = true)]
async fn a_deadline_past_all_clocks_is_a_deadline() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let report = running.shutdown(Duration::MAX).await.unwrap();
    assert_eq!((report.stats.passed, report.closed), (1, Closed::Completely));
}

/// Otherwise a drain that takes nearly all of the time leaves none for the partitions that stay.
#[tokio::test(start_paused = true)]
async fn a_shutdown_in_a_revokes_drain_stops_and_drains_the_other_partitions_as_well() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "never");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0, 1]);
    settle().await;
    cluster.revoke("t", [0]);
    settle().await;
    cluster.produce("t", 1, None, "1500ms");
    settle().await;
    let stopping = tokio::spawn(running.shutdown(Duration::from_secs(10)));
    pass(1).await;
    // Arrives after intake has stopped.
    cluster.produce("t", 1, None, "done");
    let begun = Instant::now();
    let report = stopping.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(7_500), "cancelled at four fifths");
    assert_eq!(probe.begun(), [(0, 0), (1, 0)], "nothing new was begun");
    assert_eq!((report.stats.passed, report.stats.abandoned), (1, 1));
    assert_eq!((report.closed, cluster.committed("t", 1)), (Closed::Completely, Some(1)));
}

/// The broker owes the answer to a revoked partition's last commit; the rest of a shutdown does not
/// wait for it to the end.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_revoked_partitions_commit_to_its_own_end() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.produce("t", 1, None, "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0, 1]);
    settle().await;
    cluster.answer_commits(false);
    cluster.revoke("t", [0]);
    settle().await;
    assert_eq!(cluster.commits().len(), 1);
    let begun = Instant::now();
    let report = running.shutdown(Duration::from_secs(2)).await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(2));
    assert_eq!(report.closed, Closed::Completely, "the group is left in time");
    assert!(cluster.closed());
    assert_eq!(cluster.commits().len(), 2, "and what is finished elsewhere sent");
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// A handler may own what must not be dropped in an async context, a blocking client for one.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_when_it_is_dropped_costs_no_report() {
    let cluster = Cluster::new();
    let owned = PanicsWhenDropped;
    let consumer = Consumer::new("g").topic("t", move |_: Record| {
        let _ = &owned;
        async { Ok(()) }
    });
    let running = start(consumer, &cluster).await;
    settle().await;
    running.shutdown(Duration::from_secs(1)).await.expect("a report");
    assert!(cluster.closed());
}
