//! The smallest limits, and what is at the edge of a definition.

use std::time::Duration;

use kpipe_core::{NullKeys, OnFailure, Ordering, Record};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

const SECOND: Duration = Duration::from_secs(1);
const ORDERINGS: [Ordering; 4] =
    [Ordering::Parallel, Ordering::Key, Ordering::Partition, Ordering::Sequential];

#[tokio::test(start_paused = true)]
async fn one_of_everything_still_gets_everything_done() {
    for (ordering, inline) in ORDERINGS.into_iter().flat_map(|o| [(o, true), (o, false)]) {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        for i in 0..200 {
            let value = ["done", "1ms", "yield", "fail", ""][i % 5];
            cluster.produce("t", (i % 3) as i32, Some(&format!("k{}", i % 4)), value);
        }
        let smallest = consumer(&probe)
            .ordering(ordering)
            .max_in_flight(1)
            .max_held(1)
            .max_finished_beyond(1)
            .bytes_in_hand(1024 * 1024)
            .on_failure(OnFailure::Drop)
            .first_poll_inline(inline);
        let running = start(smallest, &cluster).await;
        cluster.assign("t", 0..3);
        pass(5).await;
        assert_eq!((probe.begun().len(), probe.peak()), (200, 1), "{ordering:?}, inline {inline}");
        let stats = running.shutdown(SECOND).await.unwrap().stats;
        assert_eq!((stats.passed, stats.dropped, stats.unfinished()), (160, 40, 0));
        assert_eq!((stats.in_flight, stats.held, stats.bytes_held), (0, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn records_without_a_byte_are_records() {
    for ordering in ORDERINGS {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        for offset in 0..300 {
            cluster.append(Record::builder("t", 0, offset).build());
        }
        let serial = consumer(&probe).ordering(ordering).null_keys(NullKeys::Serial);
        let running = start(serial.max_in_flight(7).max_held(9), &cluster).await;
        cluster.assign("t", [0]);
        pass(1).await;
        assert_eq!((running.stats().passed, running.stats().bytes_held), (300, 0), "{ordering:?}");
        running.shutdown(SECOND).await.unwrap();
        assert_eq!(cluster.committed("t", 0), Some(300));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_function_that_finds_no_key_means_a_null_key() {
    for (null_keys, peak) in [(NullKeys::Unordered, 50), (NullKeys::Serial, 1)] {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        for _ in 0..50 {
            cluster.produce("t", 0, Some("k"), "1ms");
        }
        let none = |_: &Record| None::<u64>;
        let running = start(consumer(&probe).key_by(none).null_keys(null_keys), &cluster).await;
        cluster.assign("t", [0]);
        pass(1).await;
        assert_eq!((probe.offsets().len(), probe.peak()), (50, peak), "{null_keys:?}");
        drop(running);
    }
}

#[tokio::test(start_paused = true)]
async fn sequential_goes_on_in_another_epoch_after_a_record_that_stayed() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "fail");
    cluster.produce("t", 1, None, "done");
    let running = start(consumer(&probe).ordering(Ordering::Sequential), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.assign("t", [1]);
    settle().await;
    assert_eq!((probe.begun(), running.stats().failed), (vec![(0, 0)], 1));
    cluster.revoke("t", [0]);
    settle().await;
    assert_eq!(probe.begun(), [(0, 0), (1, 0)], "the slot that it kept is free again");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_partitions_are_consumed_and_given_back() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for partition in 0..1_000 {
        cluster.produce("t", partition, Some("k"), ["done", "1ms"][partition as usize % 2]);
    }
    let running = start(consumer(&probe).max_in_flight(50), &cluster).await;
    cluster.assign("t", 0..1_000);
    pass(2).await;
    assert_eq!(running.stats().passed, 1_000);
    cluster.revoke("t", 0..1_000);
    pass(2).await;
    let stats = running.stats();
    assert_eq!((stats.held, stats.in_flight, stats.partitions.len()), (0, 0, 0));
    assert!((0..1_000).all(|partition| cluster.committed("t", partition) == Some(1)));
    drop(running);
}
