//! What the lanes cost in bytes.

use super::{LaneKey, Lanes, lane};

/// As large as a record, and with a spare bit pattern like one.
type Item = (Box<u64>, [u64; 15]);

fn item(number: u64) -> Item {
    (Box::new(number), [0; 15])
}

#[test]
fn a_lane_nobody_waits_in_allocates_nothing() {
    let mut lanes: Lanes<Item> = Lanes::new();
    assert_eq!(lanes.heap_bytes(), 0);
    (0..10_000).for_each(|number| lanes.hold(lane(number)));
    assert!(lanes.heap_bytes() < 10_000 * 34, "{}", lanes.heap_bytes());
    assert_eq!(lanes.waiting.heap_bytes(), 0);
}

#[test]
fn a_waiting_record_costs_its_size_and_a_link() {
    let mut lanes = Lanes::new();
    lanes.hold(LaneKey::NULL_KEY);
    // The slab doubles: just after filling 2^14 slots it holds no more than that.
    for number in 0..1 << 14 {
        lanes.park(LaneKey::NULL_KEY, item(number)).expect("busy");
    }
    let each = lanes.waiting.heap_bytes() / (1 << 14);
    assert_eq!(each, size_of::<Item>() + 8);
}

/// A million keys, a thousand at a time, each with a record behind it.
#[test]
fn memory_is_flat_while_keys_come_and_go() {
    let mut lanes = Lanes::new();
    let mut settled = 0;
    for spell in 0..1_000 {
        let keys = spell * 1_000..(spell + 1) * 1_000;
        for key in keys.clone() {
            lanes.hold(lane(key));
            lanes.park(lane(key), item(key)).expect("busy");
        }
        for key in keys {
            assert_eq!(lanes.finish(lane(key)).map(|(number, _)| *number), Some(key));
            assert!(lanes.finish(lane(key)).is_none());
        }
        if spell == 10 {
            settled = lanes.heap_bytes();
        }
    }
    assert_eq!(lanes.busy(), 0);
    // How many lanes fit into the same memory depends a little on where their hashes fall; a leak
    // would have added up a hundred times by now.
    assert!(lanes.heap_bytes() <= settled + settled / 10, "{} after {settled}", lanes.heap_bytes());
}

/// With records waiting at all times, so that the slab never starts over.
#[test]
fn slots_are_used_again_while_others_wait() {
    let mut lanes = Lanes::new();
    lanes.hold(LaneKey::NULL_KEY);
    lanes.park(LaneKey::NULL_KEY, item(0)).expect("busy");
    for key in 0..100_000 {
        lanes.hold(lane(key));
        lanes.park(lane(key), item(key)).expect("busy");
        lanes.finish(lane(key));
        lanes.finish(lane(key));
    }
    assert!(lanes.waiting.heap_bytes() <= 4 * (size_of::<Item>() + 8));
}

#[test]
fn a_spell_of_a_hundred_thousand_lanes_leaves_little_behind() {
    let mut lanes = Lanes::new();
    for key in 0..100_000 {
        lanes.hold(lane(key));
        lanes.park(lane(key), item(key)).expect("busy");
    }
    let peak = lanes.heap_bytes();
    for key in 0..100_000 {
        lanes.finish(lane(key));
        lanes.finish(lane(key));
    }
    // The next, smaller spell shows the slab that it does not need so much.
    lanes.hold(lane(0));
    lanes.park(lane(0), item(0)).expect("busy");
    lanes.finish(lane(0));
    lanes.finish(lane(0));
    assert!(peak > 100_000 * size_of::<Item>());
    assert!(lanes.heap_bytes() < 64 * 1024, "{}", lanes.heap_bytes());
}
