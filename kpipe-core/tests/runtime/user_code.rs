//! G3 and G9: what user code can do besides failing: panic where nobody looks, never yield, never
//! look at the clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kpipe_core::{Consumer, OnFailure, Ordering, Record};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

const SECOND: Duration = Duration::from_secs(1);

fn text(record: &Record) -> String {
    String::from_utf8(record.value().unwrap_or_default().to_vec()).unwrap()
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// The payload of a panic is user code as well when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_panic_whose_payload_panics_is_a_failure_of_that_record_alone() {
    for inline in [true, false] {
        let cluster = Cluster::new();
        for value in ["first poll", "later", "fine"] {
            cluster.produce("t", 0, Some(value), value);
        }
        let consumer = Consumer::new("g")
            .topic("t", |record: Record| async move {
                let text = text(&record);
                if text == "first poll" {
                    std::panic::panic_any(PanicsWhenDropped);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
                if text == "later" {
                    std::panic::panic_any(PanicsWhenDropped);
                }
                Ok(())
            })
            .on_failure(OnFailure::Drop)
            .first_poll_inline(inline);
        let running = start(consumer, &cluster).await;
        cluster.assign("t", [0]);
        pass(1).await;
        let stats = running.shutdown(SECOND).await.unwrap().stats;
        assert_eq!((stats.passed, stats.dropped, stats.abandoned), (1, 2, 0), "inline {inline}");
        assert_eq!((stats.in_flight, stats.held), (0, 0));
        assert_eq!(cluster.committed("t", 0), Some(3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_function_whose_panic_has_a_payload_that_panics_fails_its_record_alone() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..3 {
        cluster.produce("t", 0, Some("k"), "done");
    }
    let by = |record: &Record| {
        if record.offset() == 1 {
            std::panic::panic_any(PanicsWhenDropped);
        }
        Some(0)
    };
    let running = start(consumer(&probe).key_by(by), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!((running.stats().failed, probe.offsets()), (1, vec![0, 2]));
    drop(running);
}

/// An error that is user code wherever it can be: when shown, and when dropped.
struct Hostile;

impl fmt::Debug for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hostile")
    }
}

impl fmt::Display for Hostile {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no text for this one");
    }
}

impl std::error::Error for Hostile {}

impl Drop for Hostile {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_it_is_shown_or_dropped_is_an_error_like_any_other() {
    for (policy, inline) in
        [OnFailure::Hold, OnFailure::Drop].into_iter().flat_map(|p| [(p, true), (p, false)])
    {
        let cluster = Cluster::new();
        for value in ["at once", "yield", "later", "fine"] {
            cluster.produce("t", 0, Some(value), value);
        }
        let consumer = Consumer::new("g")
            .topic("t", |record: Record| async move {
                match &*text(&record) {
                    "at once" => Err(Hostile)?,
                    "yield" => {
                        tokio::task::yield_now().await;
                        Err(Hostile)?
                    }
                    "later" => {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        Err(Hostile)?
                    }
                    _ => Ok(()),
                }
            })
            .on_failure(policy)
            .first_poll_inline(inline);
        let running = start(consumer, &cluster).await;
        cluster.assign("t", [0]);
        pass(1).await;
        let stats = running.stats();
        let failed = stats.failed + stats.dropped;
        assert_eq!((stats.passed, failed), (1, 3), "{policy:?}, inline {inline}");
        assert_eq!(stats.in_flight, 0);
        let stats = running.shutdown(SECOND).await.unwrap().stats;
        assert_eq!((stats.unfinished(), stats.held, stats.in_flight), (0, 0, 0));
    }
}

/// tokio lets a timer pend when the task has used up its cooperative budget; a handler that does so
/// at every poll must still meet its deadline.
#[tokio::test(start_paused = true)]
async fn a_handler_that_never_has_budget_left_meets_its_deadline() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "x");
    let consumer = Consumer::new("g")
        .topic("t", |_: Record| async {
            loop {
                tokio::task::consume_budget().await;
            }
        })
        .first_poll_inline(false);
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(running.stats().in_flight, 1);
    tokio::time::advance(Duration::from_secs(301)).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!((running.stats().in_flight, running.stats().failed), (0, 1));
    drop(running);
}

/// The first poll keeps tokio's cooperative budget: what is always ready lets others run now and
/// then.
#[tokio::test(start_paused = true)]
async fn a_handler_whose_operations_are_always_ready_does_not_keep_its_thread() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "x");
    let others_ran = Arc::new(AtomicBool::new(false));
    let seen = others_ran.clone();
    let consumer = Consumer::new("g").topic("t", move |_: Record| {
        let seen = seen.clone();
        async move {
            tokio::spawn({
                let seen = seen.clone();
                async move { seen.store(true, Relaxed) }
            });
            for _ in 0..100_000 {
                if seen.load(Relaxed) {
                    return Ok(());
                }
                tokio::task::consume_budget().await;
            }
            Err(kpipe_core::Failure::msg("nobody else came to run"))
        }
    });
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!((running.stats().passed, running.stats().failed), (1, 0));
    drop(running);
}

/// With records that each use some of the budget, none is taken for one that waits.
#[tokio::test(start_paused = true)]
async fn ready_operations_stay_ready_over_a_long_batch() {
    let cluster = Cluster::new();
    for i in 0..2_000 {
        cluster.produce("t", 0, Some(&format!("k{}", i % 9)), "x");
    }
    let (sender, mut seen) = tokio::sync::mpsc::channel(2_000);
    let consumer = Consumer::new("g").topic("t", move |record: Record| {
        let sender = sender.clone();
        async move {
            for _ in 0..3 {
                tokio::task::consume_budget().await;
            }
            Ok(sender.send(record.offset()).await?)
        }
    });
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let stats = running.shutdown(SECOND).await.unwrap().stats;
    assert_eq!((stats.received, stats.passed, stats.held), (2_000, 2_000, 0));
    let mut of_key = vec![Vec::new(); 9];
    while let Ok(offset) = seen.try_recv() {
        of_key[(offset % 9) as usize].push(offset);
    }
    assert!(of_key.iter().all(|offsets| offsets.is_sorted()));
}

/// A first poll that took long is not on the clock of the records behind it.
#[tokio::test(start_paused = true)]
async fn an_attempts_deadline_counts_from_its_own_beginning() {
    let cluster = Cluster::new();
    for value in ["slow", "1s", "1s"] {
        cluster.produce("t", 0, None, value);
    }
    let consumer = Consumer::new("g")
        .topic("t", |record: Record| async move {
            if text(&record) == "slow" {
                // Moves the clock within the first poll, as a handler that computes does.
                tokio::time::advance(Duration::from_secs(10)).await;
            } else {
                tokio::time::sleep(SECOND).await;
            }
            Ok(())
        })
        .ordering(Ordering::Parallel)
        .attempt_deadline(Duration::from_secs(5));
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    pass(20).await;
    let failed = running.stats().partitions[0].first_failed.clone();
    assert!(failed.is_none_or(|failed| failed.offset == 0), "behind a slow one");
    assert!(running.stats().passed >= 2);
    drop(running);
}
