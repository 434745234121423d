use std::sync::Arc;

use loom::thread;

use super::{Budget, Limits, ShareId, Usage};
use crate::loom_support::{Branch, explore, raised, take_either, wait};
use crate::sync;
use crate::wake::{Reasons, Signal};

/// A partition's place in the budget.
#[derive(Clone)]
struct Member {
    budget: Arc<Budget>,
    share: ShareId,
    signal: sync::Arc<Signal>,
}

impl Member {
    fn of(budget: &Arc<Budget>) -> Self {
        let signal = sync::Arc::<Signal>::default();
        Self { budget: budget.clone(), share: budget.join(signal.clone()), signal }
    }

    /// Takes slots, waiting for them as an intake does; true if it had to wait.
    fn take_slots(&self, want: u64) -> bool {
        let mut waited = false;
        while self.budget.acquire_slots(self.share, want) == 0 {
            waited = true;
            wait(&self.signal);
        }
        waited
    }

    /// Likewise for room for records.
    fn take_held(&self, want: u64) -> bool {
        let mut waited = false;
        while self.budget.acquire_held(self.share, want) == 0 {
            waited = true;
            wait(&self.signal);
        }
        waited
    }

    fn leave(&self) {
        self.budget.leave(self.share);
    }
}

fn budget(in_flight: u64, held: u64, bytes: u64) -> Arc<Budget> {
    Arc::new(Budget::new(Limits { in_flight, held, bytes }))
}

/// At rest: nothing in use, nobody waits, no share is left over.
fn assert_empty(budget: &Budget) {
    assert_eq!(budget.usage(), Usage::default());
    let state = budget.state.lock();
    assert!(state.slot_waiters.is_empty() && state.held_waiters.is_empty());
    assert!(state.shares.iter().all(Option::is_none), "a share is left over");
    assert_eq!(state.members, 0);
}

/// R15, the release of the only slot against whoever finds none and goes to wait.
#[test]
fn loom_budget_r15_a_slot_released_while_a_share_goes_to_wait() {
    static WAITED: Branch = Branch::new("waited");
    static AT_ONCE: Branch = Branch::new("released before the look");
    explore(&[&WAITED, &AT_ONCE], || {
        let budget = budget(1, 8, 8);
        let (holder, waiter) = (Member::of(&budget), Member::of(&budget));
        assert_eq!(budget.acquire_slots(holder.share, 1), 1);
        let task = thread::spawn(move || {
            holder.budget.release_slots(holder.share, 1);
            holder.leave();
        });
        take_either(waiter.take_slots(1), &WAITED, &AT_ONCE);
        budget.release_slots(waiter.share, 1);
        task.join().unwrap();
        waiter.leave();
        assert_empty(&budget);
    });
}

/// R15 for records and bytes, which come back one by one: the waiter starts again once an eighth is
/// free and not before, whichever release makes it so.
#[test]
fn loom_budget_r15_room_released_while_a_share_goes_to_wait() {
    static WAITED: Branch = Branch::new("waited");
    static AT_ONCE: Branch = Branch::new("released before the look");
    explore(&[&WAITED, &AT_ONCE], || {
        let budget = budget(1, 16, 64);
        let member = Member::of(&budget);
        assert_eq!(budget.acquire_held(member.share, 2), 2);
        budget.charge_bytes(member.share, 70);
        let tasks = [10, 4].map(|bytes| {
            let member = member.clone();
            thread::spawn(move || member.budget.release_held(member.share, 1, bytes))
        });
        take_either(member.take_held(1), &WAITED, &AT_ONCE);
        for task in tasks {
            task.join().unwrap();
        }
        budget.release_held(member.share, 1, 56);
        member.leave();
        assert_empty(&budget);
    });
}

/// R15, two waiters and one release that is enough for both: the first one served passes it on.
#[test]
fn loom_budget_r15_a_release_for_two_reaches_both_waiters() {
    static BOTH: Branch = Branch::new("both waited");
    explore(&[&BOTH], || {
        let budget = budget(2, 8, 8);
        let members: Vec<_> = (0..3).map(|_| Member::of(&budget)).collect();
        assert_eq!(budget.acquire_slots(members[0].share, 2), 2);
        let waiters = [1, 2].map(|at: usize| {
            let member = members[at].clone();
            thread::spawn(move || member.take_slots(1))
        });
        budget.release_slots(members[0].share, 2);
        let waited = waiters.map(|waiter| waiter.join().unwrap());
        if waited == [true; 2] {
            BOTH.take();
        }
        assert_eq!(budget.usage().slots, 2);
        for member in &members[1..] {
            budget.release_slots(member.share, 1);
        }
        members.iter().for_each(Member::leave);
        assert_empty(&budget);
    });
}

