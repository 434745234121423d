//! One assignment of one partition, and what its tasks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::isolate;
use crate::budget::{Budget, ShareId};
use crate::consumer::Settings;
use crate::failure::{Failed, Failure};
use crate::frontier::Seq;
use crate::handler::Scope;
use crate::lanes::LaneKey;
use crate::partition::{Closing, Draw, End, Finished, Partition, Runnable};
use crate::record::{KeyHead, Record, TopicPartition};
use crate::source::{Clock, Outcome, PartitionQueue, Trace, TraceEvent};
use crate::wake::{Reasons, Signal};

/// What the tasks of one assignment of one partition share: work belongs to one epoch, and an
/// epoch that is closed can move nothing (G7).
pub(crate) struct Epoch {
    pub(crate) id: TopicPartition,
    pub(crate) settings: Arc<Settings>,
    pub(crate) partition: Partition<Record>,
    pub(crate) queue: Box<dyn PartitionQueue>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) share: ShareId,
    pub(crate) scope: Arc<Scope>,
    /// Tells the assignments of one consumer apart.
    pub(crate) number: u64,
    pub(crate) clock: Clock,
    pub(crate) trace: Option<Arc<dyn Trace>>,
    /// The intake ended that nobody had told to: its runtime is gone, or the source panicked.
    pub(crate) intake_lost: AtomicBool,
    /// Wakes the control loop.
    pub(crate) control: Arc<Signal>,
    /// The zero of the partition's times.
    pub(crate) started: Instant,
}

/// What a completion needs to know of a record that its handler has taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) seq: Seq,
    pub(super) lane: Option<LaneKey>,
    pub(super) offset: i64,
    pub(super) bytes: u64,
    /// What its key begins with, should it fail.
    pub(super) key: KeyHead,
}

impl Ticket {
    pub(super) fn of(record: &Runnable<Record>) -> Self {
        Self {
            seq: record.seq,
            lane: record.lane,
            offset: record.item.offset(),
            bytes: record.item.payload_len() as u64,
            key: KeyHead::of(record.item.key()),
        }
    }
}

impl Epoch {
    /// Time since the epoch's start, as its partition counts it.
    pub(super) fn age_of(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Ends an attempt that has a slot and a held record: completes the record, gives back what is
    /// no longer needed, and returns the successor if it takes over the slot.
    pub(super) fn conclude(&self, ticket: Ticket, end: End) -> Option<Runnable<Record>> {
        self.tell(TraceEvent::Ended { offset: ticket.offset, outcome: end.outcome() });
        let Finished { next, stays } = self.partition.finish(ticket.seq, ticket.lane, end);
        if stays {
            // Its place among the records held is given back when the epoch closes.
            self.budget.release_held(self.share, 0, ticket.bytes);
            if !self.settings.holds_slot() {
                self.budget.release_slots(self.share, 1);
            }
        } else if let Some(next) = next {
            if self.budget.hand_over(self.share, ticket.bytes) {
                return Some(next);
            }
            if let Some(abandoned) = self.partition.wait_for_slot(next) {
                self.tell(TraceEvent::GivenUp { offset: abandoned.offset() });
                self.budget.release_held(self.share, 1, abandoned.payload_len() as u64);
            }
        } else {
            self.budget.release_attempt(self.share, ticket.bytes);
        }
        None
    }

    /// How a record ends whose attempt failed, by the user's policy (G1: never silently).
    pub(super) fn end_of_failure(&self, ticket: Ticket, failure: Failure) -> End {
        let TopicPartition { topic, partition } = &self.id;
        let Ticket { offset, key, .. } = ticket;
        let kind = failure.kind();
        let error = isolate::text_of(failure);
        self.tell(TraceEvent::Failed { offset, error: &error });
        let (why, shown) = (kind.name(), key.text());
        match self.settings.on_failure {
            crate::OnFailure::Hold => {
                tracing::error!(
                    target: "kpipe", %topic, partition, offset, key = shown, kind = why, error,
                    "a record failed; it stays, and its partition's committed offset waits for it"
                );
                End::Held(Box::new(Failed { kind, key, error }))
            }
            crate::OnFailure::Drop => {
                tracing::error!(
                    target: "kpipe", %topic, partition, offset, key = shown, kind = why, error,
                    "a record failed and is dropped"
                );
                End::Dropped
            }
        }
    }

    /// The intake has ended. Told to or not: a partition that nobody takes from is not to be a member's.
    pub(super) fn intake_ended(&self) {
        if self.partition.draw() != Draw::Stopped {
            self.intake_lost.store(true, Relaxed);
            self.control.raise(Reasons::INTAKE_LOST);
        } else {
            self.control.raise(Reasons::DRAINED);
        }
    }

    /// Stops intake and gives up what waits behind its key.
    pub(super) fn begin_drain(&self) {
        let waiting = self.partition.begin_drain();
        for record in &waiting {
            self.tell(TraceEvent::GivenUp { offset: record.item.offset() });
        }
        let bytes = waiting.iter().map(|record| record.item.payload_len() as u64).sum();
        self.budget.release_held(self.share, waiting.len() as u64, bytes);
    }

    /// Ends the epoch; returns what it leaves behind.
    pub(super) fn close(&self) -> Closing {
        self.scope.cancelled.cancel();
        let closing = self.partition.close();
        self.tell(TraceEvent::Closed);
        self.budget.release_held(self.share, closing.held, 0);
        if self.settings.holds_slot() {
            self.budget.release_slots(self.share, closing.held);
        }
        closing
    }
}

impl Epoch {
    /// Tells the source's witness, if it has one.
    #[inline]
    pub(super) fn tell(&self, event: TraceEvent<'_>) {
        if let Some(trace) = &self.trace {
            trace.saw(&self.id, self.number, event);
        }
    }

    #[inline]
    pub(super) fn tell_began(&self, offset: i64, deadline: Option<Instant>) {
        self.tell(TraceEvent::Began { offset, attempt: 1, deadline });
    }
}

impl End {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Passed => Outcome::Passed,
            Self::Dropped => Outcome::Dropped,
            Self::Held(_) => Outcome::Held,
            Self::Abandoned => Outcome::Abandoned,
        }
    }
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoch").field("id", &self.id).finish_non_exhaustive()
    }
}
