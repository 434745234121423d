//! Cases from the field (docs/cases.md) that need a group, a log that changes, or a great many turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use kpipe_core::{Consumer, Ordering, Record, Running};
use kpipe_test::{Broker, BrokerBuilder, Protocol, TestRecord};
use tokio::sync::Semaphore;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// A consumer whose handlers wait for the test's permits, and how many of them have ended.
fn gated() -> (Consumer, Arc<Semaphore>, Arc<AtomicU64>) {
    let (gate, ended) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let parts = (gate.clone(), ended.clone());
    let consumer = Consumer::new("g").topic("t", move |_: Record| {
        let (gate, ended) = parts.clone();
        async move {
            gate.acquire().await?.forget();
            ended.fetch_add(1, Relaxed);
            Ok(())
        }
    });
    (consumer, gate, ended)
}

fn broker(partitions: i32, records: usize) -> Broker {
    filled(Broker::builder(), partitions, records)
}

fn filled(builder: BrokerBuilder, partitions: i32, records: usize) -> Broker {
    let broker = builder.protocol(Protocol::Cooperative).build();
    broker.create_topic("t", partitions);
    for index in 0..records {
        broker.append("t", TestRecord::key(format!("k{}", index % 50))).unwrap();
    }
    broker
}

async fn start(consumer: Consumer, broker: &Broker, name: &str) -> Running {
    consumer.start(broker.client().named(name)).await.unwrap()
}

fn committed(broker: &Broker, partitions: i32) -> i64 {
    (0..partitions).filter_map(|partition| broker.committed("g", "t", partition)).sum()
}

/// Commits are due again and again while records lie fetched, received and not begun.
#[tokio::test(start_paused = true)]
async fn c1_a_commit_between_fetch_and_hand_over_passes_nothing() {
    let broker = broker(1, 10);
    let (consumer, gate, ended) = gated();
    let consumer = consumer.max_in_flight(1).ordering(Ordering::Parallel);
    let running =
        start(consumer.commit_interval(SECOND).drain_deadline(SECOND), &broker, "m").await;
    gate.add_permits(1);
    sleep(5 * SECOND).await;
    assert_eq!(committed(&broker, 1), 1, "the second one runs, eight wait");
    broker.hand_back("g", "t", 0);
    sleep(5 * SECOND).await;
    assert_eq!(committed(&broker, 1), 1, "and a revoke does not change that");
    gate.add_permits(100);
    sleep(5 * SECOND).await;
    assert_eq!((committed(&broker, 1), ended.load(Relaxed)), (10, 10));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn c2_a_partition_that_comes_back_before_its_records_are_registered() {
    let broker = broker(1, 60);
    let (consumer, gate, ended) = gated();
    // One record is received, the others lie fetched.
    let consumer = consumer.max_in_flight(1).max_held(1).drain_deadline(SECOND);
    let running = start(consumer, &broker, "m").await;
    for _ in 0..5 {
        sleep(2 * SECOND).await;
        broker.hand_back("g", "t", 0);
    }
    sleep(3 * SECOND).await;
    gate.add_permits(1_000);
    sleep(10 * SECOND).await;
    assert_eq!(
        (committed(&broker, 1), ended.load(Relaxed)),
        (60, 60),
        "none is blocked, none shadowed"
    );
    let stats = running.stats();
    assert_eq!((stats.duplicates, stats.in_flight, stats.held), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn c5_what_compaction_and_retention_take_away_holds_up_nothing() {
    let broker = filled(Broker::builder().prefetch_records(5), 1, 100);
    let (consumer, gate, ended) = gated();
    let running = start(consumer.max_in_flight(1).max_held(1), &broker, "m").await;
    gate.add_permits(10);
    sleep(10 * SECOND).await;
    // Below the position, at it, and far behind it.
    broker.truncate_before("t", 0, 5);
    for offset in (12..90).step_by(3) {
        broker.compact("t", 0, offset);
    }
    broker.truncate_before("t", 0, 40);
    gate.add_permits(1_000);
    sleep(30 * SECOND).await;
    assert_eq!(committed(&broker, 1), 100);
    assert_eq!(running.stats().lag(), Some(0));
    assert!(ended.load(Relaxed) < 100);
    // A topic made anew begins at 0 again.
    broker.delete_topic("t");
    broker.create_topic("t", 1);
    broker.append("t", TestRecord::new()).unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(committed(&broker, 1), 1);
}

/// Two members, both at work and committing every 10 ms, and a rebalance each millisecond or so.
#[tokio::test(start_paused = true)]
async fn c11_ten_thousand_rebalances_under_load() {
    const REBALANCES: u64 = 10_000;
    let broker = broker(4, 0);
    let (consumer, gate, ended) = gated();
    gate.add_permits(1_000_000);
    let (other, other_gate, other_ended) = gated();
    other_gate.add_permits(1_000_000);
    let interval = Duration::from_millis(10);
    let one = start(consumer.commit_interval(interval), &broker, "one").await;
    let two = start(other.commit_interval(interval), &broker, "two").await;
    sleep(10 * SECOND).await;
    for turn in 0..REBALANCES {
        broker.append("t", TestRecord::key(format!("k{}", turn % 50))).unwrap();
        let partition = (turn % 4) as i32;
        match turn % 3 {
            0 => broker.hand_back("g", "t", partition),
            1 => broker.move_partition("t", partition, "one"),
            _ => broker.move_partition("t", partition, "two"),
        };
        sleep(Duration::from_millis(1)).await;
    }
    sleep(60 * SECOND).await;
    assert_eq!(committed(&broker, 4), REBALANCES as i64);
    assert!(ended.load(Relaxed) + other_ended.load(Relaxed) >= REBALANCES);
    assert!(broker.generation("g") >= REBALANCES as i64, "{}", broker.generation("g"));
    for running in [one, two] {
        let stats = running.shutdown(10 * SECOND).await.unwrap().stats;
        assert_eq!((stats.in_flight, stats.held, stats.bytes_held), (0, 0, 0));
    }
}

/// With room for one record, each of them fills the budget and frees it.
#[tokio::test(start_paused = true)]
async fn c23_a_hundred_thousand_times_pressure_on_and_off_fetch_nothing_twice() {
    const RECORDS: usize = 100_000;
    let broker = Broker::builder().keep_history(false).build();
    broker.create_topic("t", 1);
    for _ in 0..RECORDS {
        broker.append("t", TestRecord::new()).unwrap();
    }
    let (consumer, gate, ended) = gated();
    let consumer = consumer.max_in_flight(1).max_held(1).ordering(Ordering::Parallel);
    let running = start(consumer, &broker, "m").await;
    gate.add_permits(RECORDS);
    sleep(20 * SECOND).await;
    assert_eq!((committed(&broker, 1), ended.load(Relaxed)), (RECORDS as i64, RECORDS as u64));
    let stats = running.shutdown(SECOND).await.unwrap().stats;
    assert_eq!((stats.records_fetched, stats.records_delivered), (RECORDS as u64, RECORDS as u64));
}
