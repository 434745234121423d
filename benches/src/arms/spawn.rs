//! The loop that people turn to next: a task for each record, a semaphore against too many, and the
//! offset stored by whichever task ends. Order is lost, and so are records: offsets are stored in
//! the order in which tasks end.

use std::sync::Arc;

use rdkafka::Message;
use rdkafka::consumer::Consumer;
use tokio::sync::Semaphore;

use super::{Fetch, Run, close};
use crate::Fallible;
use crate::work::Work;

pub(super) async fn run<W: Work>(run: &'static Run<W>) -> Fallible<()> {
    let limit = run.spec.max_in_flight;
    let consumer = Arc::new(run.stream_consumer(Fetch::Tuned)?);
    let permits = Arc::new(Semaphore::new(limit));
    for _ in 0..run.spec.records {
        let message = consumer.recv().await?.detach();
        let permit = permits.clone().acquire_owned().await?;
        let consumer = consumer.clone();
        tokio::spawn(async move {
            run.handler.handle(message.partition(), message.payload()).await;
            if let Err(error) =
                consumer.store_offset(message.topic(), message.partition(), message.offset())
            {
                eprintln!("offset not stored: {error}");
            }
            drop(consumer);
            drop(permit);
        });
    }
    // Every task drops the client before its permit: with all permits back there is one left.
    let _all = permits.acquire_many(limit as u32).await?;
    close(Arc::into_inner(consumer).ok_or("a task still holds the client")?).await
}
