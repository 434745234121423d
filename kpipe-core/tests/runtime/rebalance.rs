//! G1, G2 and G7 around a revoke.

use std::time::Duration;

use kpipe_core::source::{Event, SourceError};
use kpipe_core::{Consumer, Context, Failure, Ordering, Record, TopicPartition};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_revoke_waits_for_what_runs_commits_it_and_gives_up_what_waits() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..3 {
        cluster.produce("t", 0, Some("k"), "2000ms");
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    pass(1).await;
    cluster.revoke("t", [0]);
    settle().await;
    assert!(cluster.released().is_empty(), "not given back while an attempt runs");
    pass(2).await;
    assert_eq!(cluster.released(), [TopicPartition::new("t", 0)]);
    assert_eq!((cluster.committed("t", 0), probe.offsets()), (Some(1), vec![0]));
    let stats = running.stats();
    assert_eq!((stats.received, stats.passed, stats.abandoned), (3, 1, 2));
    assert_eq!((stats.held, stats.in_flight, stats.partitions.len()), (0, 0, 0));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_cancelled_and_moves_nothing() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "x");
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let consumer = Consumer::new("g").topic("t", move |_: Record, context: Context| {
        let sender = sender.clone();
        async move {
            context.cancelled().await;
            sender.send(context.is_cancelled())?;
            std::future::pending().await
        }
    });
    let running = start(consumer.drain_deadline(SECOND), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let begun = tokio::time::Instant::now();
    cluster.revoke("t", [0]);
    assert!(seen.recv().await.unwrap(), "the handler sees that it is cancelled");
    settle().await;
    assert!(begun.elapsed() < SECOND + Duration::from_millis(200));
    assert_eq!(cluster.released().len(), 1);
    assert_eq!(cluster.committed("t", 0), Some(0), "the position found, and not a record further");
    assert_eq!(running.stats().abandoned, 1);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn c12_the_partitions_that_stay_go_on_during_a_drain() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "gate");
    let running = start(consumer(&probe).commit_interval(SECOND), &cluster).await;
    cluster.assign("t", 0..3);
    settle().await;
    cluster.revoke("t", [0]);
    settle().await;
    for i in 0..100 {
        cluster.produce("t", 1 + i % 2, Some(&i.to_string()), "1ms");
    }
    pass(2).await;
    assert!(cluster.released().is_empty());
    assert_eq!(running.stats().passed, 100);
    assert_eq!(cluster.committed("t", 1), Some(50), "and are committed on time");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_lost_partition_is_neither_drained_nor_committed() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.produce("t", 0, None, "gate");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.send(Event::Lost(vec![TopicPartition::new("t", 0)]));
    settle().await;
    assert_eq!((cluster.released().len(), cluster.committed("t", 0)), (1, None));
    probe.open_gate();
    pass(6).await;
    assert_eq!(cluster.committed("t", 0), None);
    let stats = running.stats();
    assert_eq!((stats.received, stats.passed, stats.abandoned), (2, 1, 1));
    assert_eq!((stats.held, stats.in_flight), (0, 0));
    drop(running);
}

/// The handler of the old epoch does not notice that it is cancelled, because it blocks its thread;
/// the new epoch must not run its key beside it.
#[test]
fn the_same_key_never_runs_in_two_epochs_at_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_time()
        .build()
        .unwrap();
    let cluster = Cluster::new();
    cluster.produce("t", 0, Some("k"), "x");
    let (begun, begins) = std::sync::mpsc::channel();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
    let consumer = Consumer::new("g")
        .topic("t", move |_: Record| {
            let (begun, gate) = (begun.clone(), gate.clone());
            async move {
                begun.send(())?;
                let _ = gate.lock().unwrap().recv();
                Ok(())
            }
        })
        .first_poll_inline(false)
        .drain_deadline(Duration::from_millis(10));
    let running = runtime.block_on(start(consumer, &cluster));
    cluster.assign("t", [0]);
    begins.recv().unwrap();
    cluster.revoke("t", [0]);
    cluster.assign("t", [0]);
    let assigned_again = || running.stats().partitions.len() == 1 && cluster.released().len() == 1;
    while !assigned_again() {
        std::thread::yield_now();
    }
    assert!(begins.recv_timeout(Duration::from_millis(50)).is_err(), "two attempts at one key");
    go.send(()).unwrap();
    begins.recv_timeout(Duration::from_secs(10)).expect("the new epoch goes on afterwards");
    go.send(()).unwrap();
    drop(running);
}

