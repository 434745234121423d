mod properties;

use std::task::{Context, Poll, Waker};

use super::*;

const LIMITS: Limits = Limits { in_flight: 32, held: 64, bytes: 1_000 };

fn member(budget: &Budget) -> (ShareId, Arc<Signal>) {
    let signal = Arc::<Signal>::default();
    (budget.join(signal.clone()), signal)
}

fn woken(signal: &Signal) -> bool {
    signal.poll_take(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Reasons::ROOM)
}

#[test]
fn a_lone_share_may_use_every_slot() {
    let budget = Budget::new(LIMITS);
    let (only, _) = member(&budget);
    assert_eq!(budget.acquire_slots(only, 100), 32);
    assert_eq!(budget.acquire_slots(only, 1), 0);
}

/// C16: five partitions, one of which takes whatever it can get.
#[test]
fn a_hot_share_leaves_the_others_their_guarantee() {
    let budget = Budget::new(Limits { in_flight: 160, held: 1_000, bytes: 10_000 });
    let (hot, _) = member(&budget);
    let others: Vec<_> = (0..4).map(|_| member(&budget)).collect();
    let slots = budget.acquire_slots(hot, u64::MAX);
    let held = budget.acquire_held(hot, u64::MAX);
    assert!(slots >= 150, "the hot one gets nearly everything: {slots}");
    assert!(held >= 800, "{held}");
    for (other, _) in &others {
        assert_eq!(budget.acquire_slots(*other, u64::MAX), 2);
        assert_eq!(budget.acquire_held(*other, u64::MAX), 50);
    }
}

#[test]
fn bytes_over_the_limit_stop_taking_until_an_eighth_is_free() {
    let budget = Budget::new(LIMITS);
    let (id, signal) = member(&budget);
    assert_eq!(budget.acquire_held(id, 4), 4);
    budget.charge_bytes(id, 1_200);
    assert_eq!(budget.acquire_held(id, 1), 0);
    budget.release_held(id, 1, 250);
    assert!(!woken(&signal), "50 bytes free is not worth it");
    assert_eq!(budget.acquire_held(id, 1), 0, "nor is it for a look in between");
    budget.release_held(id, 1, 100);
    assert!(woken(&signal));
    assert_eq!(budget.acquire_held(id, 1), 1);
}

#[test]
fn a_full_hold_wakes_once_an_eighth_is_free() {
    let budget = Budget::new(LIMITS);
    let (id, signal) = member(&budget);
    assert_eq!(budget.acquire_held(id, 128), 64);
    assert_eq!(budget.acquire_held(id, 128), 0);
    budget.release_held(id, 7, 0);
    assert!(!woken(&signal));
    budget.release_held(id, 1, 0);
    assert!(woken(&signal));
    assert_eq!(budget.acquire_held(id, 128), 8);
}

/// What others leave to a waiter may be no more than its guarantee, so that must be enough to wake
/// it.
#[test]
fn a_waiter_wakes_for_its_guarantee_when_a_stuck_neighbour_keeps_the_rest() {
    let budget = Budget::new(Limits { in_flight: 32, held: 1_024, bytes: 1_000_000 });
    let (stuck, _) = member(&budget);
    let (waiter, signal) = member(&budget);
    let rest: Vec<_> = (0..14).map(|_| member(&budget)).collect();
    assert!(budget.acquire_held(stuck, u64::MAX) > 700);
    assert_eq!(budget.acquire_held(waiter, 128), 16);
    assert_eq!(budget.acquire_held(waiter, 128), 0);
    budget.release_held(waiter, 16, 0);
    assert!(woken(&signal));
    drop(rest);
}

