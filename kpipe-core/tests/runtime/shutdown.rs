//! G10, and what happens without it (C36).

use std::time::Duration;

use kpipe_core::source::{Closed, Event, SourceError};
use kpipe_core::{Consumer, ErrorKind, Record, TopicPartition};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_what_runs_end_and_reports() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..10 {
        cluster.produce("t", i % 2, Some("k"), "100ms");
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0, 1]);
    settle().await;
    let report = running.shutdown(Duration::from_secs(5)).await.unwrap();
    let stats = &report.stats;
    assert_eq!((stats.received, stats.passed, stats.abandoned), (10, 2, 8));
    assert_eq!(report.committed[&TopicPartition::new("t", 0)], 1);
    assert!(report.uncommitted.is_empty());
    assert_eq!(report.closed, Closed::Completely);
    assert!(report.took < Duration::from_millis(200), "{:?}", report.took);
    assert!(cluster.closed());
    assert_eq!(
        report.to_string().split("; closed").next().unwrap(),
        "10 received: 2 passed, 0 dropped, 8 abandoned, 0 duplicate; positions committed in \
         2 partitions"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_within_its_deadline_whatever_handlers_do() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.produce("t", 0, None, "never");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let begun = tokio::time::Instant::now();
    let report = running.shutdown(Duration::from_secs(5)).await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(5));
    assert_eq!((report.stats.passed, report.stats.abandoned), (1, 1));
    assert_eq!((report.stats.in_flight, probe.running()), (0, 0));
    assert_eq!(cluster.committed("t", 0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_cuts_a_drain_short_that_is_under_way() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "never");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.revoke("t", [0]);
    settle().await;
    let begun = tokio::time::Instant::now();
    let report = running.shutdown(Duration::from_secs(2)).await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(2));
    assert_eq!(report.stats.abandoned, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_last_commit_is_in_the_report() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.fail_commits([kpipe_core::source::CommitErrorKind::Fenced]);
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let report = running.shutdown(Duration::from_secs(2)).await.unwrap();
    assert_eq!(report.uncommitted[&TopicPartition::new("t", 0)], 1);
    assert!(report.committed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn until_ends_with_the_signal() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    let report = running.until(pass(3)).await.unwrap();
    assert_eq!((report.stats.passed, cluster.committed("t", 0)), (1, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn until_ends_with_an_error_when_the_membership_is_over() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.send(Event::Error(SourceError { message: "passing".into(), fatal: false }));
    settle().await;
    assert_eq!(running.stats().client_errors, 1);
    cluster.send(Event::Error(SourceError { message: "fenced for good".into(), fatal: true }));
    let error = running.until(std::future::pending()).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Client, "fenced for good"));
    assert_eq!(cluster.committed("t", 0), Some(1), "what was done is committed");
}

#[tokio::test(start_paused = true)]
async fn c36_dropping_the_handle_shuts_down_behind_its_back() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    drop(running);
    pass(26).await;
    assert!(cluster.closed());
    assert_eq!(cluster.committed("t", 0), Some(1));
}

#[test]
fn c36_dropping_the_handle_outside_a_runtime_or_after_it_neither_hangs_nor_aborts() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "never");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let probe = Probe::default();
    let running = runtime.block_on(async {
        let running = start(consumer(&probe), &cluster).await;
        cluster.assign("t", [0]);
        settle().await;
        running
    });
    let stats = running.stats();
    assert_eq!(stats.in_flight, 1);
    drop(runtime);
    assert_eq!(running.stats().in_flight, 0, "a task that is dropped gives everything back");
    assert_eq!((running.stats().held, running.stats().passed), (0, 0), "and acknowledges nothing");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_handler_on_the_way_out_may_still_count() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "x");
    let consumer =
        Consumer::new("g").topic("t", |_: Record, context: kpipe_core::Context| async move {
            context.cancelled().await;
            Ok(())
        });
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let report = running.shutdown(Duration::from_secs(2)).await.unwrap();
    assert_eq!((report.stats.passed, cluster.committed("t", 0)), (1, Some(1)));
}

/// Looking up where new partitions start may take longer than a shutdown has.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_an_assignment_that_is_under_way() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "x");
    cluster.produce("t", 0, None, "never");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.slow_assigns(Duration::from_secs(30));
    cluster.assign("t", [1]);
    settle().await;
    let report = running.shutdown(Duration::from_secs(2)).await.unwrap();
    assert_eq!(report.closed, Closed::Completely);
    assert_eq!((report.stats.received, report.stats.passed, report.stats.abandoned), (2, 1, 1));
    assert_eq!(cluster.committed("t", 0), Some(1));
}
