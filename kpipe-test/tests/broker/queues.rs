//! What comes out of a partition's queue, and when.

use std::time::Duration;

use futures::FutureExt;
use kpipe_core::Timestamp;
use kpipe_core::source::PartitionQueue;
use kpipe_test::{Broker, Protocol, TestRecord};

use crate::bare::{Bare, GROUP, TOPIC};

fn broker(partitions: i32) -> Broker {
    let broker = Broker::builder().protocol(Protocol::Cooperative).prefetch_records(5).build();
    broker.create_topic(TOPIC, partitions);
    broker
}

fn write(broker: &Broker, partition: i32, records: usize) {
    for _ in 0..records {
        broker.append(TOPIC, TestRecord::new().value("four").partition(partition)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn so_much_is_fetched_ahead_and_nothing_twice() {
    let broker = broker(1);
    write(&broker, 0, 20);
    let mut member = Bare::join(broker.client()).await;
    member.follow("assigned [0]").await;
    let traffic = member.source.traffic();
    assert_eq!((traffic.records_fetched, traffic.records_delivered), (5, 0));
    assert_eq!(member.take(0, 3), [0, 1, 2]);
    assert_eq!(
        member.take(0, 12),
        (3..15).collect::<Vec<_>>(),
        "over the limit of what lies there"
    );
    let traffic = member.source.traffic();
    assert_eq!((traffic.records_fetched, traffic.records_delivered), (20, 15));
    assert_eq!((traffic.bytes_fetched, traffic.bytes_delivered), (80, 60));
    assert_eq!(member.take(0, 100), (15..20).collect::<Vec<_>>());
    assert_eq!(member.source.traffic().records_fetched, 20);
}

#[tokio::test(start_paused = true)]
async fn records_that_come_into_an_empty_queue_are_signalled() {
    let broker = broker(1);
    let mut member = Bare::join(broker.client()).await;
    member.follow("assigned [0]").await;
    let arrivals = member.arrivals[&0].clone();
    arrivals.arrived().await;
    assert!(member.take(0, 9).is_empty());
    assert_eq!(arrivals.arrived().now_or_never(), None);
    write(&broker, 0, 1);
    arrivals.arrived().await;
    write(&broker, 0, 1);
    assert_eq!(arrivals.arrived().now_or_never(), None, "the queue was not empty");
    assert_eq!(member.take(0, 9), [0, 1]);
    write(&broker, 0, 1);
    arrivals.arrived().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_comes_out_as_it_was_sent() {
    let broker = broker(2);
    let sent = TestRecord::key("k")
        .value("v")
        .header("a", "1")
        .header("a", "2")
        .timestamp(77)
        .partition(1);
    broker.append(TOPIC, sent).unwrap();
    broker.append(TOPIC, TestRecord::key("k").tombstone().partition(1)).unwrap();
    let records = broker.records(TOPIC);
    let record = &records[0];
    assert_eq!((record.partition(), record.offset()), (1, 0));
    assert_eq!((record.key(), record.value()), (Some(&b"k"[..]), Some(&b"v"[..])));
    assert_eq!(record.headers().get_all("a").count(), 2);
    assert_eq!(record.timestamp(), Timestamp::CreateTime(77));
    assert_eq!(record.leader_epoch(), Some(0));
    assert_eq!((records[1].value(), records[1].timestamp()), (None, Timestamp::CreateTime(1)));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_was_taken_away_yields_nothing() {
    let broker = broker(1);
    write(&broker, 0, 10);
    let mut member = Bare::join(broker.client()).await;
    let wanted = vec![(crate::bare::at(0), kpipe_core::source::Arrivals::new())];
    assert_eq!(member.event().as_deref(), Some("assigned [0]"));
    let old = member.source.assign(wanted).await.pop().unwrap().queue;
    let taken = |queue: &dyn PartitionQueue| queue.take(2, &mut Vec::new());
    assert_eq!(taken(&*old), 2);
    member.unassign(vec![0]).await;
    assert_eq!(taken(&*old), 0);
    member.assign(vec![0]).await;
    assert_eq!(taken(&*old), 0, "not even when the partition is back");
    assert_eq!(member.take(0, 2), [0, 1]);
    broker.kill("member-1", Duration::ZERO);
    assert!(member.take(0, 2).is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_something_is_to_be_given_back_nothing_comes_and_then_it_is_fetched_again() {
    let broker = broker(2);
    write(&broker, 0, 10);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1]").await;
    assert_eq!(a.take(0, 2), [0, 1]);
    assert_eq!(a.source.traffic().records_fetched, 7);
    let mut b = Bare::join(broker.client().named("b")).await;
    assert_eq!(a.event().as_deref(), Some("revoked [1]"));
    assert!(a.take(0, 2).is_empty());
    a.unassign(vec![1]).await;
    b.follow("assigned [1]").await;
    assert_eq!(a.source.traffic().records_fetched, 12);
    assert_eq!(a.take(0, 9), (2..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_last_records_are_delivered_again_where_the_test_says() {
    let broker = broker(1);
    write(&broker, 0, 6);
    let mut member = Bare::join(broker.client()).await;
    assert_eq!(broker.deliver_again(TOPIC, 0, 2), 0, "nobody fetches it");
    member.follow("assigned [0]").await;
    assert_eq!(member.take(0, 4), [0, 1, 2, 3]);
    broker.compact(TOPIC, 0, 2);
    assert_eq!(broker.deliver_again(TOPIC, 0, 2), 2);
    assert_eq!(member.take(0, 9), [1, 3, 4, 5]);
    assert_eq!(broker.deliver_again(TOPIC, 0, 99), 5);
    assert_eq!(member.take(0, 2), [0, 1]);
    assert_eq!(broker.deliver_again(TOPIC, 0, 1), 1, "the last one is still the last one");
    assert_eq!(member.take(0, 9), [5, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_failed_goes_on_once_it_is_assigned_again() {
    let broker = broker(1);
    write(&broker, 0, 3);
    let mut member = Bare::join(broker.client()).await;
    member.follow("assigned [0]").await;
    assert_eq!(member.take(0, 1), [0]);
    assert!(broker.fail_partition(TOPIC, 0) && !broker.fail_partition(TOPIC, 7));
    assert!(member.take(0, 9).is_empty());
    assert!(member.event().unwrap().starts_with("failed 0"));
    member.commit(0, 1).await.unwrap();
    member.unassign(vec![0]).await;
    assert_eq!(broker.owner(GROUP, TOPIC, 0).as_deref(), Some("member-1"));
    member.assign(vec![0]).await;
    assert_eq!(member.take(0, 9), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_fetched_from_a_broker_that_is_away() {
    let broker = broker(1);
    write(&broker, 0, 7);
    let mut member = Bare::join(broker.client()).await;
    member.follow("assigned [0]").await;
    broker.go_away(Duration::from_secs(20));
    write(&broker, 0, 1);
    assert_eq!(member.take(0, 9), [0, 1, 2, 3, 4], "what was prefetched");
    assert_eq!(member.source.log_ends(vec![crate::bare::at(0)]).await, [None]);
    let arrivals = member.arrivals[&0].clone();
    arrivals.arrived().await;
    assert!(member.take(0, 9).is_empty());
    // Whoever waits for an event makes it happen.
    assert!(
        tokio::time::timeout(Duration::from_secs(20), member.source.next_event()).await.is_err()
    );
    arrivals.arrived().await;
    assert_eq!(member.take(0, 9), [5, 6, 7]);
}
