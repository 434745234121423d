use proptest::collection::vec;
use proptest::prelude::*;

use super::{Dispatcher, LaneKey, Lanes, Naive, lane};
use crate::property::{cases, sequences};

#[derive(Clone, Debug)]
enum Op {
    /// A record comes: it waits behind its key or takes the lane.
    Arrive {
        key: u64,
    },
    /// The running record of a lane ends, if one runs.
    Finish {
        key: u64,
    },
    /// Records of many keys come, or those of many keys end.
    ArriveMany {
        from: u64,
        count: u64,
    },
    FinishMany {
        from: u64,
        count: u64,
    },
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    let key = prop_oneof![3 => 0..4_u64, 1 => 0..3_000_u64];
    let many = || (0..500_u64, prop_oneof![9 => 1..100_u64, 1 => 1..3_000_u64]);
    prop_oneof![
        20 => key.clone().prop_map(|key| Op::Arrive { key }),
        20 => key.prop_map(|key| Op::Finish { key }),
        2 => many().prop_map(|(from, count)| Op::ArriveMany { from, count }),
        3 => many().prop_map(|(from, count)| Op::FinishMany { from, count }),
        1 => Just(Op::Drain),
    ]
}

/// What waits: its key and the number of its arrival.
type Item = (u64, usize);

struct Both {
    fast: Lanes<Item>,
    naive: Naive<Item>,
    arrived: usize,
}

impl Both {
    fn run(&mut self, op: Op) {
        match op {
            Op::Arrive { key } => self.arrive(key),
            Op::Finish { key } => self.finish(key),
            Op::ArriveMany { from, count } => {
                (from..from + count).for_each(|key| self.arrive(key));
            }
            Op::FinishMany { from, count } => {
                (from..from + count).for_each(|key| self.finish(key));
            }
            Op::Drain => {
                let (mut fast, mut naive) = (Dispatcher::drain(&mut self.fast), self.naive.drain());
                let mut lanes: Vec<u64> = fast.iter().map(|(key, _)| *key).collect();
                lanes.dedup();
                let apart = lanes.len();
                lanes.sort_unstable();
                lanes.dedup();
                assert_eq!(lanes.len(), apart, "lane after lane");
                // Stable: the order within a lane is compared, the order of the lanes is not.
                fast.sort_by_key(|(key, _)| *key);
                naive.sort_by_key(|(key, _)| *key);
                assert_eq!(fast, naive);
            }
        }
        assert_eq!(self.fast.waiting(), self.naive.waiting());
        assert_eq!(self.fast.busy(), self.naive.busy());
    }

    fn arrive(&mut self, key: u64) {
        let item = (key, self.arrived);
        self.arrived += 1;
        let parked = self.naive.park(lane(key), item);
        assert_eq!(self.fast.park(lane(key), item), parked);
        if parked.is_err() {
            self.fast.hold(lane(key));
            self.naive.hold(lane(key));
        }
    }

    fn finish(&mut self, key: u64) {
        let busy = self.naive.is_busy(lane(key));
        assert_eq!(self.fast.is_busy(lane(key)), busy);
        if busy {
            assert_eq!(self.fast.finish(lane(key)), self.naive.finish(lane(key)));
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever comes and ends in whatever order, the lanes answer as their definition does.
    #[test]
    fn agree_with_the_model(ops in sequences(op)) {
        let mut both = Both { fast: Lanes::new(), naive: Naive::new(), arrived: 0 };
        for op in ops {
            both.run(op);
        }
    }

    /// C26: keys are equal if and only if their bytes are.
    #[test]
    fn c26_keys_compare_by_bytes(a in vec(any::<u8>(), 0..40), b in vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(LaneKey::of(&a) == LaneKey::of(&b), a == b);
        prop_assert_eq!(LaneKey::of(&a), LaneKey::of(&a.clone()));
    }
}
