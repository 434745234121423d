//! KPipe, with the settings that it comes with.

use std::time::Duration;

use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, Ordering, Record};

use super::Run;
use crate::Fallible;
use crate::work::Work;

pub(super) async fn run<W: Work>(run: &'static Run<W>, ordering: Ordering) -> Fallible<()> {
    let spec = &run.spec;
    let mut kafka = Kafka::brokers(&spec.bootstrap);
    for (key, value) in &spec.set {
        kafka = kafka.option(key, value);
    }
    let mut consumer = Consumer::new(&spec.group)
        .topic(&*spec.topic, move |record: Record| async move {
            run.handler.handle(record.partition(), record.value()).await;
            Ok(())
        })
        .ordering(ordering)
        .max_in_flight(spec.max_in_flight as u64);
    if let Some(records) = spec.max_held {
        consumer = consumer.max_held(records);
    }
    let running = consumer.start(kafka).await?;
    run.handler.ledger.finished().await;
    let report = running.shutdown(Duration::from_secs(60)).await?;
    match report.uncommitted.len() {
        0 => Ok(()),
        partitions => Err(format!("{partitions} partitions are not committed: {report}").into()),
    }
}
