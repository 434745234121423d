//! The thread that polls the group, whatever everything else does (G3).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::Message;
use rdkafka::consumer::Consumer;

use super::client::{LOG_TARGET, Notice, Shared};
use super::errors::Trouble;
use super::ffi::Client;
use crate::source::Event;

/// How long one poll waits; an event ends it at once. Between polls the thread notes that it is alive
/// and whether it is to stop.
const POLL: Duration = Duration::from_millis(100);
/// The same for a member that is leaving, which somebody waits for.
const POLL_LEAVING: Duration = Duration::from_millis(5);

/// The body of the thread `kpipe-poll`.
pub(super) fn run(client: &Client, shared: &Arc<Shared>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        // Log lines go to the application's `tracing` subscriber, whose panic must not end the
        // membership.
        let polled = catch_unwind(AssertUnwindSafe(|| poll(client, shared)));
        if polled.is_err() {
            shared.report("a log subscriber panicked on the thread that polls the group", false);
        }
        shared.polled();
    }
}

fn poll(client: &Client, shared: &Arc<Shared>) {
    let wait = if shared.group.lock().closing { POLL_LEAVING } else { POLL };
    // Errors were reported by the context already, with more words.
    if let Some(Ok(message)) = client.consumer().poll(wait) {
        // Every partition has a queue of its own, so nothing should arrive here. If it does, this
        // record is missing from its partition: read it again.
        let place = shared.place(message.topic(), message.partition());
        tracing::warn!(target: LOG_TARGET, partition = %place, "a record outside its queue");
        if let Some(split) = client.current(&place) {
            let trouble = Trouble::Position { reset: false };
            let text = "a record arrived outside its partition's queue".to_owned();
            shared.notify(Notice::Trouble { place, split, trouble, text });
        }
    }
    // While a revoke is being drained the group may stop waiting. There is no event for it.
    if shared.group.lock().is_revoking_in_peace() && client.consumer().assignment_lost() {
        let lost = shared.group.lock().lost_while_revoking();
        if !lost.is_empty() {
            shared.notify(Notice::Event(Event::Lost(lost)));
        }
    }
}