/// A record that stays keeps its place for good: what is left of the guarantee must still be used,
/// or one failed record and a stuck neighbour would stop a partition.
#[test]
fn a_stuck_record_of_its_own_does_not_keep_a_waiter_from_the_rest_of_its_guarantee() {
    let budget = Budget::new(Limits { in_flight: 32, held: 1_024, bytes: 1_000_000 });
    let members: Vec<_> = (0..16).map(|_| member(&budget)).collect();
    let [(neighbour, _), (waiter, signal), ..] = &members[..] else { panic!("16 members") };
    assert!(budget.acquire_held(*neighbour, u64::MAX) > 700);
    assert_eq!(budget.acquire_held(*waiter, 128), 16);
    assert_eq!(budget.acquire_held(*waiter, 128), 0);
    budget.release_held(*waiter, 1, 0);
    assert!(!woken(signal), "an eighth of the guarantee is worth it, one record is not");
    budget.release_held(*waiter, 14, 0);
    assert!(woken(signal));
    assert_eq!(budget.acquire_held(*waiter, 128), 15);
}

/// With more shares than an eighth of the limit, a part that was kept for one is free again.
#[test]
fn a_share_that_joins_wakes_who_can_be_served_by_the_new_division() {
    let budget = Budget::new(Limits { in_flight: 24, held: 64, bytes: 64 });
    let (busy, signal) = member(&budget);
    let quiet = [member(&budget), member(&budget)];
    assert_eq!(budget.acquire_slots(busy, 100), 22, "one for each of the quiet ones");
    assert_eq!(budget.acquire_slots(busy, 1), 0);
    member(&budget);
    assert!(woken(&signal), "four are more than an eighth of 24, so nothing is guaranteed");
    assert_eq!(budget.acquire_slots(busy, 100), 2);
    drop(quiet);
}

#[test]
fn a_wake_up_that_a_leaving_share_did_not_use_goes_to_the_next() {
    let budget = Budget::new(Limits { in_flight: 1, held: 8, bytes: 8 });
    let (holder, _) = member(&budget);
    let (first, first_signal) = member(&budget);
    let (second, second_signal) = member(&budget);
    assert_eq!(budget.acquire_slots(holder, 1), 1);
    assert_eq!(budget.acquire_slots(first, 1), 0);
    assert_eq!(budget.acquire_slots(second, 1), 0);
    budget.release_slots(holder, 1);
    assert!(woken(&first_signal));
    assert!(!woken(&second_signal), "one release wakes one waiter");
    budget.leave(first);
    assert!(woken(&second_signal));
    assert_eq!(budget.acquire_slots(second, 1), 1);
}

#[test]
fn one_release_of_many_slots_reaches_every_waiter_in_turn() {
    let budget = Budget::new(Limits { in_flight: 2, held: 8, bytes: 8 });
    let (holder, _) = member(&budget);
    let waiters: Vec<_> = (0..2).map(|_| member(&budget)).collect();
    assert_eq!(budget.acquire_slots(holder, 2), 2);
    for (waiter, _) in &waiters {
        assert_eq!(budget.acquire_slots(*waiter, 1), 0);
    }
    budget.release_slots(holder, 2);
    for (waiter, signal) in &waiters {
        assert!(woken(signal));
        assert_eq!(budget.acquire_slots(*waiter, 1), 1);
    }
}

/// Only its own guarantee is free, which the first in line may not have.
#[test]
fn a_slot_that_only_the_second_in_line_may_take_wakes_the_second() {
    let budget = Budget::new(LIMITS);
    let (busy, busy_signal) = member(&budget);
    let (quiet, quiet_signal) = member(&budget);
    assert_eq!(budget.acquire_slots(busy, 100), 31);
    assert_eq!(budget.acquire_slots(busy, 1), 0);
    assert_eq!(budget.acquire_slots(quiet, 1), 1);
    assert_eq!(budget.acquire_slots(quiet, 1), 0);
    budget.release_slots(quiet, 1);
    assert!(!woken(&busy_signal) && woken(&quiet_signal));
}

