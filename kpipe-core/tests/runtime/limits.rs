//! G4 and G5: what may be in hand, and that draining stops where it must and nowhere else.

use std::time::Duration;

use kpipe_core::{Ordering, Record};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

#[tokio::test(start_paused = true)]
async fn no_more_attempts_run_than_allowed_and_every_slot_is_used() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..2_000 {
        cluster.produce("t", i % 4, None, "10ms");
    }
    let running = start(consumer(&probe).max_in_flight(100), &cluster).await;
    cluster.assign("t", 0..4);
    // 20 rounds of a hundred, at 10 ms each.
    tokio::time::sleep(Duration::from_millis(205)).await;
    assert_eq!((probe.peak(), probe.begun().len()), (100, 2_000));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn records_held_are_limited_and_the_rest_stays_in_the_queue() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..5_000 {
        cluster.produce("t", 0, Some("hot"), "gate");
    }
    let running = start(consumer(&probe).max_in_flight(10).max_held(500), &cluster).await;
    cluster.assign("t", [0]);
    pass(10).await;
    assert_eq!((probe.running(), cluster.taken()), (1, 500));
    assert_eq!(running.stats().held, 500);
    probe.open_gate();
    pass(1).await;
    assert_eq!(probe.offsets(), (0..5_000).collect::<Vec<_>>());
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn bytes_held_are_limited_to_within_a_batch() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for offset in 0..1_000 {
        let value = vec![b'x'; 10_000];
        cluster.append(Record::builder("t", 0, offset).key("hot").value(value).build());
    }
    let gate = probe.clone();
    let consumer = kpipe_core::Consumer::new("g")
        .topic("t", move |record: Record| {
            let gated = Record::builder("t", 0, record.offset()).value("gate").build();
            gate.clone().handle(gated)
        })
        .bytes_in_hand(2 * 1024 * 1024);
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    pass(10).await;
    let held = running.stats().bytes_held;
    assert!(held >= 1024 * 1024, "{held}");
    assert!(held <= 1024 * 1024 + 128 * 10_003, "{held}");
    probe.open_gate();
    pass(1).await;
    assert_eq!((probe.offsets().len(), running.stats().bytes_held), (1_000, 0));
    drop(running);
}

/// C16: all that is held of four partitions is taken by a fifth that does not move.
#[tokio::test(start_paused = true)]
async fn c16_a_hot_partition_starves_no_other() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for _ in 0..5_000 {
        cluster.produce("t", 0, None, "gate");
    }
    let running = start(consumer(&probe).max_in_flight(100).max_held(1_000), &cluster).await;
    cluster.assign("t", 0..5);
    pass(1).await;
    assert!(probe.running() >= 95, "the hot one uses what nobody else does: {}", probe.running());
    for i in 0..400 {
        cluster.produce("t", 1 + i % 4, None, "1ms");
    }
    pass(1).await;
    assert_eq!(running.stats().passed, 400);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn the_window_beyond_a_stuck_record_is_limited_for_its_partition_alone() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "gate");
    for i in 0..4_000 {
        cluster.produce("t", i % 2, None, "done");
    }
    let running =
        start(consumer(&probe).ordering(Ordering::Parallel).max_finished_beyond(1_000), &cluster)
            .await;
    cluster.assign("t", [0, 1]);
    pass(10).await;
    let stats = running.stats();
    let [stuck, free] = &stats.partitions[..] else { panic!("two partitions") };
    assert!((1_000..1_128).contains(&stuck.finished_beyond), "{}", stuck.finished_beyond);
    assert_eq!(free.frontier, 2_000);
    probe.open_gate();
    pass(1).await;
    assert_eq!(running.stats().passed, 4_001);
    drop(running);
}

/// C16: a partition that is woken for room and finds its window full meanwhile passes the room on.
#[tokio::test(start_paused = true)]
async fn c16_room_that_a_full_window_cannot_use_goes_to_another_partition() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for value in ["gate", "5ms", "done"] {
        cluster.produce("t", 0, None, value);
    }
    cluster.produce("t", 1, None, "done");
    let limited = consumer(&probe).max_in_flight(2).max_held(2).max_finished_beyond(1);
    let running = start(limited, &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.assign("t", [1]);
    settle().await;
    assert_eq!(probe.begun(), [(0, 0), (0, 1)], "both wait for room");
    pass(1).await;
    assert_eq!(probe.begun(), [(0, 0), (0, 1), (1, 0)]);
    drop(running);
}

/// A handler that computes before its first await must not hold up its partition: found out, its
/// records become tasks at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_that_block_before_their_first_await_run_side_by_side() {
    let cluster = Cluster::new();
    for _ in 0..64 {
        cluster.produce("t", 0, None, "x");
    }
    let (begun, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(3));
    let consumer = kpipe_core::Consumer::new("g")
        .topic("t", move |record: Record| {
            // The first poll is found slow. After that three handlers that block until they meet
            // can only get on if they are on three threads.
            let blocks = [2, 3, 4].contains(&record.offset());
            if record.offset() == 0 {
                std::thread::sleep(Duration::from_millis(5));
            } else if blocks {
                barrier.wait();
            }
            let sent = begun.send(record.offset());
            async move { Ok(sent?) }
        })
        .ordering(Ordering::Parallel);
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    let mut offsets = Vec::new();
    while offsets.len() < 64 {
        offsets.push(seen.recv().await.unwrap());
    }
    settle().await;
    drop(running);
}

/// Room for records is used again by those that pass at once; records that stay must not shrink the
/// batches of those that follow.
#[tokio::test(start_paused = true)]
async fn batches_stay_large_behind_records_that_stay() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..10_127 {
        cluster.produce("t", 0, None, if i < 127 { "gate" } else { "done" });
    }
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(running.stats().passed, 10_000);
    assert!(cluster.takes() < 200, "{} batches for 10,000 records", cluster.takes());
    drop(running);
}

/// C16: lanes with a backlog hand their slot on from record to record; other partitions must get
/// some of them all the same.
#[tokio::test(start_paused = true)]
async fn c16_busy_lanes_of_one_partition_do_not_keep_every_slot() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..2_000 {
        cluster.produce("t", 0, Some(&format!("k{}", i % 4)), "10ms");
    }
    let running = start(consumer(&probe).max_in_flight(4), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.produce("t", 1, Some("k"), "1ms");
    cluster.assign("t", [1]);
    pass(1).await;
    assert!(probe.begun().contains(&(1, 0)), "400 records of the other partition later");
    drop(running);
}
