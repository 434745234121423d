//! `buffer_unordered` over the client's records: many at once in one task, offsets stored in the
//! order in which handlers end. The task is the runtime's main one: the compiler does not find this
//! future `Send`, which is no loss with everything in one task.

use futures::{StreamExt, TryStreamExt};
use rdkafka::Message;
use rdkafka::consumer::Consumer;

use super::{Fetch, Run, close};
use crate::Fallible;
use crate::work::Work;

pub(super) async fn run<W: Work>(run: &'static Run<W>) -> Fallible<()> {
    let consumer = run.stream_consumer(Fetch::Tuned)?;
    consumer
        .stream()
        .take(run.spec.records as usize)
        .map(|message| async {
            let message = message?;
            run.handler.handle(message.partition(), message.payload()).await;
            consumer.store_offset_from_message(&message)
        })
        .buffer_unordered(run.spec.max_in_flight)
        .try_for_each(async |()| Ok(()))
        .await?;
    close(consumer).await
}
