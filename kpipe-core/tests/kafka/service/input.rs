//! Bad and odd input is handled or reported, and nothing is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, Record, Timestamp};

use super::super::cluster::Cluster;
use super::super::member::group;
use super::{Ledger, start, start_with, until};

#[tokio::test(flavor = "multi_thread")]
async fn odd_records_arrive_as_they_are() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(1).await;
    let big = vec![b'x'; 900_000];
    let names: Vec<String> = (0..100).map(|i| format!("h{}", i % 50)).collect();
    let headers: Vec<_> =
        names.iter().map(|name| (name.as_str(), (name != "h7").then_some(&b"v"[..]))).collect();
    cluster.append(&topic, None, None, &[]);
    cluster.append(&topic, Some(b""), Some(b""), &[]);
    cluster.append(&topic, Some(b"\xff\xfe\x00"), Some(b"\x00\xff"), &[]);
    cluster.append(&topic, Some(b"big"), Some(&big), &[]);
    cluster.append(&topic, Some(b"h"), Some(b"v"), &headers);

    let seen = Arc::new(Mutex::new(Vec::new()));
    let consumer = Consumer::new(group()).topic(topic.as_str(), {
        let seen = seen.clone();
        move |record: Record| {
            seen.lock().unwrap().push(record);
            async { Ok(()) }
        }
    });
    let running = start(consumer, cluster).await;
    until("all five are seen", || seen.lock().unwrap().len() == 5).await;
    running.shutdown(Duration::from_secs(10)).await.unwrap();

    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort_by_key(Record::offset);
    assert_eq!((seen[0].key(), seen[0].value()), (None, None));
    assert_eq!((seen[1].key(), seen[1].value()), (Some(&b""[..]), Some(&b""[..])));
    assert_eq!(seen[2].key(), Some(&b"\xff\xfe\x00"[..]));
    assert_eq!(seen[3].value().unwrap().len(), 900_000);
    assert_eq!(seen[4].headers().len(), 100);
    assert_eq!(seen[4].headers().get_all("h7").map(|h| h.value()).collect::<Vec<_>>(), [None; 2]);
    assert!(matches!(seen[4].timestamp(), Timestamp::CreateTime(ms) if ms > 1_600_000_000_000));
    assert_eq!(seen[4].id().to_string(), format!("{topic}-0-4"));
}

/// A topic that is deleted while it is consumed is reported; the other one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_deleted_while_consuming_is_visible_and_stops_no_other() {
    let Some(cluster) = Cluster::get() else { return };
    let (gone, stays) = (cluster.topic(1).await, cluster.topic(1).await);
    cluster.fill(&gone, 0, 100);
    cluster.fill(&stays, 0, 100);
    let ledger = Ledger::default();
    let handler = |ledger: Ledger| {
        move |record: Record| {
            ledger.note(&record);
            async { Ok(()) }
        }
    };
    let consumer = Consumer::new(group())
        .topic(gone.as_str(), |_: Record| async { Ok(()) })
        .topic(stays.as_str(), handler(ledger.clone()));
    // How long a topic may be missing before the client believes it; 30 s by default.
    let kafka = Kafka::brokers(cluster.address).option("topic.metadata.propagation.max.ms", "1000");
    let running = start_with(consumer, kafka).await;
    until("both are read", || running.stats().passed == 200).await;
    cluster.delete(&gone).await;
    until("the loss is visible", || {
        let stats = running.stats();
        stats.client_errors > 0 || stats.partitions.len() == 1
    })
    .await;
    cluster.fill(&stays, 0, 100);
    until("the other goes on", || ledger.distinct() == 200).await;
    let report = running.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ledger.repeats(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_topic_is_nothing_special() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(3).await;
    let consumer = Consumer::new(group()).topic(topic.as_str(), |_: Record| async { Ok(()) });
    let running = start(consumer, cluster).await;
    until("assigned", || running.stats().partitions.len() == 3).await;
    let report = running.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!((report.stats.received, report.committed.len()), (0, 3));
}