/// C2 and C13: cycles with records in flight, waiting and failed leave nothing behind.
#[tokio::test(start_paused = true)]
async fn c13_a_hundred_cycles_leave_every_permit_back() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..200 {
        let value = ["gate", "done", "3ms", "fail"][i % 4];
        cluster.produce("t", (i % 3) as i32, Some(&format!("k{}", i / 3 % 11)), value);
    }
    let limited =
        consumer(&probe).max_in_flight(7).max_held(50).drain_deadline(Duration::from_millis(10));
    let running = start(limited, &cluster).await;
    for cycle in 0..100 {
        cluster.assign("t", 0..3);
        tokio::time::sleep(Duration::from_millis(cycle % 5)).await;
        cluster.revoke("t", 0..3);
        pass(1).await;
    }
    let stats = running.stats();
    assert_eq!((stats.in_flight, stats.held, stats.bytes_held, stats.unfinished()), (0, 0, 0, 0));
    assert!(stats.abandoned > 0 && stats.received > stats.abandoned);
    probe.assert_alone_by(|partition, offset| (partition, offset % 11));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_lost_position_begins_a_new_epoch() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    cluster.produce("t", 0, None, "gate");
    let running = start(consumer(&probe).ordering(Ordering::Parallel), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.send(Event::PositionLost(TopicPartition::new("t", 0)));
    settle().await;
    assert_eq!(probe.offsets(), [0, 1, 0, 1], "from where the source says");
    probe.open_gate();
    pass(6).await;
    assert_eq!(cluster.committed("t", 0), Some(2));
    let stats = running.stats();
    assert_eq!((stats.received, stats.passed, stats.abandoned), (4, 3, 1));
    drop(running);
}

/// C13: a handler that fails when it sees that it is cancelled ends after its epoch, where a failed
/// record has nowhere to stay.
#[tokio::test(start_paused = true)]
async fn c13_a_record_that_fails_after_its_epoch_gives_its_permits_back() {
    for ordering in [Ordering::Key, Ordering::Sequential] {
        let cluster = Cluster::new();
        cluster.produce("t", 0, None, "x");
        let consumer = Consumer::new("g").topic("t", |_: Record, context: Context| async move {
            context.cancelled().await;
            Err(Failure::msg("cancelled"))
        });
        let running = start(consumer.ordering(ordering), &cluster).await;
        cluster.assign("t", [0]);
        settle().await;
        assert_eq!((running.stats().in_flight, running.stats().held), (1, 1));
        cluster.send(Event::Lost(vec![TopicPartition::new("t", 0)]));
        settle().await;
        let stats = running.stats();
        assert_eq!((stats.in_flight, stats.held, stats.bytes_held), (0, 0, 0), "{ordering:?}");
        assert_eq!((stats.received, stats.abandoned), (1, 1));
        drop(running);
    }
}

