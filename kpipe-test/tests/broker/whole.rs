//! The production runtime over the broker: whatever happens to the group, every record is handled, and
//! what is committed was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kpipe_core::source::CommitErrorKind;
use kpipe_core::{Consumer, Record, Running, StartAt};
use kpipe_test::{Broker, Chances, CommitFault, Protocol, Seen, TestRecord, What};

const SECOND: Duration = Duration::from_secs(1);
const PROTOCOLS: [Protocol; 3] = [Protocol::Eager, Protocol::Cooperative, Protocol::Incremental];

/// How often each record was handled to its end.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<BTreeMap<(i32, i64), u32>>>);

impl Handled {
    async fn start(&self, broker: &Broker, name: &str, takes: Duration) -> Running {
        let handled = self.clone();
        let handler = move |record: Record| {
            let handled = handled.clone();
            async move {
                tokio::time::sleep(takes).await;
                let place = (record.partition(), record.offset());
                *handled.0.lock().unwrap().entry(place).or_default() += 1;
                Ok(())
            }
        };
        let consumer = Consumer::new("billing").topic("orders", handler);
        consumer.commit_interval(SECOND).start(broker.client().named(name)).await.unwrap()
    }

    /// Asserts that every record in the logs was handled and committed; returns how many were again.
    fn check(&self, broker: &Broker) -> u32 {
        let handled = self.0.lock().unwrap();
        for record in broker.records("orders") {
            let place = (record.partition(), record.offset());
            assert!(handled.contains_key(&place), "{place:?} was never handled");
        }
        for partition in 0..broker.partitions("orders").unwrap() {
            let end = broker.last_offset("orders", partition).map(|last| last + 1);
            assert_eq!(broker.committed("billing", "orders", partition), end, "{partition}");
        }
        handled.values().map(|times| times - 1).sum()
    }
}

fn produce(broker: &Broker, records: usize) {
    for number in 0..records {
        broker.append("orders", TestRecord::key(format!("key-{}", number % 50))).unwrap();
    }
}

fn broker(protocol: Protocol, partitions: i32) -> Broker {
    let broker = Broker::builder().protocol(protocol).build();
    broker.create_topic("orders", partitions);
    broker
}

