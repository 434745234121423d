//! G2: what may run at the same time, and in which order.

use kpipe_core::{NullKeys, Ordering, Record};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn parallel_runs_all_at_once() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..300 {
        cluster.produce("t", 0, Some("same"), "10ms");
    }
    let running = start(consumer(&probe).ordering(Ordering::Parallel), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(probe.peak(), 300);
    assert_eq!(running.stats().in_flight, 300);
    running.shutdown(SECOND).await.unwrap();
    assert_eq!(cluster.committed("t", 0), Some(300));
}

#[tokio::test(start_paused = true)]
async fn key_runs_one_of_a_key_at_a_time_and_no_key_waits_for_another() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    // Offset 0 is stuck; every other key goes on, its own waits.
    cluster.produce("t", 0, Some("k0"), "gate");
    for i in 1..400 {
        let key = format!("k{}", i % 10);
        // Ready, pending and slow handlers in one lane.
        let value = ["done", "1ms", "yield", "3ms"][i / 10 % 4];
        cluster.produce("t", 0, Some(&key), value);
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    pass(1).await;
    let of_stuck_key = probe.offsets().iter().filter(|offset| *offset % 10 == 0).count();
    assert_eq!((of_stuck_key, probe.offsets().len()), (1, 1 + 360));
    assert_eq!(running.stats().partitions[0].waiting, 39);

    probe.open_gate();
    pass(1).await;
    assert_eq!(probe.offsets().len(), 400);
    probe.assert_ordered_by(|_, offset| offset % 10);
    running.shutdown(SECOND).await.unwrap();
    assert_eq!(cluster.committed("t", 0), Some(400));
}

#[tokio::test(start_paused = true)]
async fn c26_the_same_key_in_another_partition_is_another_key() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, Some("k"), "gate");
    cluster.produce("t", 1, Some("k"), "done");
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0, 1]);
    settle().await;
    let stats = running.stats();
    assert_eq!((stats.received, stats.passed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn partition_runs_one_of_a_partition_at_a_time() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..60 {
        cluster.produce("t", i % 3, None, ["done", "1ms", "2ms"][i as usize % 3]);
    }
    let running = start(consumer(&probe).ordering(Ordering::Partition), &cluster).await;
    cluster.assign("t", 0..3);
    pass(1).await;
    assert_eq!(probe.begun().len(), 60);
    assert!(probe.peak() <= 3);
    probe.assert_ordered_by(|partition, _| partition);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn sequential_runs_one_at_a_time_over_all_partitions_and_starves_none() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..90 {
        cluster.produce("t", i % 3, Some("k"), ["done", "1ms", "2ms"][i as usize / 3 % 3]);
    }
    let running = start(consumer(&probe).ordering(Ordering::Sequential), &cluster).await;
    cluster.assign("t", 0..3);
    pass(1).await;
    assert_eq!((probe.begun().len(), probe.peak()), (90, 1));
    probe.assert_ordered_by(|_, _| ());
    running.shutdown(SECOND).await.unwrap();
    assert_eq!((0..3).map(|p| cluster.committed("t", p)).collect::<Vec<_>>(), [Some(30); 3]);
}

#[tokio::test(start_paused = true)]
async fn c25_null_keys_are_not_serialised_unless_asked_for() {
    for (null_keys, peak) in [(NullKeys::Unordered, 100), (NullKeys::Serial, 1)] {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        for _ in 0..100 {
            cluster.produce("t", 0, None, "1ms");
        }
        let running = start(consumer(&probe).null_keys(null_keys), &cluster).await;
        cluster.assign("t", [0]);
        pass(1).await;
        assert_eq!((probe.offsets().len(), probe.peak()), (100, peak), "{null_keys:?}");
        drop(running);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_users_own_decides() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..60i64 {
        cluster.append(
            Record::builder("t", 0, i)
                .key("one key")
                .header("tenant", format!("{}", i % 3))
                .value("1ms")
                .build(),
        );
    }
    let by_tenant = |record: &Record| Some(record.headers().get("tenant")?.value()?.to_vec());
    let running = start(consumer(&probe).key_by(by_tenant), &cluster).await;
    cluster.assign("t", [0]);
    pass(1).await;
    assert_eq!((probe.offsets().len(), probe.peak()), (60, 3));
    probe.assert_ordered_by(|_, offset| offset % 3);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_are_ready_at_once_behave_alike_as_tasks_and_inline() {
    for inline in [true, false] {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        for i in 0..1_000 {
            cluster.produce("t", 0, Some(&format!("k{}", i % 7)), "done");
        }
        let running = start(consumer(&probe).first_poll_inline(inline), &cluster).await;
        cluster.assign("t", [0]);
        settle().await;
        assert_eq!(probe.offsets().len(), 1_000, "inline {inline}");
        probe.assert_ordered_by(|_, offset| offset % 7);
        let report = running.shutdown(SECOND).await.unwrap();
        assert_eq!((report.stats.passed, cluster.committed("t", 0)), (1_000, Some(1_000)));
    }
}

/// An attempt that pends once gets a second poll before it becomes a task; order and counts do not
/// depend on which of the two happens.
#[tokio::test(start_paused = true)]
async fn handlers_that_pend_once_keep_their_order() {
    for ordering in [Ordering::Parallel, Ordering::Key, Ordering::Partition, Ordering::Sequential] {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        for i in 0..1_000 {
            let value = if i % 97 == 0 { "2ms" } else { "yield" };
            cluster.produce("t", i % 2, Some(&format!("k{}", i / 2 % 5)), value);
        }
        let running = start(consumer(&probe).ordering(ordering).max_in_flight(16), &cluster).await;
        cluster.assign("t", [0, 1]);
        pass(1).await;
        assert_eq!(probe.begun().len(), 1_000, "{ordering:?}");
        match ordering {
            Ordering::Parallel => assert!(probe.peak() > 1),
            Ordering::Key => probe.assert_ordered_by(|partition, offset| (partition, offset % 5)),
            Ordering::Partition => probe.assert_ordered_by(|partition, _| partition),
            Ordering::Sequential => probe.assert_ordered_by(|_, _| ()),
        }
        let stats = running.shutdown(SECOND).await.unwrap().stats;
        assert_eq!((stats.passed, stats.held, stats.in_flight), (1_000, 0, 0));
        assert_eq!([0, 1].map(|p| cluster.committed("t", p)), [Some(500); 2]);
    }
}
