//! One attempt at one record: its future, how it is polled, and the task that it becomes when it is
//! not ready at its first poll.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use tokio::task::coop;
use tokio::time::Instant;
use tracing::Instrument;

use super::epoch::{Epoch, Ticket};
use super::isolate;
use crate::failure::Failure;
use crate::handler::{Context, Handler, HandlerResult};
use crate::partition::{End, Runnable};
use crate::record::Record;

/// An epoch and the handler that works on it.
pub(super) struct Run<H> {
    pub(super) epoch: Arc<Epoch>,
    pub(super) handler: Arc<H>,
}

/// A future in a box that is used again: a record that is ready at its first poll allocates nothing.
pub(super) type Slot<F> = Pin<Box<Option<F>>>;

/// The future of an attempt. Calling the handler is a part of it, so that a panic in a closure's own
/// body is caught like one after its first await.
pub(super) fn attempt<H: Handler>(
    run: Arc<Run<H>>,
    record: Record,
    number: u32,
    deadline: Option<Instant>,
) -> impl Future<Output = HandlerResult> + Send + 'static {
    let span = tracing::debug_span!(
        target: "kpipe",
        "attempt",
        topic = record.topic(),
        partition = record.partition(),
        offset = record.offset(),
        attempt = number,
    );
    async move {
        let deadline = deadline.map(Instant::into_std);
        let context = Context::new(run.epoch.scope.clone(), number, deadline);
        run.handler.handle(record, context).await
    }
    .instrument(span)
}

/// Polls the future in a slot and empties the slot once it has ended. A panic, in the poll or in the
/// drop, is a failure of this attempt and of nothing else (G9).
pub(super) fn poll_slot<F>(slot: &mut Slot<F>, cx: &mut TaskContext<'_>) -> Poll<HandlerResult>
where
    F: Future<Output = HandlerResult>,
{
    let mut result = Poll::Pending;
    let polled = isolate::run(|| {
        let future = slot.as_mut().as_pin_mut().expect("a slot is polled while it is full");
        result = future.poll(cx);
        if result.is_ready() {
            slot.as_mut().set(None);
        }
    });
    match polled {
        Ok(()) => result,
        Err(failure) => {
            isolate::discard(result);
            empty(slot);
            Poll::Ready(Err(failure))
        }
    }
}

/// Drops what is in a slot, whatever its drop does.
fn empty<F>(slot: &mut Slot<F>) {
    if let Err(panic) = isolate::run(|| slot.as_mut().set(None)) {
        tracing::error!(target: "kpipe", error = %panic, "a handler's future failed to drop");
    }
}

/// The task of a record that was not ready at its first poll. It goes on with the successors in the
/// record's lane, which take over its slot: a lane costs no task while it waits.
pub(super) fn record_task<H, F, M>(
    run: Arc<Run<H>>,
    make: M,
    slot: Slot<F>,
    ticket: Ticket,
    begun: Instant,
) -> impl Future<Output = ()>
where
    H: Handler,
    F: Future<Output = HandlerResult>,
    M: Fn(Arc<Run<H>>, Record, u32, Option<Instant>) -> F,
{
    // From here on, because a runtime that ends drops tasks that it never polled.
    let guard = Guard { run, ticket: Some(ticket) };
    async move {
        let (mut guard, mut slot) = (guard, slot);
        let mut deadline = deadline_from(&guard.run.epoch, begun);
        while let Some(ticket) = guard.ticket {
            let end = drive(&guard.run.epoch, &mut slot, ticket, deadline).await;
            let Some(next) = guard.conclude(end) else { return };
            // A lane of handlers that are ready at once must not keep its worker from other tasks.
            coop::consume_budget().await;
            deadline = deadline_from(&guard.run.epoch, guard.run.epoch.clock.now());
            guard.run.epoch.tell_began(next.item.offset(), deadline);
            slot.as_mut().set(Some(make(guard.run.clone(), next.item, 1, deadline)));
        }
    }
}

/// Runs an attempt to its end, its deadline or its cancellation, whichever comes first.
async fn drive<F>(
    epoch: &Epoch,
    slot: &mut Slot<F>,
    ticket: Ticket,
    deadline: Option<Instant>,
) -> End
where
    F: Future<Output = HandlerResult>,
{
    let mut cancelled = pin!(epoch.scope.cancelled.cancelled());
    // A timer pends once the task's cooperative budget is used up. A handler that uses it up at
    // every poll must meet its deadline all the same.
    let mut timer = pin!(deadline.map(|by| coop::unconstrained(epoch.clock.sleep_until(by))));
    let late = |()| {
        let after = epoch.settings.attempt_deadline.unwrap_or_default();
        Some(Err(Failure::deadline(after)))
    };
    let ended = poll_fn(|cx| {
        // A clock that is moved in jumps may pass the deadline and what the handler waits for in one.
        if epoch.clock.is_driven()
            && let Some(timer) = timer.as_mut().as_pin_mut()
            && timer.poll(cx).is_ready()
        {
            return Poll::Ready(late(()));
        }
        // The handler comes first: one that looks at its token as it is cancelled may still finish.
        if let Poll::Ready(result) = poll_slot(slot, cx) {
            return Poll::Ready(Some(result));
        }
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        match timer.as_mut().as_pin_mut() {
            Some(timer) => timer.poll(cx).map(late),
            None => Poll::Pending,
        }
    })
    .await;
    empty(slot);
    match ended {
        None => End::Abandoned,
        Some(Ok(())) => End::Passed,
        Some(Err(failure)) => epoch.end_of_failure(ticket, failure),
    }
}

pub(super) fn deadline_from(epoch: &Epoch, begun: Instant) -> Option<Instant> {
    epoch.settings.attempt_deadline.map(|after| begun + after)
}

/// Sees to it that a task which is dropped half way, or before it began, because its runtime ends
/// leaks no slot and no record.
struct Guard<H> {
    run: Arc<Run<H>>,
    ticket: Option<Ticket>,
}

impl<H> Guard<H> {
    /// Ends the record; with a successor the guard goes on with that one.
    fn conclude(&mut self, end: End) -> Option<Runnable<Record>> {
        let next = self.run.epoch.conclude(self.ticket.take()?, end);
        self.ticket = next.as_ref().map(Ticket::of);
        next
    }
}

impl<H> Drop for Guard<H> {
    fn drop(&mut self) {
        self.conclude(End::Abandoned);
    }
}
