//! How much may be in hand at once: attempts running, records held, payload bytes (G4).
//!
//! One [`Budget`] serves a whole consumer; each assigned partition has a share of it. A part of
//! every limit is guaranteed to the shares in equal parts and the rest is taken by whoever comes,
//! so that one full partition can never starve the others (C16), and a lone busy one still gets
//! nearly everything.
//!
//! Who finds no room waits for [`Reasons::ROOM`]. A release wakes one waiter that can now be served;
//! one that is served passes the wake on while there is room for the next. That costs one wake-up a
//! release at most, and loses none (R15).

#[cfg(all(test, loom))]
mod loom_tests;
mod resource;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;

use self::resource::{Resource, Used};
use crate::sync::{Arc, Mutex};
use crate::wake::{Reasons, Signal};

/// The limits of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Attempts running at once.
    pub(crate) in_flight: u64,
    /// Records held: running, waiting behind their key, or failed and kept.
    pub(crate) held: u64,
    /// Payload bytes of the records held.
    pub(crate) bytes: u64,
}

/// The part of the attempts that is guaranteed to the shares: small, because a guaranteed attempt
/// that a quiet partition does not use is one that a busy partition misses.
const SLOTS_GUARANTEED: u64 = 16;
/// Likewise for records and bytes held, where room is cheaper.
const HELD_GUARANTEED: u64 = 4;

/// What all partitions of a consumer share.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    state: Mutex<State>,
}

/// Names a share; valid from [`Budget::join`] until [`Budget::leave`] and the last release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareId(usize);

#[derive(Debug)]
struct State {
    slots: Resource,
    held: Resource,
    bytes: Resource,
    shares: Vec<Option<Share>>,
    members: u64,
    slot_waiters: VecDeque<ShareId>,
    held_waiters: VecDeque<ShareId>,
}

#[derive(Debug)]
struct Share {
    slots: Used,
    held: Used,
    bytes: Used,
    waits_for_slots: bool,
    /// How many records the waiter wants.
    waits_for_held: Option<u64>,
    signal: Arc<Signal>,
    left: bool,
}

