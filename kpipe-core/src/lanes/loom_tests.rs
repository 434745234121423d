//! The lanes under a mutex, as the partition holds them.

use std::sync::Arc;

use loom::thread;

use super::{LaneKey, Lanes};
use crate::loom_support::{Branch, OneAtATime, explore, take_either};
use crate::sync::Mutex;

const LANE: LaneKey = LaneKey::NULL_KEY;

/// One lane and its handlers.
#[derive(Debug)]
struct Key {
    lanes: Mutex<Lanes<u64>>,
    handlers: OneAtATime,
}

/// How a record that arrived got on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrived {
    Parked,
    Ran,
}

impl Key {
    fn new() -> Arc<Self> {
        Arc::new(Self { lanes: Mutex::new(Lanes::new()), handlers: OneAtATime::default() })
    }

    /// A key of which record 0 is about to run.
    fn busy_with_0() -> Arc<Self> {
        let key = Self::new();
        key.lanes.lock().hold(LANE);
        key
    }

    /// Parks a record, or takes the idle lane and runs it and its successors.
    fn arrive(&self, record: u64) -> Arrived {
        let idle = {
            let mut lanes = self.lanes.lock();
            let idle = lanes.park(LANE, record).is_err();
            if idle {
                lanes.hold(LANE);
            }
            idle
        };
        if !idle {
            return Arrived::Parked;
        }
        self.run(record);
        Arrived::Ran
    }

    /// Runs a record that has the lane, then its successors, until nobody follows.
    fn run(&self, record: u64) {
        let mut next = Some(record);
        while let Some(record) = next {
            self.handlers.run(record);
            next = self.lanes.lock().finish(LANE);
        }
    }
}

/// R6, the removal of an idle lane against arrivals for it: no record is left behind in a lane that
/// went, and none takes a lane that is not idle.
#[test]
fn loom_lanes_r6_removal_of_an_idle_lane_against_arrivals() {
    static REMOVED: Branch = Branch::new("arrived after the removal");
    static HANDED_OVER: Branch = Branch::new("handed over");
    explore(&[&REMOVED, &HANDED_OVER], || {
        let key = Key::busy_with_0();
        let worker = {
            let key = key.clone();
            thread::spawn(move || key.run(0))
        };
        for record in 1..3 {
            take_either(key.arrive(record) == Arrived::Ran, &REMOVED, &HANDED_OVER);
        }
        worker.join().unwrap();
        assert_eq!(key.handlers.ran(), [0, 1, 2], "each once, in order");
        assert!(key.lanes.lock().park(LANE, 3).is_err(), "idle again");
    });
}

/// R6, two arrivals for one key that is idle: one takes the lane, the other waits behind it or finds
/// it idle again.
#[test]
fn loom_lanes_r6_two_arrivals_for_one_key() {
    static PARKED: Branch = Branch::new("one waited for the other");
    static BOTH_RAN: Branch = Branch::new("one came after the other had gone");
    explore(&[&PARKED, &BOTH_RAN], || {
        let key = Key::new();
        let other = {
            let key = key.clone();
            thread::spawn(move || key.arrive(2))
        };
        let mine = key.arrive(1);
        let both = [mine, other.join().unwrap()];
        take_either(both.contains(&Arrived::Parked), &PARKED, &BOTH_RAN);
        assert_ne!(both, [Arrived::Parked; 2]);
        let mut ran = key.handlers.ran();
        ran.sort_unstable();
        assert_eq!(ran, [1, 2]);
    });
}

/// R6 against a revoke: what waits is given up or handed over, never both and never neither.
#[test]
fn loom_lanes_r6_hand_over_against_a_drain() {
    static HANDED_OVER: Branch = Branch::new("all handed over before the drain");
    static BETWEEN: Branch = Branch::new("one handed over, one given up");
    static GIVEN_UP: Branch = Branch::new("all given up before the hand-over");
    explore(&[&HANDED_OVER, &BETWEEN, &GIVEN_UP], || {
        let key = Key::busy_with_0();
        for record in [1, 2] {
            key.lanes.lock().park(LANE, record).unwrap();
        }
        let worker = {
            let key = key.clone();
            thread::spawn(move || key.run(0))
        };
        let given_up: Vec<_> = key.lanes.lock().drain().collect();
        worker.join().unwrap();
        match (&given_up[..], &key.handlers.ran()[..]) {
            ([1, 2], [0]) => GIVEN_UP.take(),
            ([2], [0, 1]) => BETWEEN.take(),
            ([], [0, 1, 2]) => HANDED_OVER.take(),
            other => panic!("{other:?}"),
        }
        let lanes = key.lanes.lock();
        assert_eq!((lanes.busy(), lanes.waiting()), (0, 0));
    });
}