#[tokio::test(start_paused = true)]
async fn c9_a_commit_answered_after_revoke_and_reassignment_moves_nothing() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    cluster.answer_commits(false);
    pass(6).await;
    assert_eq!(cluster.commits().len(), 1, "on its way, not answered");

    // The revoke waits for the answer, gives up, and sends no second commit past the first.
    cluster.revoke("t", [0]);
    pass(10).await;
    assert_eq!((cluster.released().len(), cluster.commits().len()), (1, 1));
    cluster.produce("t", 0, None, "gate");
    cluster.assign("t", [0]);
    settle().await;
    let before = running.stats().partitions[0].clone();
    cluster.answer_commits(true);
    settle().await;
    let after = running.stats().partitions[0].clone();
    assert_eq!((before.frontier, before.committed), (after.frontier, after.committed));
    assert_eq!((after.frontier, after.committed), (1, Some(1)));
    probe.open_gate();
    pass(6).await;
    assert_eq!(cluster.committed("t", 0), Some(2), "and the new epoch commits as ever");
    drop(running);
}

/// A topic that nobody asked for is not consumed, and what it took of the budget is not missing.
#[tokio::test(start_paused = true)]
async fn a_partition_of_an_unknown_topic_leaves_nothing_behind() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("unknown", 0, None, "done");
    for _ in 0..16 {
        cluster.produce("t", 0, None, "gate");
    }
    let running = start(consumer(&probe).max_in_flight(16).max_held(16), &cluster).await;
    for _ in 0..3 {
        cluster.assign("unknown", [0]);
        cluster.revoke("unknown", [0]);
    }
    settle().await;
    assert_eq!((cluster.released().len(), cluster.committed("unknown", 0)), (3, None));
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!((running.stats().in_flight, probe.running()), (16, 16));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_assigned_twice_starts_a_new_epoch_after_the_old_one() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..3 {
        cluster.produce("t", 0, Some("k"), "gate");
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(probe.running(), 1, "the old epoch's attempt still runs");
    probe.open_gate();
    pass(10).await;
    probe.assert_alone_by(|partition, _| partition);
    let stats = running.stats();
    assert_eq!((stats.received, stats.passed, stats.abandoned), (6, 3, 3));
    assert_eq!((stats.held, stats.in_flight, stats.bytes_held), (0, 0, 0));
    assert_eq!(cluster.committed("t", 0), Some(3));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_named_twice_in_a_revoke_counts_once() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "x");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.revoke("t", [0, 0]);
    settle().await;
    let stats = running.stats();
    assert_eq!((stats.received, stats.passed, stats.abandoned), (1, 1, 0));
    assert_eq!((stats.held, stats.in_flight), (0, 0));
    drop(running);
}

/// G11: it does not lie there until the next rebalance.
#[tokio::test(start_paused = true)]
async fn a_partition_that_fails_to_start_is_tried_again() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "x");
    cluster.produce("t", 1, None, "x");
    cluster.fail_assigns("t", 0, 2);
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0, 1]);
    pass(14).await;
    assert_eq!(probe.begun(), [(1, 0)], "after 5 s it failed again");
    pass(2).await;
    assert_eq!(probe.begun(), [(1, 0), (0, 0)]);
    assert_eq!(running.stats().client_errors, 2, "and each failure shows");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_failed_and_was_taken_away_is_left_alone() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "x");
    cluster.fail_assigns("t", 0, 1);
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    pass(1).await;
    cluster.revoke("t", [0]);
    pass(60).await;
    assert_eq!(probe.begun(), []);
    drop(running);
}

/// A hole in the log that is repaired, for one: what runs is drained and committed, and then the
/// partition starts over from there.
#[tokio::test(start_paused = true)]
async fn a_partition_that_fails_while_it_runs_starts_over_where_it_was() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..5 {
        cluster.produce("t", 0, None, "x");
    }
    let running =
        start(consumer(&probe).commit_interval(Duration::from_secs(3_600)), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let error = SourceError { message: "a hole".to_owned(), fatal: false };
    cluster.send(Event::Failed(TopicPartition::new("t", 0), error));
    pass(6).await;
    cluster.produce("t", 0, None, "x");
    settle().await;
    assert_eq!(probe.offsets(), [0, 1, 2, 3, 4, 5], "none twice");
    assert_eq!(cluster.released().len(), 1, "it did start over");
    drop(running);
}
