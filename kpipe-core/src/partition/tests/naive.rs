use std::collections::HashMap;

use super::*;

/// A partition by its definition: a list of records, each with what became of it.
pub(super) struct Naive {
    start: i64,
    window: u64,
    phase: Phase,
    records: Vec<Entry>,
    duplicates: u64,
    /// Counted when the epoch closes.
    abandoned: u64,
    committed: Option<i64>,
    /// The running lanes, each with the records that wait in it.
    lanes: HashMap<LaneKey, VecDeque<usize>>,
    /// Successors that were left to the intake.
    ready: VecDeque<usize>,
    first_held: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Draining,
    Closed,
}

struct Entry {
    offset: i64,
    lane: Option<LaneKey>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Running or about to.
    Active,
    Waiting,
    Passed,
    Dropped,
    Held,
    /// Ended, and not finished.
    GivenUp,
}

impl Naive {
    pub(super) fn new(start: i64, committed: Option<i64>, window: u64) -> Self {
        Self {
            start,
            window,
            phase: Phase::Running,
            records: Vec::new(),
            duplicates: 0,
            abandoned: 0,
            committed,
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            first_held: None,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn next_expected(&self) -> i64 {
        self.records.last().map_or(self.start, |last| last.offset + 1)
    }

    /// Takes in one record of a batch: `None` for a duplicate, else whether it may run.
    pub(super) fn admit(&mut self, offset: i64, lane: Option<LaneKey>) -> Option<bool> {
        if offset < self.next_expected() {
            self.duplicates += 1;
            return None;
        }
        self.records.push(Entry { offset, lane, state: State::Active });
        Some(!self.park(self.records.len() - 1))
    }

    /// Puts a record behind its lane if that is running.
    fn park(&mut self, at: usize) -> bool {
        let lane = self.records[at].lane.and_then(|lane| self.lanes.get_mut(&lane));
        let Some(queue) = lane else { return false };
        queue.push_back(at);
        self.records[at].state = State::Waiting;
        true
    }

    /// `None` if it is given up, else whether it may run.
    pub(super) fn claim(&mut self, offset: i64) -> Option<bool> {
        let at = self.at(offset);
        if self.phase != Phase::Running {
            self.records[at].state = State::GivenUp;
            return None;
        }
        Some(!self.park(at))
    }

    pub(super) fn hold(&mut self, lane: LaneKey) {
        assert!(self.lanes.insert(lane, VecDeque::new()).is_none(), "two run in a lane");
    }

    /// The offset of the successor, and whether the record stays.
    pub(super) fn finish(
        &mut self,
        offset: i64,
        lane: Option<LaneKey>,
        end: &End,
    ) -> (Option<i64>, bool) {
        let at = self.at(offset);
        assert_eq!(self.records[at].state, State::Active);
        self.records[at].state = State::GivenUp;
        if self.phase == Phase::Closed {
            return (None, false);
        }
        self.records[at].state = match end {
            End::Passed => State::Passed,
            End::Dropped => State::Dropped,
            End::Held(_) => {
                let first = self.first_held.get_or_insert(offset);
                *first = offset.min(*first);
                State::Held
            }
            End::Abandoned => State::GivenUp,
        };
        if !self.records[at].is_finished() {
            return (None, self.records[at].state == State::Held);
        }
        let Some(lane) = lane else { return (None, false) };
        let next = self.lanes.get_mut(&lane).and_then(VecDeque::pop_front);
        match next {
            Some(next) => self.records[next].state = State::Active,
            None => drop(self.lanes.remove(&lane)),
        }
        (next.map(|next| self.records[next].offset), false)
    }

    /// Leaves a successor to the intake; false if it is given up.
    pub(super) fn leave(&mut self, offset: i64) -> bool {
        let at = self.at(offset);
        if self.phase != Phase::Running {
            self.records[at].state = State::GivenUp;
            return false;
        }
        self.ready.push_back(at);
        true
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn take_ready(&mut self) -> Option<i64> {
        self.ready.pop_front().map(|at| self.records[at].offset)
    }

    pub(super) fn abandon(&mut self, offset: i64) {
        let at = self.at(offset);
        self.records[at].state = State::GivenUp;
    }

    /// The offsets that waited.
    pub(super) fn begin_drain(&mut self) -> Vec<i64> {
        if self.phase == Phase::Running {
            self.phase = Phase::Draining;
        }
        let parked = self.lanes.values_mut().flat_map(|queue| queue.drain(..));
        let waiting: Vec<_> = parked.chain(self.ready.drain(..)).collect();
        for at in &waiting {
            self.records[*at].state = State::GivenUp;
        }
        waiting.into_iter().map(|at| self.records[at].offset).collect()
    }

    pub(super) fn close(&mut self) -> Closing {
        let closing = Closing { to_commit: self.to_commit(), held: self.held() };
        if self.phase != Phase::Closed {
            self.phase = Phase::Closed;
            self.abandoned = self.count(|entry| !entry.is_finished());
        }
        for entry in &mut self.records {
            if entry.state == State::Held {
                entry.state = State::GivenUp;
            }
        }
        closing
    }

    pub(super) fn acknowledged(&mut self, next: i64) {
        self.committed = self.committed.max(Some(next));
    }

    pub(super) fn draw(&self) -> Draw {
        match self.phase {
            Phase::Running if self.finished_beyond() >= self.window => Draw::WindowFull,
            Phase::Running => Draw::Yes,
            _ => Draw::Stopped,
        }
    }

    pub(super) fn to_commit(&self) -> Option<i64> {
        let next = self.frontier();
        (self.phase != Phase::Closed && self.committed != Some(next)).then_some(next)
    }

    pub(super) fn frontier(&self) -> i64 {
        match self.records.iter().find(|entry| !entry.is_finished()) {
            Some(first) => first.offset,
            None => self.next_expected(),
        }
    }

    pub(super) fn finished_beyond(&self) -> u64 {
        let first = self.records.iter().position(|entry| !entry.is_finished());
        let behind = self.records.iter().skip(first.unwrap_or(self.records.len()));
        behind.filter(|entry| entry.is_finished()).count() as u64
    }

    pub(super) fn active(&self) -> u64 {
        self.count(|entry| entry.state == State::Active)
    }

    pub(super) fn waiting(&self) -> u64 {
        self.count(|entry| entry.state == State::Waiting)
    }

    pub(super) fn held(&self) -> u64 {
        self.count(|entry| entry.state == State::Held)
    }

    pub(super) fn committed(&self) -> Option<i64> {
        self.committed
    }

    pub(super) fn first_held(&self) -> Option<i64> {
        self.first_held
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            received: self.records.len() as u64 + self.duplicates,
            passed: self.count(|entry| entry.state == State::Passed),
            dropped: self.count(|entry| entry.state == State::Dropped),
            abandoned: self.abandoned,
            duplicates: self.duplicates,
        }
    }

    fn count(&self, of: impl Fn(&Entry) -> bool) -> u64 {
        self.records.iter().filter(|entry| of(entry)).count() as u64
    }

    fn at(&self, offset: i64) -> usize {
        self.records.binary_search_by_key(&offset, |entry| entry.offset).expect("admitted")
    }
}

impl Entry {
    fn is_finished(&self) -> bool {
        matches!(self.state, State::Passed | State::Dropped)
    }
}
