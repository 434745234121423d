//! One assignment epoch of one partition: frontier, lanes and counts under one lock, so that a
//! completion and the start of its successor are one step.
//!
//! A revoked partition's epoch ends with [`Partition::close`]. What its stragglers still report
//! moves nothing from then on (G7); if the partition comes back, it does so as another `Partition`.

mod ages;
mod counts;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use self::ages::Ages;
pub(crate) use self::counts::Counts;
use crate::failure::Failed;
use crate::frontier::{Frontier, Seq};
use crate::lanes::{LaneKey, Lanes};
use crate::sync::{Arc, Mutex};
use crate::wake::{Reasons, Signal};

/// One epoch; `T` is what waits in its lanes, a record.
#[derive(Debug)]
pub(crate) struct Partition<T> {
    state: Mutex<State<T>>,
    /// How many finished records may lie beyond the frontier before draining stops.
    window: u64,
    /// Wakes the intake.
    intake: Arc<Signal>,
    /// Wakes the control loop when the last attempt of a drain has ended.
    control: Arc<Signal>,
}

#[derive(Debug)]
struct State<T> {
    phase: Phase,
    frontier: Frontier,
    lanes: Lanes<Runnable<T>>,
    /// Successors whose slot went to another partition: their lanes are busy with them, and the
    /// intake starts them once it has a slot.
    ready: VecDeque<Runnable<T>>,
    counts: Counts,
    ages: Ages,
    /// Records that run or are about to: admitted, not parked, not ended.
    active: u64,
    /// Failed records that stay.
    held: u64,
    /// The lowest of them, which the frontier cannot pass.
    first_held: Option<HeldRecord>,
    /// What the broker acknowledged last.
    committed: Option<i64>,
    /// The intake stopped at the window's limit and is to be woken when the frontier moves.
    window_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Nothing new starts; what runs may end and counts.
    Draining,
    /// Nothing counts.
    Closed,
}

/// A record that nothing stands before in its order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Runnable<T> {
    pub(crate) seq: Seq,
    pub(crate) lane: Option<LaneKey>,
    pub(crate) item: T,
}

/// Whether an intake may take more from the partition's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    Yes,
    /// Too many finished records lie beyond the frontier; [`Reasons::ROOM`] follows.
    WindowFull,
    Stopped,
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted<T> {
    /// How many wait behind their key.
    pub(crate) parked: u64,
    /// Those below the next expected offset: counted, and not to be run.
    pub(crate) duplicates: Vec<T>,
    /// The partition takes nothing more; nothing was registered.
    pub(crate) stopped: bool,
}

/// What became of a record that wanted to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim<T> {
    Run(Runnable<T>),
    Parked,
    /// The partition drains; the record is abandoned.
    Stopped(T),
}

/// How an attempt ended for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Passed,
    Dropped,
    /// Failed, and stays: the frontier and the record's lane wait (see `OnFailure::Hold`).
    Held(Box<Failed>),
    /// Cut short by a revoke or a shutdown, or its task was dropped: never an acknowledgement.
    Abandoned,
}

/// What follows from the end of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished<T> {
    /// The successor in its lane, running from this instant.
    pub(crate) next: Option<Runnable<T>>,
    /// The record stays: what it takes of the budget is given back when the epoch closes. One that
    /// fails after that does not stay, because nobody would give it back.
    pub(crate) stays: bool,
}

/// A failed record that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldRecord {
    pub(crate) offset: i64,
    pub(crate) failed: Box<Failed>,
}

/// What an epoch leaves behind when it closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// The next offset to commit, unless the broker has it already.
    pub(crate) to_commit: Option<i64>,
    /// Failed records that stayed, whose budget is to be given back.
    pub(crate) held: u64,
}

/// What an epoch looks like at one instant.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) counts: Counts,
    /// The next offset to commit.
    pub(crate) frontier: i64,
    pub(crate) committed: Option<i64>,
    pub(crate) active: u64,
    pub(crate) waiting: u64,
    pub(crate) held: u64,
    pub(crate) first_held: Option<HeldRecord>,
    pub(crate) finished_beyond: u64,
    /// Draining stopped at the window's limit, until the frontier moves.
    pub(crate) window_full: bool,
    /// Since when the oldest unfinished record is in hand.
    pub(crate) oldest: Option<Duration>,
}