#[tokio::test(start_paused = true)]
async fn every_record_is_handled_once_and_committed() {
    let (broker, handled) = (broker(Protocol::Eager, 4), Handled::default());
    produce(&broker, 200);
    let consumer = handled.start(&broker, "a", SECOND / 200).await;
    tokio::time::sleep(3 * SECOND).await;
    produce(&broker, 100);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(handled.check(&broker), 0);
    let report = consumer.shutdown(20 * SECOND).await.unwrap();
    assert!(report.uncommitted.is_empty(), "{report:?}");
    assert_eq!((report.stats.records_fetched, report.stats.records_delivered), (300, 300));
    assert!(broker.members("billing").is_empty());
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_with_work_in_flight_and_nothing_is_handled_twice() {
    for protocol in PROTOCOLS {
        let (broker, handled) = (broker(protocol, 6), Handled::default());
        produce(&broker, 300);
        let a = handled.start(&broker, "a", 3 * SECOND / 10).await;
        tokio::time::sleep(SECOND).await;
        let b = handled.start(&broker, "b", 3 * SECOND / 10).await;
        tokio::time::sleep(SECOND / 2).await;
        let c = handled.start(&broker, "c", 3 * SECOND / 10).await;
        tokio::time::sleep(3 * SECOND).await;
        for name in ["a", "b", "c"] {
            assert_eq!(broker.assignment(name).len(), 2, "{protocol:?} {name}");
        }
        produce(&broker, 300);
        a.shutdown(20 * SECOND).await.unwrap();
        for _ in 0..5 {
            broker.rebalance_now("billing");
            broker.hand_back("billing", "orders", 1);
            tokio::time::sleep(SECOND).await;
        }
        tokio::time::sleep(30 * SECOND).await;
        assert_eq!(handled.check(&broker), 0, "{protocol:?}");
        b.shutdown(20 * SECOND).await.unwrap();
        c.shutdown(20 * SECOND).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_expelled_member_commits_nothing_and_its_work_is_done_again() {
    for protocol in PROTOCOLS {
        let (broker, handled) = (broker(protocol, 3), Handled::default());
        produce(&broker, 100);
        let a = handled.start(&broker, "a", SECOND / 2).await;
        tokio::time::sleep(2 * SECOND).await;
        assert!(broker.expel("a"));
        let expelled = broker.history().len();
        tokio::time::sleep(60 * SECOND).await;
        handled.check(&broker);
        let history = broker.history();
        let again = |seen: &Seen| matches!(seen.what, What::Assigned { .. });
        let until = expelled + history[expelled..].iter().position(again).unwrap();
        let commits = |seen: &&Seen| matches!(seen.what, What::Committed { .. });
        assert_eq!(history[expelled..until].iter().filter(commits).count(), 0);
        a.shutdown(20 * SECOND).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_costs_what_was_not_committed_and_no_record() {
    for session in [Duration::ZERO, 20 * SECOND] {
        let (broker, handled) = (broker(Protocol::Cooperative, 3), Handled::default());
        produce(&broker, 100);
        let a = handled.start(&broker, "a", SECOND / 4).await;
        let b = handled.start(&broker, "b", SECOND / 4).await;
        tokio::time::sleep(4 * SECOND).await;
        assert!(broker.kill("a", session));
        drop(a);
        let a = handled.start(&broker, "a", SECOND / 4).await;
        produce(&broker, 100);
        tokio::time::sleep(90 * SECOND).await;
        handled.check(&broker);
        assert_eq!(broker.members("billing"), ["b", "a"]);
        a.shutdown(20 * SECOND).await.unwrap();
        b.shutdown(20 * SECOND).await.unwrap();
    }
}

/// C17
#[tokio::test(start_paused = true)]
async fn consumption_goes_on_after_a_broker_was_away_for_longer_than_a_session() {
    for (away, of_coordinator) in [(10, false), (100, false), (10, true), (100, true)] {
        let (broker, handled) = (broker(Protocol::Eager, 3), Handled::default());
        produce(&broker, 100);
        let a = handled.start(&broker, "a", SECOND / 4).await;
        tokio::time::sleep(SECOND).await;
        match of_coordinator {
            true => broker.coordinator_away(away * SECOND),
            false => broker.go_away(away * SECOND),
        }
        produce(&broker, 100);
        tokio::time::sleep((away + 60) * SECOND).await;
        handled.check(&broker);
        a.shutdown(20 * SECOND).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_partition_goes_on_where_its_log_begins_after_a_truncation() {
    let broker = Broker::builder().prefetch_records(10).build();
    broker.create_topic("orders", 1);
    let handled = Handled::default();
    produce(&broker, 30);
    let a = handled.start(&broker, "a", SECOND / 10).await;
    tokio::time::sleep(10 * SECOND).await;
    handled.check(&broker);
    broker.go_away(5 * SECOND);
    produce(&broker, 30);
    broker.truncate_before("orders", 0, 50);
    tokio::time::sleep(20 * SECOND).await;
    handled.check(&broker);
    assert_eq!(handled.0.lock().unwrap().len(), 40);
    let lost = |seen: &Seen| matches!(seen.what, What::PositionLost { offset: 30, .. });
    assert!(broker.history().iter().any(lost));
    a.shutdown(20 * SECOND).await.unwrap();
}

/// C6, C7
#[tokio::test(start_paused = true)]
async fn the_committed_offset_catches_up_over_gaps_and_failed_commits() {
    let (broker, handled) = (broker(Protocol::Eager, 1), Handled::default());
    broker.skip("orders", 0, 1);
    produce(&broker, 5);
    broker.skip("orders", 0, 1_000_000_000);
    produce(&broker, 5);
    let faults = [
        CommitFault::Fail(CommitErrorKind::Retry),
        CommitFault::AnswerLost,
        CommitFault::Late(3 * SECOND),
        CommitFault::AnswerLate(3 * SECOND),
        CommitFault::Fail(CommitErrorKind::Fenced),
    ];
    broker.on_commits("a", faults);
    let a = handled.start(&broker, "a", SECOND / 4).await;
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(broker.committed("billing", "orders", 0), Some(1_000_000_011));
    handled.check(&broker);
    a.shutdown(20 * SECOND).await.unwrap();
}

/// C9
#[tokio::test(start_paused = true)]
async fn commits_under_way_at_a_revoke_move_nothing_afterwards() {
    for protocol in PROTOCOLS {
        for fault in [CommitFault::AnswerHeld, CommitFault::Late(20 * SECOND), CommitFault::Lost] {
            let (broker, handled) = (broker(protocol, 2), Handled::default());
            produce(&broker, 50);
            broker.on_commits("a", [fault; 3]);
            let a = handled.start(&broker, "a", SECOND / 4).await;
            tokio::time::sleep(3 * SECOND).await;
            let b = handled.start(&broker, "b", SECOND / 4).await;
            tokio::time::sleep(15 * SECOND).await;
            assert_eq!(broker.assignment("b").len(), 1, "{protocol:?} {fault:?}");
            produce(&broker, 50);
            tokio::time::sleep(10 * SECOND).await;
            broker.calm();
            tokio::time::sleep(30 * SECOND).await;
            handled.check(&broker);
            a.shutdown(20 * SECOND).await.unwrap();
            b.shutdown(20 * SECOND).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_starts_at_the_end_commits_where_that_was() {
    let broker = broker(Protocol::Eager, 1);
    produce(&broker, 7);
    let consumer = Consumer::new("billing")
        .topic("orders", async |_: Record| Ok(()))
        .start_at(StartAt::Latest)
        .start(broker.client())
        .await
        .unwrap();
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(broker.committed("billing", "orders", 0), Some(7));
    consumer.shutdown(20 * SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_the_broker_delivers_twice_is_handled_once() {
    let (broker, handled) = (broker(Protocol::Eager, 1), Handled::default());
    produce(&broker, 50);
    let a = handled.start(&broker, "a", SECOND).await;
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!(broker.deliver_again("orders", 0, 10), 10);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(handled.check(&broker), 0);
    assert_eq!(a.stats().duplicates, 10);
    a.shutdown(20 * SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_that_ends_the_membership_ends_the_consumer() {
    let (broker, handled) = (broker(Protocol::Eager, 1), Handled::default());
    let a = handled.start(&broker, "a", SECOND).await;
    broker.report_error("a", "a fetch failed", false);
    tokio::time::sleep(SECOND).await;
    assert_eq!(broker.members("billing"), ["a"]);
    broker.report_error("a", "fenced for good", true);
    tokio::time::sleep(SECOND).await;
    let error = a.shutdown(20 * SECOND).await.unwrap_err();
    assert!(error.to_string().contains("fenced for good"), "{error}");
    assert!(broker.members("billing").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_takes_the_same_course() {
    async fn course(seed: u64) -> Vec<Seen> {
        let (broker, handled) = (broker(Protocol::Cooperative, 5), Handled::default());
        let mut chances = Chances::default();
        chances.commit_retry = 0.1;
        chances.commit_late = 0.1;
        chances.commit_answer_lost = 0.1;
        chances.assign_slow = 0.3;
        chances.assign_fails = 0.1;
        chances.redelivery = 0.5;
        broker.draw_faults(seed, chances);
        produce(&broker, 200);
        let a = handled.start(&broker, "a", SECOND / 20).await;
        tokio::time::sleep(SECOND).await;
        let b = handled.start(&broker, "b", SECOND / 20).await;
        for _ in 0..3 {
            produce(&broker, 50);
            tokio::time::sleep(3 * SECOND).await;
            broker.hand_back("billing", "orders", 2);
            broker.expel("b");
        }
        broker.calm();
        tokio::time::sleep(200 * SECOND).await;
        handled.check(&broker);
        a.shutdown(20 * SECOND).await.unwrap();
        b.shutdown(20 * SECOND).await.unwrap();
        broker.take_history()
    }
    let what = |seen: Vec<Seen>| seen.into_iter().map(|seen| seen.what).collect::<Vec<_>>();
    let first = what(course(5).await);
    assert_eq!(first, what(course(5).await));
    assert_ne!(first, what(course(6).await));
}
