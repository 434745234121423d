//! What the runtime did, step by step, as the runtime itself tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kpipe_core::TopicPartition;
use kpipe_core::source::{Outcome, Time, Trace, TraceEvent};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Keeps every step of every consumer that it is given to.
pub(crate) struct Witness {
    time: Arc<dyn Time>,
    ledger: Mutex<Ledger>,
    cues: Mutex<Vec<Cue>>,
    /// Told after every step.
    pub(crate) changed: Notify,
}

/// The steps so far, and what is under way.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) steps: Vec<Step>,
    pub(crate) running: BTreeMap<Attempt, Running>,
    /// For each partition that was ever assigned, the offset that follows the last one received.
    pub(crate) next: BTreeMap<TopicPartition, i64>,
    /// Attempts begun so far.
    pub(crate) begun: usize,
    /// Assignments that are not over.
    open: BTreeSet<(TopicPartition, u64)>,
    /// How many processes have died; the epochs of each count from 0.
    deaths: u64,
    /// The process has died: nothing that comes now has happened.
    dead: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) partition: TopicPartition,
    pub(crate) epoch: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Assigned { start: i64 },
    Received { offset: i64 },
    Duplicate { offset: i64 },
    Began { offset: i64 },
    Failed { offset: i64, error: String },
    Ended { offset: i64, outcome: Outcome },
    GivenUp { offset: i64 },
    Closed,
}

impl What {
    /// `None` for a step that this version of the kit knows nothing of.
    pub(crate) fn of(event: TraceEvent<'_>) -> Option<Self> {
        Some(match event {
            TraceEvent::Assigned { start } => Self::Assigned { start },
            TraceEvent::Received { offset } => Self::Received { offset },
            TraceEvent::Duplicate { offset } => Self::Duplicate { offset },
            TraceEvent::Began { offset, .. } => Self::Began { offset },
            TraceEvent::Failed { offset, error } => {
                Self::Failed { offset, error: error.to_owned() }
            }
            TraceEvent::Ended { offset, outcome } => Self::Ended { offset, outcome },
            TraceEvent::GivenUp { offset } => Self::GivenUp { offset },
            TraceEvent::Closed => Self::Closed,
            _ => return None,
        })
    }
}

/// Which attempt: partition, epoch and offset.
pub(crate) type Attempt = (TopicPartition, u64, i64);

/// An attempt that has begun and not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) since: Instant,
    pub(crate) attempt: u32,
    pub(crate) deadline: Option<Instant>,
}

/// Something to do at the step that `at` recognises, in the middle of what the runtime does there.
struct Cue {
    at: Box<dyn FnMut(&What) -> bool + Send>,
    act: Box<dyn FnOnce() + Send>,
}

impl Witness {
    pub(crate) fn new(time: Arc<dyn Time>) -> Self {
        Self { time, ledger: Mutex::default(), cues: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// Does something once, at the first step for which `at` is true.
    pub(crate) fn at(
        &self,
        at: impl FnMut(&What) -> bool + Send + 'static,
        act: impl FnOnce() + Send + 'static,
    ) {
        self.cues.lock().push(Cue { at: Box::new(at), act: Box::new(act) });
    }

    /// From here on nothing happens: no handler begins, and what is told is not noted.
    pub(crate) fn die(&self) {
        self.ledger.lock().dead = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.ledger.lock().dead
    }

    fn follow_cues(&self, what: &What) {
        let due: Vec<Cue> = self.cues.lock().extract_if(.., |cue| (cue.at)(what)).collect();
        due.into_iter().for_each(|cue| (cue.act)());
    }
}

impl Trace for Witness {
    fn saw(&self, partition: &TopicPartition, epoch: u64, event: TraceEvent<'_>) {
        let mut ledger = self.ledger.lock();
        if ledger.dead {
            drop(ledger);
            // A process that has died runs no handler; its tasks are about to be dropped.
            if matches!(event, TraceEvent::Began { .. }) && !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("the process has died"));
            }
            return;
        }
        let epoch = ledger.deaths << 32 | epoch;
        let Some(what) = ledger.follow(partition, epoch, event, || self.time.now()) else { return };
        ledger.steps.push(Step { partition: partition.clone(), epoch, what: what.clone() });
        drop(ledger);
        self.follow_cues(&what);
        self.changed.notify_one();
    }
}

impl Ledger {
    fn follow(
        &mut self,
        partition: &TopicPartition,
        epoch: u64,
        event: TraceEvent<'_>,
        now: impl Fn() -> Instant,
    ) -> Option<What> {
        let attempt = |offset| (partition.clone(), epoch, offset);
        match event {
            TraceEvent::Assigned { start } => {
                self.next.insert(partition.clone(), start);
                self.open.insert((partition.clone(), epoch));
            }
            TraceEvent::Received { offset } => {
                self.next.insert(partition.clone(), offset + 1);
            }
            TraceEvent::Began { offset, attempt: number, deadline } => {
                self.begun += 1;
                let running = Running { since: now(), attempt: number, deadline };
                self.running.insert(attempt(offset), running);
            }
            TraceEvent::Ended { offset, .. } => {
                self.running.remove(&attempt(offset));
            }
            TraceEvent::Closed => {
                self.open.remove(&(partition.clone(), epoch));
            }
            _ => {}
        }
        What::of(event)
    }

    /// What ran in a process that died does not run any more; another one may begin.
    pub(crate) fn bury(&mut self) {
        for ((partition, epoch, offset), _) in std::mem::take(&mut self.running) {
            let what = What::Ended { offset, outcome: Outcome::Abandoned };
            self.steps.push(Step { partition, epoch, what });
        }
        for (partition, epoch) in std::mem::take(&mut self.open) {
            self.steps.push(Step { partition, epoch, what: What::Closed });
        }
        self.deaths += 1;
        self.dead = false;
    }
}