impl<T> Partition<T> {
    /// Starts an epoch at `start`. `committed` is what the group has on record, if it has.
    pub(crate) fn new(
        start: i64,
        committed: Option<i64>,
        window: u64,
        intake: Arc<Signal>,
        control: Arc<Signal>,
    ) -> Self {
        let state = State {
            phase: Phase::Running,
            frontier: Frontier::new(start),
            lanes: Lanes::new(),
            ready: VecDeque::new(),
            counts: Counts::default(),
            ages: Ages::default(),
            active: 0,
            held: 0,
            first_held: None,
            committed,
            window_full: false,
        };
        Self { state: Mutex::new(state), window, intake, control }
    }

    /// Whether the intake may take more.
    pub(crate) fn draw(&self) -> Draw {
        let mut state = self.state.lock();
        if state.phase != Phase::Running {
            Draw::Stopped
        } else if state.frontier.finished_beyond() >= self.window {
            state.window_full = true;
            Draw::WindowFull
        } else {
            Draw::Yes
        }
    }

    /// Registers a batch with the frontier before anything else can see its records, parks those
    /// whose lane is busy and gives back the others in order.
    ///
    /// Two records of one key may both come back: lanes are made for what does not finish at once,
    /// so the intake claims the later one before it runs. It begins all of them before it admits
    /// more: a record of the next batch could park in front of one that has yet to be claimed.
    pub(crate) fn admit(
        &self,
        batch: impl IntoIterator<Item = (i64, Option<LaneKey>, T)>,
        now: Duration,
        runnable: &mut VecDeque<Runnable<T>>,
    ) -> Admitted<T> {
        debug_assert!(runnable.is_empty(), "the batch before has not all begun");
        let mut guard = self.state.lock();
        let stopped = guard.phase != Phase::Running;
        let mut admitted = Admitted { parked: 0, duplicates: Vec::new(), stopped };
        if stopped {
            return admitted;
        }
        let state = &mut *guard;
        let mut first = None;
        for (offset, lane, item) in batch {
            state.counts.received += 1;
            let Some(seq) = state.frontier.register(offset) else {
                admitted.duplicates.push(item);
                continue;
            };
            first.get_or_insert(seq);
            let record = Runnable { seq, lane, item };
            match state.park(record) {
                None => admitted.parked += 1,
                Some(record) => runnable.push_back(record),
            }
        }
        state.counts.duplicates += admitted.duplicates.len() as u64;
        state.active += runnable.len() as u64;
        if let Some(first) = first {
            let oldest = state.frontier.oldest_unfinished().map(|(seq, _)| seq);
            state.ages.note(first, now, oldest);
        }
        admitted
    }

    /// Asks, for a record given back by [`admit`](Self::admit), whether its lane is still idle.
    /// `hold` makes the lane busy with it, for a record that starts out as a task.
    pub(crate) fn claim(&self, record: Runnable<T>, hold: bool) -> Claim<T> {
        let mut state = self.state.lock();
        if state.phase != Phase::Running {
            state.active -= 1;
            self.tell_if_drained(&state);
            return Claim::Stopped(record.item);
        }
        match state.park(record) {
            None => {
                state.active -= 1;
                Claim::Parked
            }
            Some(record) => {
                if let (true, Some(lane)) = (hold, record.lane) {
                    state.lanes.hold(lane);
                }
                Claim::Run(record)
            }
        }
    }

    /// Makes a lane busy with a record that did not finish at its first poll.
    pub(crate) fn hold(&self, lane: LaneKey) {
        self.state.lock().lanes.hold(lane);
    }

