use proptest::prelude::*;

use super::*;
use crate::property::{cases, sequences};

/// The most shares at a time: more than an eighth of the slots.
const MEMBERS: usize = 12;
/// The most that one batch weighs.
const BATCH: u64 = 60;
const LIMITS: Limits = Limits { in_flight: 12, held: 64, bytes: 200 };

#[derive(Clone, Debug)]
enum Op {
    Join,
    Leave {
        at: usize,
    },
    Slots {
        at: usize,
        want: u64,
    },
    Held {
        at: usize,
        want: u64,
        bytes: u64,
    },
    /// An attempt ends: a slot, a record and its bytes come back.
    End {
        at: usize,
    },
    /// An attempt ends whose successor wants its slot.
    HandOver {
        at: usize,
    },
    /// What was acquired and not used comes back.
    Return {
        at: usize,
        slots: u64,
        held: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..MEMBERS;
    // Small wishes leave something for the next waiter, large ones nothing.
    let want = || prop_oneof![1..4_u64, 1..40_u64];
    prop_oneof![
        2 => Just(Op::Join),
        1 => at().prop_map(|at| Op::Leave { at }),
        6 => (at(), want()).prop_map(|(at, want)| Op::Slots { at, want }),
        6 => (at(), want(), 0..=BATCH).prop_map(|(at, want, bytes)| Op::Held { at, want, bytes }),
        12 => at().prop_map(|at| Op::End { at }),
        6 => at().prop_map(|at| Op::HandOver { at }),
        4 => (at(), 0..9_u64, 0..9_u64).prop_map(|(at, slots, held)| Op::Return { at, slots, held }),
    ]
}

/// A share as its partition sees it.
struct Member {
    id: ShareId,
    signal: Arc<Signal>,
    left: bool,
    slots: u64,
    held: u64,
    bytes: u64,
    /// Got none and has not asked again since.
    wants_slots: bool,
    wants_held: bool,
}

impl Member {
    fn new((id, signal): (ShareId, Arc<Signal>)) -> Self {
        let (slots, held, bytes) = (0, 0, 0);
        Self { id, signal, left: false, slots, held, bytes, wants_slots: false, wants_held: false }
    }

    fn uses_nothing(&self) -> bool {
        self.slots + self.held + self.bytes == 0
    }
}

struct Run {
    budget: Budget,
    members: Vec<Member>,
}

impl Run {
    fn step(&mut self, op: &Op) {
        let Self { budget, members } = self;
        match *op {
            Op::Join if members.len() < MEMBERS => members.push(Member::new(member(budget))),
            Op::Join => {}
            Op::Leave { at } => {
                if let Some(member) = pick(members, at, |member| !member.left) {
                    member.left = true;
                    (member.wants_slots, member.wants_held) = (false, false);
                    budget.leave(member.id);
                }
            }
            // A partition waits for one thing at a time.
            Op::Slots { at, want } => {
                let asks = |member: &Member| !member.left && !member.wants_held;
                if let Some(member) = pick(members, at, asks) {
                    woken(&member.signal);
                    let got = budget.acquire_slots(member.id, want);
                    assert!(got <= want);
                    member.slots += got;
                    member.wants_slots = got == 0;
                }
            }
            Op::Held { at, want, bytes } => {
                let asks = |member: &Member| !member.left && !member.wants_slots;
                if let Some(member) = pick(members, at, asks) {
                    woken(&member.signal);
                    let got = budget.acquire_held(member.id, want);
                    assert!(got <= want);
                    member.held += got;
                    member.wants_held = got == 0;
                    if got > 0 {
                        budget.charge_bytes(member.id, bytes);
                        member.bytes += bytes;
                    }
                }
            }
            Op::End { at } => {
                let ready = |member: &Member| member.slots > 0 && member.held > 0;
                if let Some(member) = pick(members, at, ready) {
                    let bytes = if member.held == 1 { member.bytes } else { member.bytes / 2 };
                    budget.release_attempt(member.id, bytes);
                    member.slots -= 1;
                    member.held -= 1;
                    member.bytes -= bytes;
                }
            }
            Op::HandOver { at } => {
                // The successor is held as well.
                let ready = |member: &Member| member.slots > 0 && member.held > 1;
                if let Some(member) = pick(members, at, ready) {
                    member.held -= 1;
                    let kept = budget.hand_over(member.id, 0);
                    member.slots -= u64::from(!kept);
                }
            }
            Op::Return { at, slots, held } => {
                if let Some(member) = pick(members, at, |member| !member.left) {
                    let slots = slots.min(member.slots);
                    // The last record takes its bytes along.
                    let held = held.min(member.held.saturating_sub(1));
                    budget.release_slots(member.id, slots);
                    budget.release_held(member.id, held, 0);
                    member.slots -= slots;
                    member.held -= held;
                }
            }
        }
        members.retain(|member| !member.left || !member.uses_nothing());
        self.check();
    }

