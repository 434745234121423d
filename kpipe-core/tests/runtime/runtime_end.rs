//! G9 and G11: tasks that go down with their runtime give everything back and acknowledge nothing, and
//! a consumer that cannot go on says so and leaves the group.

use std::sync::Arc;

use kpipe_core::{Consumer, ErrorKind, Ordering, Record};
use tokio::sync::Notify;

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, start};

/// The runtime ends after the intake has made tasks of its attempts and before one of them is
/// polled.
#[test]
fn a_task_that_is_dropped_before_its_first_poll_gives_its_permits_back() {
    for inline in [true, false] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .event_interval(1)
            .build()
            .unwrap();
        let cluster = Cluster::new();
        for _ in 0..20 {
            cluster.produce("t", 0, None, "x");
        }
        let last_begun = Arc::new(Notify::new());
        let begun = last_begun.clone();
        let consumer = Consumer::new("g")
            .topic("t", move |record: Record| {
                if record.offset() == 19 {
                    begun.notify_one();
                }
                std::future::pending()
            })
            .ordering(Ordering::Parallel)
            .first_poll_inline(inline);
        let running = runtime.block_on(async {
            let running = start(consumer, &cluster).await;
            cluster.assign("t", [0]);
            while running.stats().in_flight < 20 {
                tokio::task::yield_now().await;
            }
            if !inline {
                return running;
            }
            last_begun.notified().await;
            running
        });
        drop(runtime);
        let stats = running.stats();
        assert_eq!((stats.in_flight, stats.held, stats.bytes_held), (0, 0, 0), "inline {inline}");
        assert_eq!((stats.received, stats.passed), (20, 0), "and acknowledge nothing");
        drop(running);
    }
}

#[test]
fn a_consumer_whose_runtime_ends_leaves_the_group_and_says_why() {
    let cluster = Cluster::new();
    cluster.with_control_thread();
    cluster.produce("t", 0, None, "x");
    let probe = Probe::default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let running = runtime.block_on(async {
        let running = start(consumer(&probe), &cluster).await;
        cluster.assign("t", [0]);
        while running.stats().passed < 1 {
            tokio::task::yield_now().await;
        }
        running
    });
    drop(runtime);
    let error = futures::executor::block_on(running.until(std::future::pending())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Client);
    assert!(error.to_string().contains("t/0"), "{error}");
    assert!(cluster.closed(), "others get its partitions");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_ends_the_consumer_and_not_in_silence() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    let running = start(consumer(&probe), &cluster).await;
    cluster.panic_at_takes();
    cluster.assign("t", [0]);
    let error = running.until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Client);
    assert!(cluster.closed());
}