/// R15, one release of an attempt is room for two kinds of waiters.
#[test]
fn loom_budget_r15_an_attempt_wakes_a_waiter_for_its_slot_and_one_for_its_record() {
    static BOTH: Branch = Branch::new("both waited");
    explore(&[&BOTH], || {
        let budget = budget(1, 1, 8);
        let members: Vec<_> = (0..3).map(|_| Member::of(&budget)).collect();
        assert_eq!(budget.acquire_slots(members[0].share, 1), 1);
        assert_eq!(budget.acquire_held(members[0].share, 1), 1);
        let for_slot = {
            let member = members[1].clone();
            thread::spawn(move || member.take_slots(1))
        };
        let for_held = {
            let member = members[2].clone();
            thread::spawn(move || member.take_held(1))
        };
        budget.release_attempt(members[0].share, 0);
        if for_slot.join().unwrap() & for_held.join().unwrap() {
            BOTH.take();
        }
        budget.release_slots(members[1].share, 1);
        budget.release_held(members[2].share, 1, 0);
        members.iter().for_each(Member::leave);
        assert_empty(&budget);
    });
}

/// R15, a share that was woken and leaves (its partition was revoked) passes the wake-up on.
#[test]
fn loom_budget_r15_a_share_that_leaves_passes_its_wake_up_on() {
    static WOKEN: Branch = Branch::new("woken, and left without taking");
    static NOT_WOKEN: Branch = Branch::new("left before the release");
    explore(&[&WOKEN, &NOT_WOKEN], || {
        let budget = budget(1, 8, 8);
        let members: Vec<_> = (0..3).map(|_| Member::of(&budget)).collect();
        assert_eq!(budget.acquire_slots(members[0].share, 1), 1);
        for member in &members[1..] {
            assert_eq!(budget.acquire_slots(member.share, 1), 0);
        }
        let task = {
            let holder = members[0].clone();
            thread::spawn(move || holder.budget.release_slots(holder.share, 1))
        };
        let leaves = {
            let member = members[1].clone();
            thread::spawn(move || {
                let woken = raised(&member.signal).contains(Reasons::ROOM);
                member.leave();
                woken
            })
        };
        members[2].take_slots(1);
        task.join().unwrap();
        take_either(leaves.join().unwrap(), &WOKEN, &NOT_WOKEN);
        budget.release_slots(members[2].share, 1);
        members[0].leave();
        members[2].leave();
        assert_empty(&budget);
    });
}

/// C13, a waiter that is cancelled while room is released leaves nothing behind: no place in a
/// queue, no share, no room that nobody can take.
#[test]
fn loom_budget_c13_a_waiter_that_leaves_against_a_release() {
    static WOKEN: Branch = Branch::new("woken first");
    static LEFT: Branch = Branch::new("left first");
    explore(&[&WOKEN, &LEFT], || {
        let budget = budget(16, 64, 64);
        let (holder, waiter) = (Member::of(&budget), Member::of(&budget));
        let got = budget.acquire_held(holder.share, 64);
        budget.acquire_held(waiter.share, 64);
        assert_eq!(budget.acquire_held(waiter.share, 64), 0);
        let task = {
            let holder = holder.clone();
            thread::spawn(move || {
                holder.budget.release_held(holder.share, got, 0);
                holder.leave();
            })
        };
        waiter.leave();
        take_either(raised(&waiter.signal) == Reasons::default(), &LEFT, &WOKEN);
        budget.release_held(waiter.share, 64 - got, 0);
        task.join().unwrap();
        assert_empty(&budget);
        let next = Member::of(&budget);
        assert_eq!(budget.acquire_held(next.share, 100), 64);
    });
}

