//! Replays what happened against the contract, with models so plain that they are right at a glance.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kpipe_core::source::Outcome;
use kpipe_core::{NullKeys, Ordering};

use super::plan::Plain;
use crate::witness::What;

/// Something that happened, in the one order in which everything did.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A record was written.
    Written {
        partition: i32,
        offset: i64,
        key: Option<u64>,
    },
    /// Everything below is gone.
    Truncated {
        partition: i32,
        before: i64,
    },
    Step {
        member: usize,
        partition: i32,
        epoch: u64,
        what: What,
    },
    /// A handler has come to its good end, which is all that finishes a record.
    Handled {
        member: usize,
        partition: i32,
        offset: i64,
    },
    /// A commit reached the coordinator.
    Asked {
        member: usize,
        partition: i32,
        next: i64,
    },
    /// And was taken.
    Committed {
        partition: i32,
        next: i64,
    },
    /// The process is gone; whatever ran in it does not run any more.
    Died {
        member: usize,
    },
}

/// What does not hold, and of which promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) promise: &'static str,
    pub(super) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.text)
    }
}

type Checked = Result<(), Violation>;

macro_rules! hold {
    ($promise:literal, $holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(Violation { promise: $promise, text: format!($($text)+) });
        }
    };
}

/// Follows the events and keeps what the promises are about.
#[derive(Debug)]
pub(super) struct Checker {
    settings: Plain,
    logs: BTreeMap<i32, Log>,
    epochs: BTreeMap<(usize, i32, u64), Epoch>,
    members: BTreeMap<usize, Member>,
}

/// A partition's records as they were written, and how far they got.
#[derive(Debug, Default)]
pub(super) struct Log {
    keys: BTreeMap<i64, Option<u64>>,
    finished: BTreeSet<i64>,
    first: i64,
    pub(super) committed: Option<i64>,
}

/// One assignment of a partition.
#[derive(Debug)]
struct Epoch {
    /// The offset that is expected next.
    next: i64,
    unfinished: BTreeSet<i64>,
    begun: BTreeSet<i64>,
    running: BTreeSet<i64>,
    held: BTreeSet<i64>,
    /// The last offset begun in each scope.
    last: BTreeMap<Scope, i64>,
    closed: bool,
}

/// One consumer, from its start to its end.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) counts: Counts,
    running: BTreeMap<Scope, i64>,
    /// Records whose handlers have ended well and of which the runtime has not told yet.
    handled: BTreeSet<(i32, i64)>,
    attempts: u64,
    in_hand: u64,
    dead: bool,
}

/// What a consumer's own statistics must say at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) received: u64,
    pub(super) passed: u64,
    pub(super) dropped: u64,
    pub(super) duplicates: u64,
}

/// Within which at most one attempt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Key(i32, Option<u64>),
    Partition(i32),
    Consumer,
}

impl Checker {
    pub(super) fn new(settings: Plain) -> Self {
        Self { settings, logs: BTreeMap::new(), epochs: BTreeMap::new(), members: BTreeMap::new() }
    }

    /// Takes the next event.
    pub(super) fn follow(&mut self, event: &Event) -> Checked {
        match event {
            Event::Written { partition, offset, key } => {
                self.logs.entry(*partition).or_default().keys.insert(*offset, *key);
                Ok(())
            }
            Event::Truncated { partition, before } => {
                let log = self.logs.entry(*partition).or_default();
                log.first = log.first.max(*before);
                Ok(())
            }
            Event::Handled { member, partition, offset } => {
                let member = self.members.entry(*member).or_default();
                member.handled.insert((*partition, *offset));
                Ok(())
            }
            Event::Asked { member, partition, next } => self.asked(*member, *partition, *next),
            Event::Committed { partition, next } => self.committed(*partition, *next),
            Event::Step { member, partition, epoch, what } => {
                self.step(*member, *partition, *epoch, what)
            }
            Event::Died { member } => {
                let member = self.members.entry(*member).or_default();
                member.dead = true;
                member.running.clear();
                Ok(())
            }
        }
    }

    fn step(&mut self, member: usize, partition: i32, epoch: u64, what: &What) -> Checked {
        if let What::Assigned { start } = what {
            return self.assigned(member, partition, epoch, *start);
        }
        let id = (member, partition, epoch);
        let known = self.epochs.contains_key(&id);
        hold!(
            "G7",
            known,
            "member {member} works in epoch {epoch} of {partition}, which never began"
        );
        match what {
            What::Received { offset } => self.received(id, *offset),
            What::Duplicate { offset } => self.duplicate(id, *offset),
            What::Began { offset } => self.began(id, *offset),
            What::Ended { offset, outcome } => self.ended(id, *offset, *outcome),
            What::GivenUp { offset } => self.given_up(id, *offset),
            What::Closed => self.closed(id),
            What::Failed { .. } | What::Assigned { .. } => Ok(()),
        }
    }

