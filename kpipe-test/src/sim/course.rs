//! Everything that happens in a schedule, in one order: what the runtimes do and what the broker sees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kpipe_core::TopicPartition;
use kpipe_core::source::{Trace, TraceEvent};
use parking_lot::Mutex;

use super::check::Event;
use crate::broker::{Broker, Seen, What as Heard};
use crate::witness::What;

/// The course of one schedule.
pub(super) struct Course {
    broker: Broker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// Which member goes by which name.
    names: BTreeMap<String, usize>,
    keys: BTreeMap<(i32, i64), Option<u64>>,
}

impl Course {
    pub(super) fn new(broker: Broker) -> Self {
        Self { broker, state: Mutex::default() }
    }

    pub(super) fn join(&self, name: &str, member: usize) {
        self.state.lock().names.insert(name.to_owned(), member);
    }

    /// A record that the broker has just written has this key.
    pub(super) fn wrote(&self, partition: i32, offset: i64, key: Option<u64>) {
        self.state.lock().keys.insert((partition, offset), key);
    }

    pub(super) fn happened(&self, event: Event) {
        let mut state = self.state.lock();
        state.catch_up(&self.broker);
        state.events.push(event);
    }

    /// Takes what happened so far.
    pub(super) fn take(&self) -> Vec<Event> {
        let mut state = self.state.lock();
        state.catch_up(&self.broker);
        std::mem::take(&mut state.events)
    }
}

impl State {
    /// What the broker saw since happened before whatever comes next.
    fn catch_up(&mut self, broker: &Broker) {
        for Seen { what, .. } in broker.take_history() {
            self.events.extend(self.event(what));
        }
    }

    fn event(&self, what: Heard) -> Option<Event> {
        Some(match what {
            Heard::Written { partition, offset } => {
                let key = self.keys.get(&(partition.partition, offset)).copied().flatten();
                Event::Written { partition: partition.partition, offset, key }
            }
            Heard::Truncated { partition, start } => {
                Event::Truncated { partition: partition.partition, before: start }
            }
            Heard::CommitAsked { member, partition, next, .. } => {
                let member = self.names[&*member];
                Event::Asked { member, partition: partition.partition, next }
            }
            Heard::Committed { partition, next, .. } => {
                Event::Committed { partition: partition.partition, next }
            }
            _ => return None,
        })
    }
}

/// What one member does.
pub(super) struct Tracer {
    course: Arc<Course>,
    member: usize,
    dead: AtomicBool,
}

impl Tracer {
    pub(super) fn new(course: Arc<Course>, member: usize) -> Self {
        Self { course, member, dead: AtomicBool::new(false) }
    }

    /// The member's process dies: nothing that it does from here on has happened.
    pub(super) fn die(&self) {
        self.dead.store(true, Relaxed);
        self.course.happened(Event::Died { member: self.member });
    }
}

impl Trace for Tracer {
    fn saw(&self, partition: &TopicPartition, epoch: u64, event: TraceEvent<'_>) {
        if self.dead.load(Relaxed) {
            if matches!(event, TraceEvent::Began { .. }) && !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("the process has died"));
            }
            return;
        }
        if let Some(what) = What::of(event) {
            let (member, partition) = (self.member, partition.partition);
            self.course.happened(Event::Step { member, partition, epoch, what });
        }
    }
}