    /// Ends a record. Where its lane has a successor, that one is running from this instant and is
    /// given back to be run.
    pub(crate) fn finish(&self, seq: Seq, lane: Option<LaneKey>, end: End) -> Finished<T> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.active -= 1;
        let mut next = None;
        let stays = state.phase != Phase::Closed && matches!(end, End::Held(_));
        if state.phase != Phase::Closed {
            let moved = state.end(seq, &end);
            // The lane of a record that stays is held on; whoever reports an abandoned one is in no
            // position to run a successor.
            if matches!(end, End::Passed | End::Dropped) {
                next = lane.and_then(|lane| state.lanes.finish(lane));
            }
            state.active += u64::from(next.is_some());
            self.after_move(state, moved);
        }
        self.tell_if_drained(state);
        Finished { next, stays }
    }

    /// Leaves a successor, given back by [`finish`](Self::finish), to the intake. Gives it back if the
    /// partition drains: it is abandoned.
    pub(crate) fn wait_for_slot(&self, record: Runnable<T>) -> Option<T> {
        let mut state = self.state.lock();
        if state.phase != Phase::Running {
            state.active -= 1;
            self.tell_if_drained(&state);
            return Some(record.item);
        }
        state.ready.push_back(record);
        drop(state);
        self.intake.raise(Reasons::ROOM);
        None
    }

    /// Whether a successor waits for the intake to start it.
    pub(crate) fn has_ready(&self) -> bool {
        !self.state.lock().ready.is_empty()
    }

    /// The next successor to start; its lane is busy with it.
    pub(crate) fn take_ready(&self) -> Option<Runnable<T>> {
        self.state.lock().ready.pop_front()
    }

    /// Ends `count` records in a row that passed at their first poll, under one lock.
    pub(crate) fn finish_run(&self, first: Seq, count: u64) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.active -= count;
        if state.phase != Phase::Closed {
            let moved = state.frontier.complete_run(first, count);
            state.counts.passed += count;
            self.after_move(state, moved);
        }
        self.tell_if_drained(state);
    }

    /// Gives up records that were given back by [`admit`](Self::admit) and never ran.
    pub(crate) fn abandon(&self, count: u64) {
        let mut state = self.state.lock();
        state.active -= count;
        self.tell_if_drained(&state);
    }

    /// Stops intake and gives up what waits; what runs may end. Returns what waited, so that it is
    /// dropped outside the lock and its budget given back.
    pub(crate) fn begin_drain(&self) -> Vec<Runnable<T>> {
        let waiting = {
            let mut state = self.state.lock();
            if state.phase == Phase::Running {
                state.phase = Phase::Draining;
            }
            let ready = std::mem::take(&mut state.ready);
            state.active -= ready.len() as u64;
            self.tell_if_drained(&state);
            ready.into_iter().chain(state.lanes.drain()).collect()
        };
        self.intake.raise(Reasons::STOP);
        waiting
    }

    /// Whether nothing runs any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().active == 0
    }

    /// Ends the epoch: counts whatever is unfinished as abandoned. From this instant on nothing
    /// counts and nothing moves.
    pub(crate) fn close(&self) -> Closing {
        let mut state = self.state.lock();
        let closing =
            Closing { to_commit: state.to_commit(), held: std::mem::take(&mut state.held) };
        if state.phase != Phase::Closed {
            state.phase = Phase::Closed;
            state.counts.abandoned += state.frontier.unfinished();
        }
        closing
    }

    /// The next offset to commit, unless the broker has it already.
    pub(crate) fn to_commit(&self) -> Option<i64> {
        self.state.lock().to_commit()
    }

    /// The broker acknowledged a commit of `next`. What finished since then keeps the partition
    /// dirty.
    pub(crate) fn acknowledged(&self, next: i64) {
        let mut state = self.state.lock();
        state.committed = state.committed.max(Some(next));
    }

    /// Everything there is to see.
    pub(crate) fn view(&self) -> View {
        let state = self.state.lock();
        let oldest = state.frontier.oldest_unfinished();
        View {
            counts: state.counts,
            frontier: state.frontier.next_offset(),
            committed: state.committed,
            active: state.active,
            waiting: state.lanes.waiting() as u64,
            held: state.held,
            first_held: state.first_held.clone(),
            finished_beyond: state.frontier.finished_beyond(),
            window_full: state.window_full,
            oldest: oldest.and_then(|(seq, _)| state.ages.of(seq)),
        }
    }

    fn after_move(&self, state: &mut State<T>, moved: bool) {
        if moved && state.window_full && state.frontier.finished_beyond() < self.window {
            state.window_full = false;
            self.intake.raise(Reasons::ROOM);
        }
    }

    fn tell_if_drained(&self, state: &State<T>) {
        if state.active == 0 && state.phase != Phase::Running {
            self.control.raise(Reasons::DRAINED);
        }
    }
}

impl<T> State<T> {
    /// Puts a record behind its busy lane, or gives it back.
    fn park(&mut self, record: Runnable<T>) -> Option<Runnable<T>> {
        match record.lane {
            None => Some(record),
            Some(lane) => self.lanes.park(lane, record).err(),
        }
    }

    /// Counts an end; returns whether the frontier moved.
    fn end(&mut self, seq: Seq, end: &End) -> bool {
        match end {
            End::Passed => self.counts.passed += 1,
            End::Dropped => self.counts.dropped += 1,
            End::Held(failed) => {
                self.held += 1;
                if let Some(offset) = self.frontier.offset_of(seq)
                    && self.first_held.as_ref().is_none_or(|first| offset < first.offset)
                {
                    self.first_held = Some(HeldRecord { offset, failed: failed.clone() });
                }
                return false;
            }
            // Counted with everything else that is unfinished when the epoch closes.
            End::Abandoned => return false,
        }
        self.frontier.complete(seq)
    }

    fn to_commit(&self) -> Option<i64> {
        let next = self.frontier.next_offset();
        (self.phase != Phase::Closed && self.committed != Some(next)).then_some(next)
    }
}
