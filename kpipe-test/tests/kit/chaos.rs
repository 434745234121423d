//! What happens to a handler's consumer meanwhile.

use std::time::Duration;

use kpipe_core::{Consumer, Record};
use kpipe_test::{Chaos, Run, TestRecord, TestStream};

fn consumer() -> Consumer {
    Consumer::new("g").topic("t", |record: Record| async move {
        if record.offset() % 2 == 0 {
            tokio::task::yield_now().await;
        }
        Ok(())
    })
}

async fn through(chaos: &[(usize, Chaos)]) -> Run {
    let mut stream = TestStream::new(consumer()).partitions(2);
    for index in 0..200 {
        stream.send("t", TestRecord::key(format!("k{}", index % 9)));
    }
    for (attempts, chaos) in chaos {
        stream.chaos_after(*attempts, chaos.clone());
    }
    let run = stream.flush().await;
    run.assert_at_least_once();
    run.assert_in_order_per_key();
    run.assert_nothing_began_after_its_revoke();
    let committed: i64 = (0..2).filter_map(|partition| run.committed("t", partition)).sum();
    assert_eq!(committed, 200, "{chaos:?}");
    run
}

#[tokio::test]
async fn a_rebalance_and_a_partition_that_comes_back() {
    through(&[(50, Chaos::Rebalance)]).await;
    let hand_back = Chaos::HandBack { topic: "t".into(), partition: 1 };
    through(&[(20, hand_back), (100, Chaos::HandBackAll)]).await;
}

#[tokio::test]
async fn records_that_are_delivered_twice_are_handled_once() {
    let twice = Chaos::DeliverTwice { topic: "t".into(), partition: 0, records: 5 };
    let run = through(&[(60, twice)]).await;
    run.assert_at_most_once();
}

#[tokio::test]
async fn an_expelled_consumer_comes_back() {
    through(&[(70, Chaos::Expel)]).await;
    through(&[(10, Chaos::HandBackAll), (30, Chaos::Expel), (90, Chaos::Rebalance)]).await;
}

#[tokio::test]
async fn a_broker_that_is_away() {
    through(&[(40, Chaos::LoseBroker(Duration::from_secs(30)))]).await;
    through(&[(40, Chaos::LoseBroker(Duration::from_secs(300)))]).await;
}
