//! G8 and G9: what user code does wrong is a counted failure of one record.

use std::time::Duration;

use kpipe_core::{Consumer, Context, OnFailure, Ordering, Record};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_failed_record_stays_pins_the_frontier_and_keeps_its_key_waiting() {
    for inline in [true, false] {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        cluster.produce("t", 0, Some("a"), "done");
        cluster.produce("t", 0, Some("b"), "fail");
        cluster.produce("t", 0, Some("b"), "done");
        cluster.produce("t", 0, Some("c"), "done");
        let running = start(consumer(&probe).first_poll_inline(inline), &cluster).await;
        cluster.assign("t", [0]);
        pass(6).await;
        assert_eq!(probe.offsets(), [0, 1, 3], "inline {inline}");
        assert_eq!(cluster.committed("t", 0), Some(1));
        let stats = running.stats();
        let partition = &stats.partitions[0];
        assert_eq!((stats.passed, stats.failed, partition.waiting), (2, 1, 1));
        let failed = partition.first_failed.as_ref().unwrap();
        assert_eq!((failed.offset, failed.error.as_str()), (1, "asked to fail"));
        assert_eq!(stats.in_flight, 0, "its slot is free");

        // A later record of the key, in a batch of its own, waits as well.
        cluster.produce("t", 0, Some("b"), "done");
        settle().await;
        assert_eq!(probe.offsets(), [0, 1, 3]);

        let report = running.shutdown(SECOND).await.unwrap();
        let stats = report.stats;
        assert_eq!((stats.received, stats.passed, stats.abandoned), (5, 2, 3));
        assert_eq!((stats.held, stats.bytes_held, stats.in_flight), (0, 0, 0));
        assert_eq!(cluster.committed("t", 0), Some(1));
    }
}

#[tokio::test(start_paused = true)]
async fn drop_moves_on_and_counts() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for value in ["done", "fail", "panic", "done", "5ms"] {
        cluster.produce("t", 0, Some("k"), value);
    }
    let running = start(consumer(&probe).on_failure(OnFailure::Drop), &cluster).await;
    cluster.assign("t", [0]);
    pass(1).await;
    let report = running.shutdown(SECOND).await.unwrap();
    let stats = report.stats;
    assert_eq!((stats.received, stats.passed, stats.dropped), (5, 3, 2));
    assert_eq!(cluster.committed("t", 0), Some(5));
}

#[tokio::test(start_paused = true)]
async fn sequential_waits_as_a_whole_behind_a_record_that_stays() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "fail");
    cluster.produce("t", 0, None, "done");
    cluster.produce("t", 1, None, "done");
    let running = start(consumer(&probe).ordering(Ordering::Sequential), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.assign("t", [1]);
    settle().await;
    assert_eq!(probe.begun(), [(0, 0)]);
    let report = running.shutdown(SECOND).await.unwrap();
    assert_eq!((report.stats.in_flight, report.stats.held), (0, 0));
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Panics in a closure's own body, before and after its first await, and in the drop of its future.
#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_is_a_failure_of_that_record_alone() {
    let cluster = Cluster::new();
    for value in ["body", "first poll", "later", "drop", "cancelled", "fine"] {
        cluster.produce("t", 0, None, value);
    }
    let consumer = Consumer::new("g")
        .topic("t", |record: Record| {
            let text = String::from_utf8(record.value().unwrap().to_vec()).unwrap();
            assert!(text != "body", "in the body");
            async move {
                assert!(text != "first poll", "in the first poll");
                let bomb = (text == "cancelled").then(|| PanicsWhenDropped);
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(text != "later", "after an await");
                if text == "drop" {
                    drop(PanicsWhenDropped);
                }
                if bomb.is_some() {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        })
        .on_failure(OnFailure::Drop)
        .attempt_deadline(SECOND);
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    pass(2).await;
    let stats = running.stats();
    assert_eq!((stats.received, stats.passed, stats.dropped), (6, 1, 5));
    assert_eq!((stats.in_flight, stats.held), (0, 0));
    running.shutdown(SECOND).await.unwrap();
    assert_eq!(cluster.committed("t", 0), Some(6));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_key_function_is_a_failure_of_that_record() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for value in ["done", "1ms", "done"] {
        cluster.produce("t", 0, Some("k"), value);
    }
    let by = |record: &Record| {
        assert!(record.offset() != 1, "no key for this one");
        Some(0)
    };
    let running = start(consumer(&probe).key_by(by), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let stats = running.stats();
    assert_eq!((stats.passed, stats.failed, probe.offsets()), (2, 1, vec![0, 2]));
    let failed = stats.partitions[0].first_failed.clone().unwrap();
    assert_eq!((failed.offset, failed.error.as_str()), (1, "panicked: no key for this one"));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn c18_a_handler_that_never_ends_meets_its_deadline_and_frees_its_slot() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, Some("k"), "never");
    cluster.produce("t", 0, Some("other"), "done");
    let running = start(consumer(&probe).max_in_flight(2), &cluster).await;
    cluster.assign("t", [0]);
    pass(299).await;
    assert_eq!((running.stats().in_flight, running.stats().failed), (1, 0));
    assert!(running.stats().oldest_age.unwrap() >= Duration::from_secs(298));
    pass(2).await;
    let stats = running.stats();
    assert_eq!((stats.in_flight, stats.failed, probe.running()), (0, 1, 0));
    let failed = stats.partitions[0].first_failed.clone().unwrap();
    assert_eq!(failed.error, "not finished within the attempt deadline of 300s");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_it_goes_on() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "never");
    let running = start(consumer(&probe).no_attempt_deadline(), &cluster).await;
    cluster.assign("t", [0]);
    pass(10_000).await;
    assert_eq!((running.stats().in_flight, running.stats().failed), (1, 0));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_handler_sees_its_attempt_deadline_and_group() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "x");
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let consumer = Consumer::new("audit")
        .topic("t", move |_: Record, context: Context| {
            let left = context.deadline().map(|by| by - std::time::Instant::now());
            let group = context.group_id().to_owned();
            let sent = sender.send((context.attempt(), left, group, context.is_cancelled()));
            async move { Ok(sent?) }
        })
        .attempt_deadline(Duration::from_secs(30));
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    let (attempt, left, group, cancelled) = seen.recv().await.unwrap();
    assert_eq!((attempt, group.as_str(), cancelled), (1, "audit", false));
    assert!(left.unwrap() <= Duration::from_secs(30) && left.unwrap() > Duration::from_secs(28));
    drop(running);
}

/// C15, in memory: exact accounting over many failures, and memory that does not follow them.
#[tokio::test(start_paused = true)]
async fn c15_every_seventh_record_fails_for_good() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..10_000 {
        let value = if i % 7 == 0 { "fail" } else { "done" };
        cluster.produce("t", i % 5, Some(&i.to_string()), value);
    }
    let running = start(consumer(&probe).on_failure(OnFailure::Drop), &cluster).await;
    cluster.assign("t", 0..5);
    pass(6).await;
    let stats = running.shutdown(SECOND).await.unwrap().stats;
    assert_eq!((stats.received, stats.dropped, stats.passed), (10_000, 1_429, 8_571));
    assert_eq!((0..5).map(|p| cluster.committed("t", p).unwrap()).sum::<i64>(), 10_000);
}
