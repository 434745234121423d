use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::naive::{Naive, Phase};
use super::*;
use crate::property::{cases, sequences};

#[derive(Clone, Debug)]
enum Op {
    /// A batch: for each record the gap before it, or how far it lies back, and its lane.
    Admit(Vec<(i64, Option<u64>)>),
    /// The intake begins its next record.
    Begin(Begin),
    /// A record task ends; whether its successor gets its slot.
    End(Index, End, bool),
    /// A successor without a slot is left to the intake.
    Leave,
    /// The intake starts a successor that was left to it.
    TakeReady,
    /// The intake begins this many records and all are ready at their first poll.
    PassRun(usize),
    /// The intake ends.
    GiveUp,
    Draw,
    BeginDrain,
    Close,
    /// The broker acknowledges what is due, or what was due a while ago.
    Acknowledge {
        back: i64,
    },
}

/// How a record of the intake fares.
#[derive(Clone, Debug)]
enum Begin {
    AsTask,
    /// Polled in the intake, it pends and becomes a task.
    Pends,
    /// Polled in the intake, it ends like this.
    Ends(End),
}

/// What goes on in an epoch.
#[derive(Clone, Copy)]
enum Mix {
    /// Everything at any time: an epoch of a few records.
    Eventful,
    /// Nothing that ends the epoch, and hardly anything that holds its frontier for good.
    Long,
}

fn end(mix: Mix) -> impl Strategy<Value = End> {
    let finished = match mix {
        Mix::Eventful => 1,
        Mix::Long => 100,
    };
    prop_oneof![
        8 * finished => Just(End::Passed),
        2 * finished => Just(End::Dropped),
        1 => Just(End::Held("refused".into())),
        1 => Just(End::Abandoned),
    ]
}

fn op(mix: Mix) -> BoxedStrategy<Op> {
    let gap = prop_oneof![8 => Just(0), 2 => 1..4_i64, 1 => Just(1_000_000_000), 1 => -3..0_i64];
    let lane = proptest::option::weighted(0.7, 0..3_u64);
    let at_once = match mix {
        Mix::Eventful => prop_oneof![Just(End::Dropped), Just(End::Held("refused".into()))].boxed(),
        Mix::Long => Just(End::Dropped).boxed(),
    };
    let begin = prop_oneof![
        4 => Just(Begin::AsTask),
        2 => Just(Begin::Pends),
        3 => at_once.prop_map(Begin::Ends),
    ];
    let goes_on = prop_oneof![
        25 => vec((gap, lane), 1..6).prop_map(Op::Admit),
        30 => begin.prop_map(Op::Begin),
        25 => (any::<Index>(), end(mix), proptest::bool::weighted(0.8))
            .prop_map(|(at, end, slot)| Op::End(at, end, slot)),
        8 => (1..5_usize).prop_map(Op::PassRun),
        8 => Just(Op::Leave),
        6 => Just(Op::TakeReady),
        3 => Just(Op::Draw),
        4 => (0..3_i64).prop_map(|back| Op::Acknowledge { back }),
    ];
    match mix {
        Mix::Long => goes_on.boxed(),
        Mix::Eventful => prop_oneof![
            100 => goes_on,
            1 => Just(Op::GiveUp),
            1 => Just(Op::BeginDrain),
            1 => Just(Op::Close),
        ]
        .boxed(),
    }
}

/// The partition and its model under one shell.
struct Run {
    epoch: Epoch,
    naive: Naive,
    runnable: VecDeque<Runnable<i64>>,
    tasks: Vec<Runnable<i64>>,
    /// Successors whose slot went to another partition, before their intake has them.
    slotless: Vec<Runnable<i64>>,
    /// The last offset that ran in each lane (G2).
    last: HashMap<LaneKey, i64>,
    window_full: bool,
    /// A successor was left to the intake, which is to be told.
    left: bool,
    now: u64,
}

impl Run {
    fn new(start: i64, committed: Option<i64>, window: u64) -> Self {
        Self {
            epoch: Epoch::new(start, committed, window),
            naive: Naive::new(start, committed, window),
            runnable: VecDeque::new(),
            tasks: Vec::new(),
            slotless: Vec::new(),
            last: HashMap::new(),
            window_full: false,
            left: false,
            now: 0,
        }
    }