/// One that asks on its own is served before the one that was woken, and passes the wake-up on.
#[test]
fn who_takes_a_slot_without_being_woken_is_in_line_no_more() {
    let budget = Budget::new(Limits { in_flight: 3, held: 8, bytes: 8 });
    let (holder, _) = member(&budget);
    let waiters: Vec<_> = (0..3).map(|_| member(&budget)).collect();
    assert_eq!(budget.acquire_slots(holder, 3), 3);
    for (waiter, _) in &waiters {
        assert_eq!(budget.acquire_slots(*waiter, 1), 0);
    }
    budget.release_slots(holder, 2);
    let woken_now = || waiters.iter().map(|(_, signal)| woken(signal)).collect::<Vec<_>>();
    assert_eq!(woken_now(), [true, false, false]);
    assert_eq!(budget.acquire_slots(waiters[1].0, 1), 1);
    assert_eq!(woken_now(), [false, false, true]);
}

/// One that asks again for less is served without a wake-up, and does not take the next one.
#[test]
fn who_is_served_between_two_wake_ups_is_in_line_no_more() {
    let budget = Budget::new(LIMITS);
    let (first, first_signal) = member(&budget);
    let (second, second_signal) = member(&budget);
    assert_eq!(budget.acquire_held(first, 128), 56);
    assert_eq!(budget.acquire_held(first, 128), 0);
    assert_eq!(budget.acquire_held(second, 128), 8);
    assert_eq!(budget.acquire_held(second, 128), 0);
    budget.release_held(first, 1, 0);
    assert!(!woken(&first_signal) && !woken(&second_signal), "one is not worth it");
    assert_eq!(budget.acquire_held(first, 1), 1);
    budget.release_held(first, 56, 0);
    assert!(!woken(&first_signal) && woken(&second_signal));
}

/// C13: a share that left is guaranteed nothing, and what it was guaranteed is divided anew.
#[test]
fn the_guarantee_of_a_share_that_left_goes_to_the_others() {
    let budget = Budget::new(Limits { in_flight: 160, ..LIMITS });
    let (busy, _) = member(&budget);
    let _quiet = member(&budget);
    let (leaver, _) = member(&budget);
    assert_eq!(budget.acquire_slots(leaver, 1), 1);
    budget.leave(leaver);
    assert_eq!(budget.acquire_slots(busy, 200), 154, "one runs still, five are the quiet one's");
}

/// C13: whatever comes and goes, at rest nothing is in use and the shares' places are reused.
#[test]
fn a_hundred_shares_that_left_with_work_in_flight_leave_nothing_behind() {
    let budget = Budget::new(LIMITS);
    for _ in 0..100 {
        let (id, _) = member(&budget);
        assert!(budget.acquire_slots(id, 8) > 0 && budget.acquire_held(id, 8) == 8);
        budget.charge_bytes(id, 80);
        budget.leave(id);
        for _ in 0..8 {
            budget.release_attempt(id, 10);
        }
    }
    assert_eq!(budget.usage(), Usage::default());
    assert_eq!(budget.state.lock().shares.len(), 1);
    let (id, _) = member(&budget);
    assert_eq!(budget.acquire_slots(id, 100), 32, "no guarantee of a share that left lingers");
}

/// C16: a lane's successor takes over its slot, unless another share has less than its part.
#[test]
fn a_slot_is_handed_over_unless_a_waiter_is_short_and_the_owner_is_not() {
    let budget = Budget::new(Limits { in_flight: 4, held: 64, bytes: 64 });
    let (busy, _) = member(&budget);
    assert_eq!(budget.acquire_slots(busy, 4), 4);
    assert_eq!(budget.acquire_held(busy, 8), 8);
    assert!(budget.hand_over(busy, 0), "nobody waits");

    let (other, signal) = member(&budget);
    assert_eq!(budget.acquire_slots(other, 1), 0);
    assert!(!budget.hand_over(busy, 0));
    assert!(woken(&signal));
    assert!(budget.hand_over(busy, 0), "the waiter was served already");
    assert_eq!(budget.acquire_slots(other, 1), 1);

    assert_eq!(budget.acquire_slots(other, 1), 0);
    assert!(!budget.hand_over(busy, 0), "three against one");
    assert_eq!(budget.acquire_slots(other, 1), 1);
    assert_eq!(budget.acquire_slots(other, 1), 0);
    assert!(budget.hand_over(busy, 0), "two each are fair");
    assert_eq!(budget.usage().slots, 4);
}

