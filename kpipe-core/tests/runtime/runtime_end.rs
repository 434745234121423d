//! G9: tasks that go down with their runtime give everything back and acknowledge nothing.

use std::sync::Arc;

use kpipe_core::{Consumer, Ordering, Record};
use tokio::sync::Notify;

use crate::memory::Cluster;
use crate::probe::start;

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