    fn assigned(&mut self, member: usize, partition: i32, epoch: u64, start: i64) -> Checked {
        let mut open = self.epochs.range((member, partition, 0)..=(member, partition, u64::MAX));
        let before = open.find(|(_, epoch)| !epoch.closed);
        hold!("G7", before.is_none(), "two epochs of {partition} are open at member {member}");
        let log = self.logs.entry(partition).or_default();
        let lost = start > log.committed.unwrap_or(0).max(log.first);
        hold!(
            "G1",
            !lost,
            "{partition} starts at {start}, past {} committed and the log's start {}",
            shown(log.committed),
            log.first
        );
        let epoch_state = Epoch {
            next: start,
            unfinished: BTreeSet::new(),
            begun: BTreeSet::new(),
            running: BTreeSet::new(),
            held: BTreeSet::new(),
            last: BTreeMap::new(),
            closed: false,
        };
        self.epochs.insert((member, partition, epoch), epoch_state);
        Ok(())
    }

    fn received(&mut self, id: (usize, i32, u64), offset: i64) -> Checked {
        let (member, epoch) = self.of(id);
        hold!("G7", !epoch.closed, "{offset} of {} is received in an epoch that is over", id.1);
        member.counts.received += 1;
        member.in_hand += 1;
        // One below what is expected is a duplicate, as the next step must say.
        if offset >= epoch.next {
            epoch.next = offset + 1;
            epoch.unfinished.insert(offset);
        }
        let (in_hand, most) = (member.in_hand, self.settings.max_held);
        hold!("G4", in_hand <= most, "{in_hand} records are held, and {most} may be");
        let log = &self.logs[&id.1];
        hold!("G1", log.keys.contains_key(&offset), "{offset} of {} was never written", id.1);
        Ok(())
    }

    fn duplicate(&mut self, id: (usize, i32, u64), offset: i64) -> Checked {
        let (member, epoch) = self.of(id);
        member.counts.duplicates += 1;
        member.in_hand -= 1;
        hold!("G8", offset < epoch.next, "{offset} of {} is called a duplicate", id.1);
        Ok(())
    }

    fn began(&mut self, id: (usize, i32, u64), offset: i64) -> Checked {
        let key = self.logs[&id.1].keys[&offset];
        let (scope, most) = (self.settings.scope(id.1, key), self.settings.max_in_flight);
        let (member, epoch) = self.of(id);
        hold!("G7", !member.dead, "a dead member begins {offset} of {}", id.1);
        hold!("G1", epoch.unfinished.contains(&offset), "{offset} of {} begins unasked", id.1);
        hold!("G8", epoch.begun.insert(offset), "{offset} of {} begins twice in its epoch", id.1);
        epoch.running.insert(offset);
        member.attempts += 1;
        hold!("G4", member.attempts <= most, "{} attempts run, and {most} may", member.attempts);
        if let Some(scope) = scope {
            let other = member.running.insert(scope, offset);
            hold!(
                "G2",
                other.is_none(),
                "{offset} of {} runs beside {} of its order",
                id.1,
                shown(other)
            );
            let last = epoch.last.insert(scope, offset).filter(|_| scope != Scope::Consumer);
            hold!(
                "G2",
                last < Some(offset),
                "{offset} of {} begins after {} of its order",
                id.1,
                shown(last)
            );
        }
        Ok(())
    }

    fn ended(&mut self, id: (usize, i32, u64), offset: i64, outcome: Outcome) -> Checked {
        let key = self.logs[&id.1].keys[&offset];
        let scope = self.settings.scope(id.1, key);
        let (member, epoch) = self.of(id);
        hold!("G8", epoch.running.remove(&offset), "{offset} of {} ends and does not run", id.1);
        member.attempts -= 1;
        let handled = member.handled.remove(&(id.1, offset));
        let passed = outcome == Outcome::Passed;
        hold!(
            "G1",
            handled || !passed,
            "{offset} of {} passes, and its handler has not ended",
            id.1
        );
        // What is held goes on to block its order.
        let closed = epoch.closed;
        if let Some(scope) = scope.filter(|_| outcome != Outcome::Held || closed) {
            member.running.remove(&scope);
        }
        match outcome {
            Outcome::Passed | Outcome::Dropped if !closed => {
                match outcome {
                    Outcome::Passed => member.counts.passed += 1,
                    _ => member.counts.dropped += 1,
                }
                member.in_hand -= 1;
                epoch.unfinished.remove(&offset);
                self.logs.entry(id.1).or_default().finished.insert(offset);
            }
            Outcome::Held if !closed => {
                epoch.held.insert(offset);
            }
            _ => member.in_hand -= 1,
        }
        Ok(())
    }

