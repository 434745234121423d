//! What producers are told.

use std::time::Duration;

use futures::FutureExt;
use kpipe_test::ProduceErrorKind::{Fenced, QueueFull, TimedOut, TooLarge, UnknownTopic};
use kpipe_test::{Broker, SendFault, TestRecord};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn record() -> TestRecord {
    TestRecord::new().value("value")
}

fn broker() -> Broker {
    let broker = Broker::builder().max_message_bytes(100).delivery_timeout(30 * SECOND).build();
    broker.create_topic("out", 1);
    broker
}

#[tokio::test(start_paused = true)]
async fn what_is_acknowledged_is_in_the_log() {
    let broker = broker();
    let producer = broker.producer();
    assert_eq!(producer.send("out", record()).await, Ok((0, 0)));
    assert_eq!(producer.send("out", record().partition(0)).await, Ok((0, 1)));
    assert_eq!(broker.records("out").len(), 2);
    let kind = |delivery: kpipe_test::Delivery| delivery.unwrap_err().kind();
    assert_eq!(kind(producer.send("nowhere", record()).await), UnknownTopic);
    assert_eq!(kind(producer.send("out", record().partition(1)).await), UnknownTopic);
    assert_eq!(kind(producer.send("out", record().partition(-1)).await), UnknownTopic);
    assert_eq!(kind(producer.send("out", record().header("big", vec![0; 93])).await), TooLarge);
    assert!(producer.send("out", record().header("big", vec![0; 92])).await.is_ok());
    assert_eq!(broker.records("out").len(), 3);
    let makes = Broker::builder().create_topics(3).build();
    assert!(makes.producer().send("new", record()).await.is_ok());
    assert_eq!(makes.partitions("new"), Some(3));
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_to_a_record_what_it_says() {
    let broker = broker();
    let producer = broker.producer();
    let written = || broker.records("out").len();
    for kind in [TooLarge, UnknownTopic, Fenced, QueueFull] {
        broker.on_sends("out", [SendFault::Refuse(kind)]);
        let refused = producer.send("out", record()).await.unwrap_err();
        assert_eq!((refused.kind(), written()), (kind, 0));
    }
    // What it does to the log at once and in the end, what it answers and when.
    for (fault, at_once, in_the_end, acknowledged, after) in [
        (SendFault::Late(SECOND), 0, 1, true, 1),
        (SendFault::AckLate(SECOND), 1, 1, true, 1),
        (SendFault::AckLost(SECOND), 1, 1, false, 1),
        (SendFault::Lost(SECOND), 0, 0, false, 1),
        (SendFault::None, 1, 1, true, 0),
    ] {
        let (before, begun) = (written(), Instant::now());
        broker.on_sends("out", [fault]);
        let mut delivery = producer.send("out", record());
        assert_eq!((&mut delivery).now_or_never().is_none(), after > 0, "{fault:?}");
        assert_eq!(written() - before, at_once, "{fault:?}");
        if after > 0 {
            match delivery.await {
                Ok((_, offset)) => assert!(acknowledged && offset as usize == before, "{fault:?}"),
                Err(error) => assert!(!acknowledged && error.kind() == TimedOut, "{fault:?}"),
            }
        }
        assert_eq!(written() - before, in_the_end, "{fault:?}");
        assert_eq!(begun.elapsed(), after * SECOND, "{fault:?}");
    }
    broker.on_sends("out", [SendFault::AckHeld]);
    let mut delivery = producer.send("out", record());
    assert!((&mut delivery).now_or_never().is_none());
    broker.release_answers();
    assert!(delivery.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_topic_can_refuse_until_it_does_not() {
    let broker = broker();
    let producer = broker.producer();
    broker.on_every_send("out", SendFault::Refuse(Fenced));
    for _ in 0..3 {
        assert_eq!(producer.send("out", record()).await.unwrap_err().kind(), Fenced);
    }
    broker.on_every_send("out", SendFault::None);
    assert!(producer.send("out", record()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_until_something_is_answered() {
    let broker = broker();
    let producer = broker.producer().queue(2);
    broker.on_sends("out", [SendFault::AckHeld, SendFault::AckHeld]);
    let (first, second) = (producer.send("out", record()), producer.send("out", record()));
    let refused = producer.send("out", record()).await.unwrap_err();
    assert_eq!((refused.kind(), broker.records("out").len()), (QueueFull, 2));
    broker.release_answers();
    assert!(first.await.is_ok());
    assert!(producer.send("out", record()).await.is_ok());
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn records_wait_for_a_broker_that_is_away_in_their_order() {
    let broker = broker();
    let producer = broker.producer();
    broker.go_away(10 * SECOND);
    let begun = Instant::now();
    let deliveries: Vec<_> = (0..3).map(|_| producer.send("out", record())).collect();
    assert_eq!(broker.records("out").len(), 0);
    for (offset, delivery) in deliveries.into_iter().enumerate() {
        assert_eq!(delivery.await, Ok((0, offset as i64)));
    }
    assert_eq!(begun.elapsed(), 10 * SECOND);
    broker.go_away(60 * SECOND);
    let delivery = producer.send("out", record()).await;
    assert_eq!(delivery.unwrap_err().kind(), TimedOut);
    assert_eq!(begun.elapsed(), 40 * SECOND);
    drop(producer.send("out", record()));
    broker.come_back();
    assert_eq!(broker.records("out").len(), 4, "it was on its way, whoever waits for it");
}