/// What is in use over all shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) slots: u64,
    pub(crate) held: u64,
    pub(crate) bytes: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        let state = State {
            slots: Resource::new(limits.in_flight, limits.in_flight / SLOTS_GUARANTEED),
            held: Resource::new(limits.held, limits.held / HELD_GUARANTEED),
            bytes: Resource::new(limits.bytes, limits.bytes / HELD_GUARANTEED),
            shares: Vec::new(),
            members: 0,
            slot_waiters: VecDeque::new(),
            held_waiters: VecDeque::new(),
        };
        Self { limits, state: Mutex::new(state) }
    }

    /// Adds a share; `signal` is raised when it waited and there is room.
    pub(crate) fn join(&self, signal: Arc<Signal>) -> ShareId {
        let mut state = self.state.lock();
        state.members += 1;
        let share = Share {
            slots: Used::default(),
            held: Used::default(),
            bytes: Used::default(),
            waits_for_slots: false,
            waits_for_held: None,
            signal,
            left: false,
        };
        let free = state.shares.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            state.shares.push(None);
            state.shares.len() - 1
        });
        state.shares[index] = Some(share);
        state.divide();
        // With more shares each is guaranteed less, and what that frees may serve a waiter.
        state.wake_for_slots();
        state.wake_for_held();
        ShareId(index)
    }

    /// Ends a share: it acquires nothing more, what it still uses is released as it comes back.
    pub(crate) fn leave(&self, id: ShareId) {
        let mut state = self.state.lock();
        state.slot_waiters.retain(|waiter| *waiter != id);
        state.held_waiters.retain(|waiter| *waiter != id);
        let share = state.share(id);
        share.left = true;
        for used in [&mut share.slots, &mut share.held, &mut share.bytes] {
            used.leave();
        }
        share.waits_for_slots = false;
        share.waits_for_held = None;
        state.members -= 1;
        state.remove_if_done(id);
        state.divide();
        // A wake-up that this share got and did not use belongs to the next waiter.
        state.wake_for_slots();
        state.wake_for_held();
    }

    /// Whether a share has not left.
    pub(crate) fn has_members(&self) -> bool {
        self.state.lock().members > 0
    }

    /// Takes up to `want` attempts. With none to be had, returns 0 and raises [`Reasons::ROOM`]
    /// once there is one.
    pub(crate) fn acquire_slots(&self, id: ShareId, want: u64) -> u64 {
        let mut state = self.state.lock();
        let State { slots, shares, .. } = &mut *state;
        let share = occupied(shares, id);
        let got = slots.acquire(&mut share.slots, want);
        if got == 0 {
            if !share.waits_for_slots {
                share.waits_for_slots = true;
                state.slot_waiters.push_back(id);
            }
        } else {
            state.stop_waiting_for_slots(id);
            state.wake_for_slots();
        }
        got
    }

    /// Gives attempts back. Giving back none is allowed after the share has ended.
    pub(crate) fn release_slots(&self, id: ShareId, count: u64) {
        if count == 0 {
            return;
        }
        let mut state = self.state.lock();
        let State { slots, shares, .. } = &mut *state;
        slots.release(&mut occupied(shares, id).slots, count);
        state.remove_if_done(id);
        state.wake_for_slots();
    }

    /// Takes room for up to `want` records. With too little to be worth it, or too many bytes in
    /// hand, returns 0 and raises [`Reasons::ROOM`] once there is enough.
    pub(crate) fn acquire_held(&self, id: ShareId, want: u64) -> u64 {
        let mut state = self.state.lock();
        let waits = &mut state.share(id).waits_for_held;
        // A waiter that asks again may want less.
        *waits = waits.map(|_| want);
        if !state.may_take(id) {
            if state.share(id).waits_for_held.replace(want).is_none() {
                state.held_waiters.push_back(id);
            }
            // What it was woken for may be gone, because bytes are counted late, and another may be
            // served all the same.
            state.wake_for_held();
            return 0;
        }
        let State { held, shares, .. } = &mut *state;
        let got = held.acquire(&mut occupied(shares, id).held, want);
        state.stop_waiting_for_held(id);
        state.wake_for_held();
        got
    }

    /// Counts the bytes of records taken; their size is known only then, so this may overshoot the
    /// limit by one batch, which came out of the client's own prefetched bytes.
    pub(crate) fn charge_bytes(&self, id: ShareId, bytes: u64) {
        let mut state = self.state.lock();
        let State { bytes: resource, shares, .. } = &mut *state;
        resource.charge(&mut occupied(shares, id).bytes, bytes);
    }

    /// Gives records and their bytes back. Giving back none is allowed after the share has ended.
    pub(crate) fn release_held(&self, id: ShareId, records: u64, payload: u64) {
        if records == 0 && payload == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.release_held(id, records, payload);
        state.remove_if_done(id);
        state.wake_for_held();
    }

    /// Gives back one attempt together with its record, under one lock.
    pub(crate) fn release_attempt(&self, id: ShareId, payload: u64) {
        let mut state = self.state.lock();
        state.release_held(id, 1, payload);
        let State { slots, shares, .. } = &mut *state;
        slots.release(&mut occupied(shares, id).slots, 1);
        state.remove_if_done(id);
        state.wake_for_slots();
        state.wake_for_held();
    }

    /// Gives back a record whose slot is to go to its successor. False if the slot went to another
    /// share instead, which waits and has less than its part while this one has more: lanes with a
    /// backlog would keep every slot to themselves otherwise (C16).
    pub(crate) fn hand_over(&self, id: ShareId, payload: u64) -> bool {
        let mut state = self.state.lock();
        state.release_held(id, 1, payload);
        state.wake_for_held();
        !state.pass_slot_on(id)
    }

    /// Whether a share waits for room for records or their bytes.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.shares.iter().flatten().any(|share| share.waits_for_held.is_some())
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// What is in use now.
    pub(crate) fn usage(&self) -> Usage {
        let state = self.state.lock();
        Usage { slots: state.slots.used(), held: state.held.used(), bytes: state.bytes.used() }
    }
}