    fn given_up(&mut self, id: (usize, i32, u64), offset: i64) -> Checked {
        let (member, epoch) = self.of(id);
        member.in_hand -= 1;
        hold!("G8", !epoch.begun.contains(&offset), "{offset} of {} began and is given up", id.1);
        Ok(())
    }

    fn closed(&mut self, id: (usize, i32, u64)) -> Checked {
        let held: Vec<i64> = self.of(id).1.held.iter().copied().collect();
        for offset in held {
            let key = self.logs[&id.1].keys[&offset];
            let scope = self.settings.scope(id.1, key);
            let (member, _) = self.of(id);
            member.in_hand -= 1;
            scope.map(|scope| member.running.remove(&scope));
        }
        let (_, epoch) = self.of(id);
        hold!("G7", !epoch.closed, "an epoch of {} closes twice", id.1);
        epoch.closed = true;
        Ok(())
    }

    /// A commit says what its epoch has finished without a gap, and nothing else.
    fn asked(&mut self, member: usize, partition: i32, next: i64) -> Checked {
        let of_member = (member, partition, 0)..=(member, partition, u64::MAX);
        let Some((_, epoch)) = self.epochs.range(of_member).next_back() else {
            hold!("G7", false, "member {member} commits {partition}, which it never had");
            return Ok(());
        };
        let frontier = epoch.unfinished.first().copied().unwrap_or(epoch.next);
        hold!(
            "G1",
            next <= frontier,
            "{next} of {partition} is committed, and {frontier} is unfinished"
        );
        Ok(())
    }

    fn committed(&mut self, partition: i32, next: i64) -> Checked {
        let log = self.logs.entry(partition).or_default();
        let from = log.committed.unwrap_or(0).max(log.first);
        let mut skipped = log.keys.range(from.min(next)..next).map(|(offset, _)| *offset);
        let lost = skipped.find(|offset| !log.finished.contains(offset));
        hold!(
            "G1",
            lost.is_none(),
            "{next} of {partition} is committed, and {} was never finished",
            shown(lost)
        );
        hold!(
            "G7",
            log.committed.is_none_or(|before| before <= next),
            "the committed offset of {partition} goes back from {} to {next}",
            shown(log.committed)
        );
        log.committed = Some(next);
        Ok(())
    }

    fn of(&mut self, id: (usize, i32, u64)) -> (&mut Member, &mut Epoch) {
        let epoch = self.epochs.get_mut(&id).expect("looked up before");
        (self.members.entry(id.0).or_default(), epoch)
    }
}

/// At the end.
impl Checker {
    /// Everything that the log still holds is finished and committed (G1, G11).
    pub(super) fn settled(&self) -> Checked {
        for (partition, log) in &self.logs {
            let mut kept = log.keys.range(log.first..).map(|(offset, _)| *offset);
            let left = kept.clone().find(|offset| !log.finished.contains(offset));
            hold!(
                "G11",
                left.is_none(),
                "{} of {partition} is not finished, long after the last fault",
                shown(left)
            );
            let Some(last) = kept.next_back() else { continue };
            let behind = log.committed.is_none_or(|committed| committed <= last);
            hold!(
                "G11",
                !behind,
                "{partition} is committed up to {}, and {last} is done",
                shown(log.committed)
            );
        }
        Ok(())
    }

    /// What a member's own statistics must say.
    pub(super) fn counts(&self, member: usize) -> Counts {
        self.members.get(&member).map(|member| member.counts).unwrap_or_default()
    }

    /// At its end a member holds nothing.
    pub(super) fn gone(&self, member: usize) -> Checked {
        let Some(state) = self.members.get(&member) else { return Ok(()) };
        hold!("G8", state.attempts == 0, "member {member} ended with {} attempts", state.attempts);
        hold!(
            "G8",
            state.in_hand == 0,
            "member {member} ended with {} records in hand",
            state.in_hand
        );
        Ok(())
    }
}

impl Plain {
    fn scope(&self, partition: i32, key: Option<u64>) -> Option<Scope> {
        match (self.ordering, key) {
            (Ordering::Parallel, _) => None,
            (Ordering::Partition, _) => Some(Scope::Partition(partition)),
            (Ordering::Sequential, _) => Some(Scope::Consumer),
            (_, None) if self.null_keys == NullKeys::Unordered => None,
            (_, key) => Some(Scope::Key(partition, key)),
        }
    }
}

fn shown(offset: Option<i64>) -> String {
    offset.map_or_else(|| "nothing".to_owned(), |offset| offset.to_string())
}