    fn step(&mut self, op: &Op) {
        let active = self.naive.active();
        match op {
            Op::Admit(batch) => self.admit(batch),
            Op::Begin(begin) => self.begin(begin),
            Op::End(at, end, slot) => {
                if !self.tasks.is_empty() {
                    let record = self.tasks.swap_remove(at.index(self.tasks.len()));
                    self.finish(record, end, *slot);
                }
            }
            Op::Leave => self.leave(),
            Op::TakeReady => self.take_ready(),
            Op::PassRun(count) => self.pass_run(*count),
            Op::GiveUp => self.give_up(),
            Op::Draw => {
                let draw = self.naive.draw();
                assert_eq!(self.epoch.partition.draw(), draw);
                self.window_full |= draw == Draw::WindowFull;
            }
            Op::BeginDrain => {
                let waiting = self.epoch.partition.begin_drain();
                let mut waiting: Vec<_> = waiting.iter().map(|record| record.item).collect();
                let mut expected = self.naive.begin_drain();
                waiting.sort_unstable();
                expected.sort_unstable();
                assert_eq!(waiting, expected);
                assert!(raised(&self.epoch.intake).contains(Reasons::STOP));
            }
            Op::Close => assert_eq!(self.epoch.partition.close(), self.naive.close()),
            Op::Acknowledge { back } => {
                let next = self.naive.frontier() - back;
                self.epoch.partition.acknowledged(next);
                self.naive.acknowledged(next);
            }
        }
        self.check_signals(active);
        self.compare();
    }

    fn admit(&mut self, batch: &[(i64, Option<u64>)]) {
        if !self.runnable.is_empty() {
            return;
        }
        self.now += 3;
        let stopped = self.naive.phase() != Phase::Running;
        let mut next = self.naive.next_expected();
        let batch: Vec<_> = batch
            .iter()
            .map(|(gap, number)| {
                let offset = next + gap;
                next = next.max(offset + 1);
                (offset, number.map(lane))
            })
            .collect();
        let (admitted, runnable) = self.epoch.admit_at(self.now, &batch);
        let (mut parked, mut duplicates, mut expected) = (0, Vec::new(), Vec::new());
        for (offset, lane) in batch.into_iter().filter(|_| !stopped) {
            match self.naive.admit(offset, lane) {
                None => duplicates.push(offset),
                Some(true) => expected.push((offset, lane)),
                Some(false) => parked += 1,
            }
        }
        assert_eq!(admitted, Admitted { parked, duplicates, stopped });
        let got: Vec<_> = runnable.iter().map(|record| (record.item, record.lane)).collect();
        assert_eq!(got, expected);
        self.runnable.extend(runnable);
    }

    /// Claims the intake's next record, as a task or to poll it; `None` if it may not run.
    fn claim(&mut self, hold: bool) -> Option<Runnable<i64>> {
        let record = self.runnable.pop_front()?;
        let (offset, lane) = (record.item, record.lane);
        match (self.epoch.partition.claim(record, hold), self.naive.claim(offset)) {
            (Claim::Run(record), Some(true)) => {
                if let Some(lane) = lane.filter(|_| hold) {
                    self.naive.hold(lane);
                }
                self.note_order(&record);
                Some(record)
            }
            (Claim::Parked, Some(false)) => None,
            (Claim::Stopped(item), None) => {
                assert_eq!(item, offset);
                None
            }
            (claim, expected) => panic!("{claim:?} for {expected:?}"),
        }
    }

    fn begin(&mut self, begin: &Begin) {
        let hold = matches!(begin, Begin::AsTask);
        let Some(mut record) = self.claim(hold) else { return };
        let keeps_its_lane = matches!(begin, Begin::Pends | Begin::Ends(End::Held(_)));
        if let Some(lane) = record.lane.filter(|_| keeps_its_lane) {
            self.epoch.partition.hold(lane);
            self.naive.hold(lane);
        }
        match begin {
            Begin::AsTask | Begin::Pends => self.tasks.push(record),
            Begin::Ends(end) => {
                record.lane = None;
                self.finish(record, end, true);
            }
        }
    }

    fn finish(&mut self, record: Runnable<i64>, end: &End, slot: bool) {
        let finished = self.epoch.finish(&record, end.clone());
        let (next, stays) = self.naive.finish(record.item, record.lane, end);
        assert_eq!(finished.stays, stays);
        assert_eq!(finished.next.as_ref().map(|record| record.item), next);
        let Some(next) = finished.next else { return };
        if slot {
            self.note_order(&next);
            self.tasks.push(next);
        } else {
            self.slotless.push(next);
        }
    }

    fn leave(&mut self) {
        let Some(record) = self.slotless.pop() else { return };
        let offset = record.item;
        let given_up = self.epoch.partition.wait_for_slot(record);
        let left = self.naive.leave(offset);
        assert_eq!(given_up, (!left).then_some(offset));
        self.left = left;
    }

