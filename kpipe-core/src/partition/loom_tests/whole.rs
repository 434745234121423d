//! A whole epoch: intake, record tasks and control loop, with two records of one lane.

use loom::thread;

use super::*;
use crate::budget::{Budget, Limits, ShareId, Usage};
use crate::loom_support::{Branch, OneAtATime, explore_within};
use crate::partition::{Claim, Draw};
use crate::wake::Reasons;

struct Whole {
    epoch: Arc<Epoch>,
    budget: Budget,
    share: ShareId,
    handlers: OneAtATime,
}

impl Whole {
    fn new(slots: u64) -> Arc<Self> {
        let signal = sync::Arc::<Signal>::default();
        let budget = Budget::new(Limits { in_flight: slots, held: 2, bytes: 8 });
        let share = budget.join(signal.clone());
        let epoch = Epoch::woken_by(signal, WIDE);
        Arc::new(Self { epoch, budget, share, handlers: OneAtATime::default() })
    }

    /// Takes two records of the partition's one lane and sets them going, then ends, as an intake
    /// does when it is stopped.
    fn take_in(self: &Arc<Self>) -> Vec<thread::JoinHandle<()>> {
        let mut tasks = Vec::new();
        assert_eq!(self.budget.acquire_held(self.share, 2), 2);
        let lane = Some(LaneKey::WHOLE_PARTITION);
        let mut runnable = VecDeque::new();
        if self.epoch.partition.draw() == Draw::Yes {
            let (admitted, records) = self.epoch.admit(&[(0, lane), (1, lane)]);
            match admitted.stopped {
                true => self.budget.release_held(self.share, 2, 0),
                false => self.budget.charge_bytes(self.share, 2),
            }
            runnable = records;
        } else {
            self.budget.release_held(self.share, 2, 0);
        }
        while let Some(record) = runnable.pop_front() {
            if !self.acquire_slot() {
                runnable.push_front(record);
                break;
            }
            match self.epoch.partition.claim(record, true) {
                Claim::Run(record) => {
                    let whole = self.clone();
                    tasks.push(thread::spawn(move || whole.run(record)));
                }
                Claim::Parked => self.budget.release_slots(self.share, 1),
                Claim::Stopped(_) => {
                    self.budget.release_slots(self.share, 1);
                    self.budget.release_held(self.share, 1, 1);
                    break;
                }
            }
        }
        let never_began = runnable.len() as u64;
        self.epoch.partition.abandon(never_began);
        self.budget.release_held(self.share, never_began, never_began);
        self.budget.leave(self.share);
        tasks
    }

    /// Waits for the slot; false if the intake is stopped first.
    fn acquire_slot(&self) -> bool {
        while self.budget.acquire_slots(self.share, 1) == 0 {
            if wait(&self.epoch.intake).contains(Reasons::STOP) {
                return false;
            }
        }
        true
    }

    /// A record task: the record and its successors.
    fn run(&self, record: Runnable<u64>) {
        let mut next = Some(record);
        while let Some(record) = next {
            self.handlers.run(record.item);
            next = self.epoch.pass(&record);
            match next {
                Some(_) => self.budget.release_held(self.share, 1, 1),
                None => self.budget.release_attempt(self.share, 1),
            }
        }
    }
}

/// R5, R8, R9 and R16 at once, a revoke at any point of an epoch's life, in which each record waits
/// for the one slot: what ran is committed, the rest is abandoned, and every permit is back.
#[test]
fn loom_partition_r8_a_revoke_at_any_point_of_an_epoch_with_one_slot() {
    static NONE: Branch = Branch::new("none ran");
    static ONE: Branch = Branch::new("one ran");
    static BOTH: Branch = Branch::new("both ran");
    explore_within(4, &[&NONE, &ONE, &BOTH], || revoke(1, [&NONE, &ONE, &BOTH]));
}

/// The same with a slot for each, so that the second record waits behind the first in their lane
/// (R6).
#[test]
fn loom_partition_r8_a_revoke_at_any_point_of_an_epoch_with_a_lane() {
    static NONE: Branch = Branch::new("none ran");
    static ONE: Branch = Branch::new("one ran");
    static BOTH: Branch = Branch::new("both ran");
    explore_within(5, &[&NONE, &ONE, &BOTH], || revoke(2, [&NONE, &ONE, &BOTH]));
}

/// One life of an epoch; takes the branch of how many records ran.
fn revoke(slots: u64, branches: [&Branch; 3]) {
    let whole = Whole::new(slots);
    let intake = {
        let whole = whole.clone();
        thread::spawn(move || whole.take_in())
    };
    let waiting = whole.epoch.partition.begin_drain().len() as u64;
    whole.budget.release_held(whole.share, waiting, waiting);
    whole.epoch.wait_until_idle();
    let ran = whole.handlers.ran();
    let closing = whole.epoch.partition.close();
    for task in intake.join().unwrap() {
        task.join().unwrap();
    }
    branches[ran.len()].take();
    assert_eq!(whole.handlers.ran(), ran, "nothing ran after the drain");
    assert_eq!(ran, [0, 1][..ran.len()], "in order");
    assert_eq!(closing.to_commit, (!ran.is_empty()).then_some(ran.len() as i64));
    assert_accounted(whole.epoch.counts());
    assert_eq!(whole.budget.usage(), Usage::default());
}
