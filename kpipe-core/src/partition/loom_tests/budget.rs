//! A partition together with its share of the budget, as an epoch uses the two.

use loom::thread;

use super::*;
use crate::budget::{Budget, Limits, ShareId, Usage};
use crate::loom_support::{Branch, explore, take_either};
use crate::partition::Draw;
use crate::wake::Reasons;

/// An epoch and its share.
struct Member {
    epoch: Arc<Epoch>,
    budget: Arc<Budget>,
    share: ShareId,
}

impl Member {
    fn of(budget: &Arc<Budget>, window: u64) -> Arc<Self> {
        let signal = sync::Arc::<Signal>::default();
        let share = budget.join(signal.clone());
        Arc::new(Self { epoch: Epoch::woken_by(signal, window), budget: budget.clone(), share })
    }

    /// `Epoch::conclude` of the runtime, for records of one byte.
    fn conclude(&self, record: &Runnable<u64>, end: End) -> Option<Runnable<u64>> {
        let Finished { next, stays } = self.epoch.finish(record, end);
        if stays {
            self.budget.release_held(self.share, 0, 1);
            self.budget.release_slots(self.share, 1);
        } else if next.is_some() {
            self.budget.release_held(self.share, 1, 1);
        } else {
            self.budget.release_attempt(self.share, 1);
        }
        next
    }
}

/// R8 and C13, a record that fails and is to stay against the close of its epoch: whichever is
/// first, its place in the budget comes back, once.
#[test]
fn loom_partition_r8_a_failure_that_stays_against_the_close() {
    static STAYED: Branch = Branch::new("stayed until the close");
    static TOO_LATE: Branch = Branch::new("failed after the close");
    explore(&[&STAYED, &TOO_LATE], || {
        let budget = Arc::new(Budget::new(Limits { in_flight: 4, held: 4, bytes: 4 }));
        let member = Member::of(&budget, WIDE);
        assert_eq!(budget.acquire_held(member.share, 1), 1);
        assert_eq!(budget.acquire_slots(member.share, 1), 1);
        budget.charge_bytes(member.share, 1);
        let (_, mut runnable) = member.epoch.admit(&[(0, NO_LANE)]);
        let task = {
            let member = member.clone();
            let record = runnable.pop_front().unwrap();
            thread::spawn(move || member.conclude(&record, End::Held("refused".into())))
        };
        member.epoch.partition.begin_drain();
        let closing = member.epoch.partition.close();
        budget.release_held(member.share, closing.held, 0);
        budget.leave(member.share);
        take_either(closing.held == 1, &STAYED, &TOO_LATE);
        assert_eq!(task.join().unwrap(), None);
        assert_eq!(budget.usage(), Usage::default());
        assert_eq!(member.epoch.counts().abandoned, 1);
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Takes,
    NoRoom,
    WindowFull,
}

impl Member {
    /// A turn of the intake up to its batch: whether it may take a record.
    fn turn(&self) -> Turn {
        if self.budget.acquire_held(self.share, 1) == 0 {
            return Turn::NoRoom;
        }
        match self.epoch.partition.draw() {
            Draw::Yes => Turn::Takes,
            Draw::WindowFull => {
                self.budget.release_held(self.share, 1, 0);
                Turn::WindowFull
            }
            Draw::Stopped => panic!("nobody stops"),
        }
    }
}

/// R15, an intake that is woken for room and finds its window full meanwhile: the room is another
/// partition's, which waits for it and is not forgotten.
#[test]
fn loom_partition_r15_room_that_a_full_window_cannot_use() {
    static PASSED_ON: Branch = Branch::new("woken with its window full");
    static OTHER_WAITED: Branch = Branch::new("the other one waited");
    explore(&[&PASSED_ON, &OTHER_WAITED], || {
        let budget = Arc::new(Budget::new(Limits { in_flight: 4, held: 2, bytes: 4 }));
        let (full, other) = (Member::of(&budget, 1), Member::of(&budget, WIDE));
        assert_eq!(budget.acquire_held(full.share, 2), 2);
        assert_eq!(budget.acquire_slots(full.share, 2), 2);
        budget.charge_bytes(full.share, 2);
        let (_, runnable) = full.epoch.admit(&[(0, NO_LANE), (1, NO_LANE)]);
        assert_eq!(full.turn(), Turn::NoRoom, "everything is in hand");
        let task = {
            let full = full.clone();
            thread::spawn(move || full.conclude(&runnable[1], End::Passed))
        };
        let intake = {
            let full = full.clone();
            thread::spawn(move || {
                assert_eq!(wait(&full.epoch.intake), Reasons::ROOM);
                if full.turn() == Turn::WindowFull {
                    PASSED_ON.take();
                }
            })
        };
        let mut waited = false;
        while other.turn() == Turn::NoRoom {
            waited = true;
            wait(&other.epoch.intake);
        }
        if waited {
            OTHER_WAITED.take();
        }
        task.join().unwrap();
        intake.join().unwrap();
    });
}
