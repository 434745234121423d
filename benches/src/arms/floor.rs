//! What the client alone costs: batches taken from each partition's own queue, and dropped.

use std::thread;
use std::time::Duration;

use kpipe_core::rooms::Drain;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::{Fetch, Run};
use crate::Fallible;

/// Past this many the batch call gets no cheaper.
const BATCH: usize = 1_024;
/// How long to wait when every queue is empty: short against the time in which they fill.
const PAUSE: Duration = Duration::from_micros(200);

/// Without a group: joining one costs time, not processor, and nothing is committed.
pub(super) async fn run<W: Sync>(run: &'static Run<W>) -> Fallible<()> {
    tokio::task::spawn_blocking(|| drain(run)).await?
}

fn drain<W>(run: &Run<W>) -> Fallible<()> {
    let topic = &run.spec.topic;
    let consumer: BaseConsumer = run.config(Fetch::Tuned).create()?;
    let mut drains = Vec::new();
    let mut all = TopicPartitionList::new();
    for partition in 0..run.spec.partitions as i32 {
        let drain = Drain::split(&consumer, topic, partition).ok_or("not the name of a topic")?;
        drains.push((partition, drain));
        all.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&all)?;
    while !run.handler.ledger.is_finished() {
        let mut taken = 0;
        for (partition, drain) in &mut drains {
            let records = drain.discard(BATCH);
            if records > 0 {
                run.handler.ledger.counted(*partition, records as u64);
            }
            taken += records;
        }
        if taken == 0 {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}
