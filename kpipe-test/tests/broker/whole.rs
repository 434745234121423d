//! The production runtime over the broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kpipe_core::{Consumer, Record};
use kpipe_test::{Broker, Protocol, TestRecord};

const SECOND: Duration = Duration::from_secs(1);

fn produce(broker: &Broker, records: usize) {
    for number in 0..records {
        broker.append("orders", TestRecord::key(format!("key-{}", number % 20))).unwrap();
    }
}

fn committed(broker: &Broker) -> i64 {
    let partitions = 0..broker.partitions("orders").unwrap();
    partitions.filter_map(|partition| broker.committed("billing", "orders", partition)).sum()
}

#[tokio::test(start_paused = true)]
async fn every_record_is_handled_and_committed() {
    let broker = Broker::new();
    broker.create_topic("orders", 4);
    produce(&broker, 200);
    let handled = Arc::new(AtomicU64::new(0));
    let counted = handled.clone();
    let handler = move |_: Record| {
        let counted = counted.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    };
    let consumer =
        Consumer::new("billing").topic("orders", handler).start(broker.client()).await.unwrap();
    tokio::time::sleep(3 * SECOND).await;
    produce(&broker, 100);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(handled.load(Ordering::Relaxed), 300);
    assert_eq!(committed(&broker), 300);
    let report = consumer.shutdown(20 * SECOND).await.unwrap();
    assert!(report.uncommitted.is_empty(), "{report:?}");
    assert!(broker.members("billing").is_empty());
}

#[tokio::test(start_paused = true)]
async fn three_members_share_and_lose_nothing_whatever_the_protocol() {
    for protocol in [Protocol::Eager, Protocol::Cooperative, Protocol::Incremental] {
        let broker = Broker::builder().protocol(protocol).build();
        broker.create_topic("orders", 6);
        let handler = |_: Record| async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(())
        };
        let start = async |name: &str| {
            let client = broker.client().named(name);
            Consumer::new("billing").topic("orders", handler).start(client).await.unwrap()
        };
        produce(&broker, 300);
        let a = start("a").await;
        tokio::time::sleep(SECOND).await;
        produce(&broker, 300);
        let b = start("b").await;
        tokio::time::sleep(SECOND / 2).await;
        let c = start("c").await;
        tokio::time::sleep(2 * SECOND).await;
        broker.expel("b");
        tokio::time::sleep(SECOND).await;
        assert_eq!(broker.members("billing").len(), 3, "{protocol:?}");
        for name in ["a", "b", "c"] {
            assert_eq!(broker.assignment(name).len(), 2, "{protocol:?} {name}");
        }
        a.shutdown(20 * SECOND).await.unwrap();
        produce(&broker, 300);
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(committed(&broker), 900, "{protocol:?}");
        b.shutdown(20 * SECOND).await.unwrap();
        c.shutdown(20 * SECOND).await.unwrap();
    }
}