impl State {
    fn share(&mut self, id: ShareId) -> &mut Share {
        occupied(&mut self.shares, id)
    }

    /// Shares the guaranteed parts out anew after a share came or went.
    fn divide(&mut self) {
        let Self { slots, held, bytes, shares, members, .. } = self;
        let members = *members;
        slots.divide(members, shares.iter().flatten().map(|share| &share.slots));
        held.divide(members, shares.iter().flatten().map(|share| &share.held));
        bytes.divide(members, shares.iter().flatten().map(|share| &share.bytes));
    }

    fn release_held(&mut self, id: ShareId, records: u64, payload: u64) {
        let Self { held, bytes, shares, .. } = self;
        let share = occupied(shares, id);
        held.release(&mut share.held, records);
        bytes.release(&mut share.bytes, payload);
    }

    /// Whether there is room for records and for bytes: any at all for a share that has been
    /// draining, enough to be worth it for one that had to stop.
    fn may_take(&self, id: ShareId) -> bool {
        let Self { held, bytes, shares, .. } = self;
        let share = shares[id.0].as_ref().expect(ALIVE);
        match share.waits_for_held {
            Some(want) => {
                held.is_worth_waking(&share.held, want)
                    && bytes.is_worth_waking(&share.bytes, u64::MAX)
            }
            None => held.available(&share.held) > 0 && bytes.available(&share.bytes) > 0,
        }
    }

    fn stop_waiting_for_slots(&mut self, id: ShareId) {
        if std::mem::take(&mut self.share(id).waits_for_slots) {
            self.slot_waiters.retain(|waiter| *waiter != id);
        }
    }

    fn stop_waiting_for_held(&mut self, id: ShareId) {
        if self.share(id).waits_for_held.take().is_some() {
            self.held_waiters.retain(|waiter| *waiter != id);
        }
    }

    /// Wakes the first waiter that can be served and takes it off the queue, so that the next
    /// release wakes the next one.
    fn wake_for_slots(&mut self) {
        let Self { slots, shares, slot_waiters, .. } = self;
        let servable =
            slot_waiters.iter().position(|id| slots.available(&occupied(shares, *id).slots) > 0);
        if let Some(id) = servable.and_then(|at| slot_waiters.remove(at)) {
            let share = self.share(id);
            share.waits_for_slots = false;
            share.signal.raise(Reasons::ROOM);
        }
    }

    /// Takes a slot from a share that has more than its part and wakes a waiter for it that has less,
    /// if there is one that may have it.
    fn pass_slot_on(&mut self, id: ShareId) -> bool {
        let members = self.members;
        let Self { slots, shares, slot_waiters, .. } = self;
        if slot_waiters.is_empty() || !slots.is_long(&occupied(shares, id).slots, members) {
            return false;
        }
        slots.release(&mut occupied(shares, id).slots, 1);
        let short = slot_waiters.iter().position(|waiter| {
            let share = &occupied(shares, *waiter).slots;
            *waiter != id && slots.is_short(share, members) && slots.available(share) > 0
        });
        let Some(waiter) = short.and_then(|at| slot_waiters.remove(at)) else {
            slots.charge(&mut occupied(shares, id).slots, 1);
            return false;
        };
        let share = self.share(waiter);
        share.waits_for_slots = false;
        share.signal.raise(Reasons::ROOM);
        true
    }

    fn wake_for_held(&mut self) {
        let servable = self.held_waiters.iter().position(|id| self.may_take(*id));
        if let Some(id) = servable.and_then(|at| self.held_waiters.remove(at)) {
            let share = self.share(id);
            share.waits_for_held = None;
            share.signal.raise(Reasons::ROOM);
        }
    }

    fn remove_if_done(&mut self, id: ShareId) {
        let share = self.share(id);
        if share.left && share.slots.is_zero() && share.held.is_zero() && share.bytes.is_zero() {
            self.shares[id.0] = None;
        }
    }
}

const ALIVE: &str = "a share lives until it left and everything came back";

fn occupied(shares: &mut [Option<Share>], id: ShareId) -> &mut Share {
    shares[id.0].as_mut().expect(ALIVE)
}
