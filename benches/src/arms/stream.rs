//! The loop that most people start with: a record at a time, its offset stored after it.

use rdkafka::Message;
use rdkafka::consumer::Consumer;

use super::{Fetch, Run, close};
use crate::Fallible;
use crate::work::Work;

pub(super) async fn run<W: Work>(run: &'static Run<W>, fetch: Fetch) -> Fallible<()> {
    let consumer = run.stream_consumer(fetch)?;
    while !run.handler.ledger.is_finished() {
        let message = consumer.recv().await?;
        run.handler.handle(message.partition(), message.payload()).await;
        consumer.store_offset_from_message(&message)?;
    }
    close(consumer).await
}
