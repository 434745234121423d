//! G1: what is committed, and when.

use std::time::Duration;

use kpipe_core::source::CommitErrorKind;
use kpipe_core::{Ordering, Record, TopicPartition};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

#[tokio::test(start_paused = true)]
async fn an_offset_is_committed_only_when_every_record_below_it_is_done() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.produce("t", 0, None, "gate");
    for _ in 0..50 {
        cluster.produce("t", 0, None, "done");
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    pass(6).await;
    assert_eq!(cluster.committed("t", 0), Some(1));
    let partition = &running.stats().partitions[0];
    assert_eq!((partition.frontier, partition.finished_beyond), (1, 50));
    assert_eq!((partition.log_end, partition.lag), (Some(52), Some(51)));
    assert!(partition.oldest_age.unwrap() >= Duration::from_secs(5));

    probe.open_gate();
    pass(6).await;
    assert_eq!(cluster.committed("t", 0), Some(52));
    assert_eq!(running.stats().partitions[0].lag, Some(0));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_finished_frontier_is_committed_within_the_interval_however_slow_others_are() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.produce("t", 1, None, "gate");
    let running =
        start(consumer(&probe).commit_interval(Duration::from_millis(500)), &cluster).await;
    cluster.assign("t", [0, 1]);
    tokio::time::sleep(Duration::from_millis(550)).await;
    assert_eq!(cluster.committed("t", 0), Some(1));
    drop(running);
}

/// The position found for a new group is committed once; after that nothing moves and nothing is
/// sent.
#[tokio::test(start_paused = true)]
async fn nothing_is_committed_when_nothing_moved() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    pass(100).await;
    assert_eq!(cluster.commits(), [(TopicPartition::new("t", 0), 1)]);
    running.shutdown(Duration::from_secs(1)).await.unwrap();
    assert_eq!(cluster.commits().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn c7_a_failed_commit_is_repeated_when_traffic_has_stopped() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.fail_commits([CommitErrorKind::Retry, CommitErrorKind::Retry]);
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    pass(16).await;
    assert_eq!(cluster.committed("t", 0), Some(1));
    let stats = running.stats();
    assert_eq!((stats.commits, stats.commit_failures), (1, 2));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn c6_offset_gaps_end_at_the_last_record_plus_one() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for offset in [0, 2, 4, 1_000_000_006] {
        let value = if offset == 4 { "gate" } else { "done" };
        cluster.append(Record::builder("t", 0, offset).value(value).build());
    }
    let running = start(consumer(&probe).ordering(Ordering::Parallel), &cluster).await;
    cluster.assign("t", [0]);
    pass(6).await;
    assert_eq!(cluster.committed("t", 0), Some(4));
    probe.open_gate();
    pass(6).await;
    assert_eq!(cluster.committed("t", 0), Some(1_000_000_007));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn c10_a_log_that_starts_at_5000() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for offset in 5_000..5_010 {
        cluster.append(Record::builder("t", 0, offset).value("done").build());
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(probe.offsets(), (5_000..5_010).collect::<Vec<_>>());
    running.shutdown(Duration::from_secs(1)).await.unwrap();
    assert_eq!(cluster.committed("t", 0), Some(5_010));
}

#[tokio::test(start_paused = true)]
async fn c4_a_restart_begins_at_the_committed_offset() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..10 {
        cluster.produce("t", 0, None, "done");
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.revoke("t", [0]);
    settle().await;
    for _ in 0..10 {
        cluster.produce("t", 0, None, "done");
    }
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(probe.offsets(), (0..20).collect::<Vec<_>>(), "nothing skipped, nothing twice");
    drop(running);
}

/// The client delivers a record twice about once in 8,300 pause cycles.
#[tokio::test(start_paused = true)]
async fn a_record_below_the_next_expected_offset_is_dropped_and_counted() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for offset in [0, 1, 2, 1, 2, 3] {
        cluster.append(Record::builder("t", 0, offset).value("done").build());
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(probe.offsets(), [0, 1, 2, 3]);
    let report = running.shutdown(Duration::from_secs(1)).await.unwrap();
    let stats = report.stats;
    assert_eq!((stats.received, stats.passed, stats.duplicates), (6, 4, 2));
    assert_eq!((stats.unfinished(), stats.held, stats.bytes_held), (0, 0, 0));
}

/// C22, scaled: requests are bounded by time, not by records.
#[tokio::test(start_paused = true)]
async fn c22_commits_are_counted_by_time_not_by_records() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    let running =
        start(consumer(&probe).commit_interval(Duration::from_millis(100)), &cluster).await;
    cluster.assign("t", 0..4);
    for i in 0..2_000 {
        cluster.produce("t", i % 4, None, "done");
        if i % 2 == 0 {
            settle().await;
        }
    }
    pass(1).await;
    assert_eq!(probe.begun().len(), 2_000);
    // A thousand milliseconds of records and a second after.
    let requests = running.stats().commits;
    assert!(requests <= 2_000 / 100 + 4, "{requests}");
    drop(running);
}

/// Looking up where new partitions start may take seconds; those that stay are committed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_slow_assignment_holds_up_no_commit_of_others() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    let interval = Duration::from_secs(1);
    let running = start(consumer(&probe).commit_interval(interval), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.slow_assigns(Duration::from_secs(30));
    cluster.assign("t", [1]);
    settle().await;
    for finished in 1..=5 {
        cluster.produce("t", 0, None, "x");
        tokio::time::sleep(interval + interval / 10).await;
        assert_eq!(cluster.committed("t", 0), Some(finished));
    }
    assert_eq!(cluster.committed("t", 1), None, "not assigned yet");
    drop(running);
}