    fn check(&self) {
        let sum = |of: fn(&Member) -> u64| self.members.iter().map(of).sum::<u64>();
        let slots = sum(|member| member.slots);
        let held = sum(|member| member.held);
        let bytes = sum(|member| member.bytes);
        assert_eq!(self.budget.usage(), Usage { slots, held, bytes });
        assert!(slots <= LIMITS.in_flight && held <= LIMITS.held);
        assert!(bytes <= LIMITS.bytes + BATCH, "over by one batch at most: {bytes}");
        self.check_waiters();
    }

    /// R15: while somebody waits who could be served, somebody else has been woken and is to ask
    /// again, which passes the wake-up on.
    fn check_waiters(&self) {
        let state = self.budget.state.lock();
        let share = |member: &Member| state.shares[member.id.0].as_ref().expect(ALIVE);
        let forgotten = |wants: fn(&Member) -> bool, waits: &dyn Fn(&Member) -> Option<bool>| {
            let wanting = self.members.iter().filter(|member| wants(member));
            let states: Vec<_> = wanting.map(waits).collect();
            states.contains(&Some(true)) && !states.contains(&None)
        };
        // None where the wait is over; otherwise whether it could be.
        let for_slots = |member: &Member| {
            let share = share(member);
            share.waits_for_slots.then(|| state.slots.available(&share.slots) > 0)
        };
        let for_held =
            |member: &Member| share(member).waits_for_held.map(|_| state.may_take(member.id));
        assert!(!forgotten(|member| member.wants_slots, &for_slots), "of those who want slots");
        assert!(!forgotten(|member| member.wants_held, &for_held), "of those who want room");
        for member in &self.members {
            let over = member.wants_slots && for_slots(member).is_none()
                || member.wants_held && for_held(member).is_none();
            assert!(!over || raised(&member.signal), "a wait is over and nobody was told");
        }
    }
}

/// Whether there is a reason to take, which is left where it is.
fn raised(signal: &Signal) -> bool {
    let raised = woken(signal);
    if raised {
        signal.raise(Reasons::ROOM);
    }
    raised
}

fn pick(members: &mut [Member], at: usize, fits: impl Fn(&Member) -> bool) -> Option<&mut Member> {
    let mut fitting: Vec<_> = members.iter_mut().filter(|member| fits(member)).collect();
    let count = fitting.len();
    (count > 0).then(|| fitting.swap_remove(at % count))
}

proptest! {
    #![proptest_config(cases())]

    /// Whoever comes, takes, gives back and goes: nothing is over its limit, nothing is forgotten.
    #[test]
    fn limits_hold_and_no_waiter_is_forgotten(ops in sequences(op)) {
        let budget = Budget::new(LIMITS);
        let mut run = Run { budget, members: Vec::new() };
        for op in &ops {
            run.step(op);
        }
        for member in &run.members {
            if !member.left {
                run.budget.leave(member.id);
            }
            run.budget.release_slots(member.id, member.slots);
            run.budget.release_held(member.id, member.held, member.bytes);
        }
        prop_assert_eq!(run.budget.usage(), Usage::default());
        prop_assert!(run.budget.state.lock().shares.iter().all(Option::is_none));
    }
}
