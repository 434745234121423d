//! Whole consumers: the runtime and librdkafka together.

mod crash;
mod input;
mod membership;
mod outage;
mod sharing;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, Record, Running};

use super::cluster::Cluster;

/// How often each record was handled, by partition and offset.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<(i32, i64), u32>>>);

impl Ledger {
    fn note(&self, record: &Record) {
        *self.0.lock().unwrap().entry((record.partition(), record.offset())).or_default() += 1;
    }

    /// Records handled at least once.
    fn distinct(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Times that a record was handled after the first.
    fn repeats(&self) -> u32 {
        self.0.lock().unwrap().values().map(|times| times - 1).sum()
    }
}

async fn start(consumer: Consumer, cluster: Cluster) -> Running {
    start_with(consumer, Kafka::brokers(cluster.address)).await
}

async fn start_with(consumer: Consumer, kafka: Kafka) -> Running {
    consumer.start(kafka).await.expect("the consumer starts")
}

/// Looks again and again until it is so.
async fn until(what: &str, so: impl Fn() -> bool) {
    until_within(Duration::from_secs(30), what, so).await;
}

async fn until_within(patience: Duration, what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < patience, "not within {patience:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What the group has committed in the first `partitions` of the topic, asked of the broker.
fn committed(cluster: Cluster, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    let client: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", cluster.address)
        .set("group.id", group)
        .create()
        .expect("a client");
    let mut list = rdkafka::TopicPartitionList::new();
    list.add_partition_range(topic, 0, partitions - 1);
    let list = client.committed_offsets(list, Duration::from_secs(10)).expect("an answer");
    list.elements().iter().map(|one| one.offset().to_raw().unwrap_or(-1)).collect()
}