#[test]
fn a_slot_is_kept_by_an_owner_that_has_its_part_and_no_more() {
    let budget = Budget::new(Limits { in_flight: 4, held: 64, bytes: 64 });
    let (hog, _) = member(&budget);
    let (owner, _) = member(&budget);
    let (waiter, signal) = member(&budget);
    assert_eq!(budget.acquire_slots(owner, 1), 1);
    assert_eq!(budget.acquire_held(owner, 2), 2);
    assert_eq!(budget.acquire_slots(hog, 3), 3);
    assert_eq!(budget.acquire_slots(waiter, 1), 0);
    assert!(budget.hand_over(owner, 0));
    assert!(!woken(&signal));
}

#[test]
fn a_slot_is_kept_from_a_waiter_that_has_its_part() {
    let budget = Budget::new(Limits { in_flight: 6, held: 64, bytes: 64 });
    let (owner, _) = member(&budget);
    let (waiter, signal) = member(&budget);
    let _quiet = member(&budget);
    assert_eq!(budget.acquire_slots(owner, 4), 4);
    assert_eq!(budget.acquire_held(owner, 2), 2);
    assert_eq!(budget.acquire_slots(waiter, 2), 2);
    assert_eq!(budget.acquire_slots(waiter, 1), 0);
    assert!(budget.hand_over(owner, 0));
    assert!(!woken(&signal));
}

/// The slot would go to the guarantees of shares that came since, and the waiter could not take it.
#[test]
fn a_slot_is_kept_from_a_waiter_that_may_not_take_it() {
    let budget = Budget::new(LIMITS);
    let (owner, _) = member(&budget);
    let (waiter, signal) = member(&budget);
    assert_eq!(budget.acquire_slots(owner, 31), 31);
    assert_eq!(budget.acquire_held(owner, 2), 2);
    assert_eq!(budget.acquire_slots(waiter, 2), 1);
    let _quiet = [member(&budget), member(&budget)];
    assert_eq!(budget.acquire_slots(waiter, 1), 0);
    assert!(budget.hand_over(owner, 0));
    assert!(!woken(&signal));
}

/// R15: bytes are known only once records are taken, so what a waiter was woken for may be gone when it
/// asks. Another may have its guarantee still.
#[test]
fn a_wake_up_that_came_too_late_for_one_goes_to_the_next() {
    let budget = Budget::new(LIMITS);
    let (hog, _) = member(&budget);
    let ([first, over, within], [_, over_told, within_told]) = {
        let members = [(); 3].map(|()| member(&budget));
        (members.each_ref().map(|member| member.0), members.map(|member| member.1))
    };
    for (share, bytes) in [(over, 100), (hog, 1_000)] {
        assert_eq!(budget.acquire_held(share, 1), 1);
        budget.charge_bytes(share, bytes);
    }
    for share in [first, over, within] {
        assert_eq!(budget.acquire_held(share, 10), 0);
    }
    budget.release_held(hog, 0, 400);
    assert_eq!(budget.acquire_held(first, 1), 1, "woken by the release, and wakes the next one");
    assert!(woken(&over_told) && !woken(&within_told));
    budget.charge_bytes(first, 250);
    assert_eq!(budget.acquire_held(over, 10), 0, "what is left is the last one's guarantee");
    assert!(woken(&within_told), "who is not forgotten");
    assert!(budget.acquire_held(within, 10) > 0);
}