    fn take_ready(&mut self) {
        let record = self.epoch.partition.take_ready();
        assert_eq!(record.as_ref().map(|record| record.item), self.naive.take_ready());
        if let Some(record) = record {
            self.note_order(&record);
            self.tasks.push(record);
        }
    }

    fn pass_run(&mut self, most: usize) {
        let mut run: Vec<Runnable<i64>> = Vec::new();
        for _ in 0..most {
            let Some(record) = self.claim(false) else { break };
            // As the intake does: a run is of consecutive sequences.
            let follows = |last: &Runnable<i64>| last.seq.plus(1) == record.seq;
            if !run.last().is_none_or(follows) {
                self.report(&mut run);
            }
            run.push(record);
        }
        self.report(&mut run);
    }

    fn report(&mut self, run: &mut Vec<Runnable<i64>>) {
        let Some(first) = run.first() else { return };
        self.epoch.partition.finish_run(first.seq, run.len() as u64);
        for record in run.drain(..) {
            self.naive.finish(record.item, None, &End::Passed);
        }
    }

    fn give_up(&mut self) {
        self.epoch.partition.abandon(self.runnable.len() as u64);
        self.runnable.drain(..).for_each(|record| self.naive.abandon(record.item));
    }

    fn note_order(&mut self, record: &Runnable<i64>) {
        if let Some(lane) = record.lane {
            let beside = self.tasks.iter().any(|task| task.lane == Some(lane));
            assert!(!beside, "two of a lane at once");
            let before = self.last.insert(lane, record.item);
            assert!(before.is_none_or(|before| before < record.item), "out of order");
        }
    }

    /// The control loop is told of the end of a drain, the intake of a window that opens.
    fn check_signals(&mut self, active: u64) {
        let idle = self.naive.active() == 0 && self.naive.phase() != Phase::Running;
        let told = raised(&self.epoch.control).contains(Reasons::DRAINED);
        if active > 0 {
            assert_eq!(told, idle, "{active} before, {} now", self.naive.active());
        } else {
            assert!(!told || idle);
        }
        let opened = self.window_full && self.naive.draw() == Draw::Yes;
        let room = raised(&self.epoch.intake).contains(Reasons::ROOM);
        if self.naive.phase() == Phase::Running {
            assert_eq!(room, opened || self.left);
        }
        self.window_full &= !opened;
        self.left = false;
    }

    fn compare(&self) {
        let Self { epoch, naive, .. } = self;
        let view = epoch.partition.view();
        assert_eq!(view.counts, naive.counts());
        assert_eq!((view.frontier, view.committed), (naive.frontier(), naive.committed()));
        assert_eq!((view.active, view.waiting), (naive.active(), naive.waiting()));
        assert_eq!((view.held, view.finished_beyond), (naive.held(), naive.finished_beyond()));
        assert_eq!(view.first_held.map(|record| record.offset), naive.first_held());
        assert_eq!(view.oldest.is_some(), naive.frontier() < naive.next_expected());
        assert_eq!(epoch.partition.to_commit(), naive.to_commit());
        assert_eq!(epoch.partition.is_idle(), naive.active() == 0);
        assert_eq!(epoch.partition.has_ready(), naive.has_ready());
    }

    /// G8: everything that runs ends, the intake ends, the epoch closes: after that, or before.
    fn come_to_rest(&mut self, end: &Op, closes_first: bool) {
        self.step(&Op::BeginDrain);
        if closes_first {
            self.step(&Op::Close);
        }
        self.step(&Op::GiveUp);
        while !self.slotless.is_empty() {
            self.step(&Op::Leave);
        }
        while !self.tasks.is_empty() {
            self.step(end);
        }
        self.step(&Op::Close);
        assert!(self.epoch.partition.is_idle());
        assert_accounted(self.epoch.counts());
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever happens in whatever order, the partition answers as its definition does, keeps the
    /// order of each lane (G2), tells whoever waits, and accounts for every record (G8).
    #[test]
    fn agrees_with_the_model(
        start in 0..100_i64,
        fresh in any::<bool>(),
        window in prop_oneof![1..6_u64, Just(1_000)],
        ops in prop_oneof![vec(op(Mix::Eventful), 1..120), sequences(|| op(Mix::Long))],
        end in (any::<Index>(), end(Mix::Eventful)).prop_map(|(at, end)| Op::End(at, end, true)),
        closes_first in any::<bool>(),
    ) {
        let mut run = Run::new(start, fresh.then_some(start), window);
        run.compare();
        for op in &ops {
            run.step(op);
        }
        run.come_to_rest(&end, closes_first);
    }
}
