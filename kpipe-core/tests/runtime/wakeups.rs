//! R15: what arrives while an intake waits for something else is not forgotten.

use std::time::Duration;

use kpipe_core::Ordering;

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, settle, start};

#[tokio::test(start_paused = true)]
async fn r15_a_record_that_arrives_while_its_partition_waits_for_a_slot_is_seen_at_once() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "20ms");
    cluster.produce("t", 0, None, "20ms");
    let limited = consumer(&probe).ordering(Ordering::Parallel).max_in_flight(1);
    let running = start(limited, &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(probe.offsets(), [0], "the second one waits for a slot");
    cluster.produce("t", 0, None, "20ms");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(probe.offsets(), [0, 1, 2], "and not only at the next look, a second later");
    drop(running);
}