/// R5 and C13, a share that leaves against the end of its last attempt: whichever is second takes
/// the share away, and whoever joins next has its place and all the room.
#[test]
fn loom_budget_r5_a_share_that_leaves_against_its_last_attempt() {
    static LEFT_FIRST: Branch = Branch::new("left before the attempt ended");
    static ENDED_FIRST: Branch = Branch::new("left after it");
    explore(&[&LEFT_FIRST, &ENDED_FIRST], || {
        let budget = budget(32, 64, 1_000);
        let member = Member::of(&budget);
        assert_eq!(budget.acquire_slots(member.share, 1), 1);
        assert_eq!(budget.acquire_held(member.share, 1), 1);
        budget.charge_bytes(member.share, 10);
        let task = {
            let member = member.clone();
            thread::spawn(move || member.budget.release_attempt(member.share, 10))
        };
        take_either(budget.usage().slots == 0, &ENDED_FIRST, &LEFT_FIRST);
        member.leave();
        task.join().unwrap();
        assert_empty(&budget);
        let next = Member::of(&budget);
        assert_eq!(next.share, member.share);
        assert_eq!(budget.acquire_slots(next.share, 100), 32);
    });
}

/// R5, attempts end while an intake takes slots and gives back what it cannot use (its dispatch
/// failed): never more than the limit, never below nothing, none left at the end.
#[test]
fn loom_budget_r5_in_flight_stays_between_nothing_and_the_limit() {
    static FULL: Branch = Branch::new("seen full");
    static REFUSED: Branch = Branch::new("found no slot");
    explore(&[&FULL, &REFUSED], || {
        let budget = budget(2, 8, 8);
        let (busy, intake) = (Member::of(&budget), Member::of(&budget));
        assert_eq!(budget.acquire_slots(busy.share, 2), 2);
        let task = {
            let busy = busy.clone();
            thread::spawn(move || {
                busy.budget.release_slots(busy.share, 1);
                busy.budget.release_slots(busy.share, 1);
            })
        };
        let dispatch = {
            let intake = intake.clone();
            thread::spawn(move || {
                let got = intake.budget.acquire_slots(intake.share, 2);
                if got == 0 {
                    REFUSED.take();
                }
                intake.budget.release_slots(intake.share, got);
            })
        };
        let seen = budget.usage().slots;
        assert!(seen <= 2, "{seen} of 2");
        if seen == 2 {
            FULL.take();
        }
        task.join().unwrap();
        dispatch.join().unwrap();
        busy.leave();
        intake.leave();
        assert_empty(&budget);
    });
}

/// R5, two intakes take at once: together they never hold more than the limit.
#[test]
fn loom_budget_r5_two_shares_that_take_at_once_stay_within_the_limit() {
    static FIRST: Branch = Branch::new("the other one took first");
    explore(&[&FIRST], || {
        let budget = budget(3, 8, 8);
        let (one, other) = (Member::of(&budget), Member::of(&budget));
        let takes = {
            let other = other.clone();
            thread::spawn(move || other.budget.acquire_slots(other.share, 2))
        };
        let got = budget.acquire_slots(one.share, 2);
        let others = takes.join().unwrap();
        assert_eq!(got + others, 3);
        assert_eq!(budget.usage().slots, 3);
        if others > got {
            FIRST.take();
        }
        budget.release_slots(one.share, got);
        budget.release_slots(other.share, others);
        one.leave();
        other.leave();
        assert_empty(&budget);
    });
}

/// R3, two partitions join at once: each gets a share of its own, whole, with its own guarantee and
/// its own signal.
#[test]
fn loom_budget_r3_two_shares_that_join_at_once_are_whole() {
    static SWAPPED: Branch = Branch::new("the other one joined first");
    explore(&[&SWAPPED], || {
        let budget = budget(32, 64, 64);
        // A place to be used again, which both may want.
        Member::of(&budget).leave();
        let other = {
            let budget = budget.clone();
            thread::spawn(move || Member::of(&budget))
        };
        let one = Member::of(&budget);
        let other = other.join().unwrap();
        assert_ne!(one.share, other.share);
        if other.share.0 < one.share.0 {
            SWAPPED.take();
        }
        // One takes all but the other's guarantee, and is the one woken when something comes back.
        assert_eq!(budget.acquire_slots(one.share, 100), 31);
        assert_eq!(budget.acquire_slots(other.share, 100), 1);
        assert_eq!(budget.acquire_slots(one.share, 1), 0);
        budget.release_slots(one.share, 1);
        assert_eq!(raised(&one.signal), Reasons::ROOM);
        assert_eq!(raised(&other.signal), Reasons::default());
        budget.release_slots(one.share, 30);
        budget.release_slots(other.share, 1);
        one.leave();
        other.leave();
        assert_empty(&budget);
    });
}
