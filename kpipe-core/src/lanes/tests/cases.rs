use std::collections::HashSet;

use super::{Dispatcher, LaneKey, Lanes, Naive, lane};

/// Makes each case a test of the lanes and of the model.
macro_rules! over_both {
    ($($(#[$doc:meta])* fn $name:ident<$lanes:ident>() $body:block)*) => {
        mod lanes {
            $(#[test] fn $name() { super::generic::$name::<super::Lanes<u64>>(); })*
        }
        mod model {
            $(#[test] fn $name() { super::generic::$name::<super::Naive<u64>>(); })*
        }
        mod generic {
            use super::*;
            $($(#[$doc])* pub(super) fn $name<$lanes: Dispatcher<u64>>() $body)*
        }
    };
}

over_both! {
    fn an_idle_lane_gives_the_record_back<L>() {
        let mut lanes = L::new();
        assert_eq!(lanes.park(lane(1), 10), Err(10));
        assert!(!lanes.is_busy(lane(1)));
        assert_eq!((lanes.busy(), lanes.waiting()), (0, 0));
    }

    /// G2: one at a time, in the order of arrival.
    fn g2_a_lane_hands_over_in_order_and_is_idle_after_the_last<L>() {
        let mut lanes = L::new();
        lanes.hold(lane(1));
        for item in 0..5 {
            assert_eq!(lanes.park(lane(1), item), Ok(()));
        }
        assert_eq!((lanes.busy(), lanes.waiting()), (1, 5));
        for item in 0..5 {
            assert_eq!(lanes.finish(lane(1)), Some(item));
            assert!(lanes.is_busy(lane(1)), "held by {item}");
        }
        assert_eq!(lanes.finish(lane(1)), None);
        assert!(!lanes.is_busy(lane(1)));
        assert_eq!((lanes.busy(), lanes.waiting()), (0, 0));
        assert_eq!(lanes.park(lane(1), 5), Err(5));
    }

    /// C27: other keys never wait.
    fn c27_other_keys_are_not_held_up<L>() {
        let mut lanes = L::new();
        lanes.hold(lane(1));
        lanes.park(lane(1), 1).expect("busy");
        assert_eq!(lanes.park(lane(2), 2), Err(2));
        lanes.hold(lane(2));
        lanes.park(lane(2), 3).expect("busy");
        lanes.park(lane(1), 4).expect("busy");
        assert_eq!(lanes.finish(lane(2)), Some(3));
        assert_eq!(lanes.finish(lane(2)), None);
        assert_eq!(lanes.finish(lane(1)), Some(1));
        assert_eq!(lanes.finish(lane(1)), Some(4));
        assert_eq!(lanes.finish(lane(1)), None);
    }

    /// A revoke: what waits is released, what runs keeps its lane.
    fn draining_releases_what_waits_and_nothing_that_runs<L>() {
        let mut lanes = L::new();
        lanes.hold(lane(1));
        lanes.hold(lane(2));
        for item in 0..4 {
            lanes.park(lane(1), item).expect("busy");
        }
        assert_eq!(lanes.drain(), [0, 1, 2, 3]);
        assert_eq!((lanes.busy(), lanes.waiting()), (2, 0));
        assert!(lanes.drain().is_empty());
        lanes.park(lane(1), 4).expect("busy still");
        assert_eq!(lanes.finish(lane(1)), Some(4));
        assert_eq!(lanes.finish(lane(1)), None);
        assert_eq!(lanes.finish(lane(2)), None);
        assert_eq!(lanes.busy(), 0);
    }

    /// C26: bytes, not text: zeros, invalid UTF-8, prefixes of each other and the empty key differ.
    fn c26_binary_keys_have_lanes_of_their_own<L>() {
        let keys: [&[u8]; 10] = [
            b"", b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0\0", b"\xff\xfe", b"\xff\xfd", b"a", b"a\0",
            b"A", b"0123456789abcdef0",
        ];
        let mut lanes = L::new();
        for (at, key) in keys.into_iter().enumerate() {
            assert_eq!(lanes.park(LaneKey::of(key), 0), Err(0), "{key:?}");
            lanes.hold(LaneKey::of(key));
            assert_eq!(lanes.busy(), at + 1);
        }
        for key in keys {
            assert_eq!(lanes.park(LaneKey::of(key), 0), Ok(()), "{key:?}");
        }
    }
}

/// C25: the lanes that are no key's.
#[test]
fn c25_null_keys_and_whole_partitions_are_no_keys_lane() {
    let special = [LaneKey::WHOLE_PARTITION, LaneKey::NULL_KEY];
    let keys = (0..10_000).map(lane).chain([LaneKey::of(b""), LaneKey::of(b"null")]);
    let distinct: HashSet<LaneKey> = keys.chain(special).collect();
    assert_eq!(distinct.len(), 10_004);
}

#[test]
fn keys_made_of_a_record_compare_by_value() {
    assert_eq!(LaneKey::of_value(&(7, "a")), LaneKey::of_value(&(7, "a")));
    assert_ne!(LaneKey::of_value(&(7, "a")), LaneKey::of_value(&(7, "b")));
    assert_eq!(LaneKey::of_value("a"), LaneKey::of_value(&String::from("a")));
}

/// The map takes its bucket from the low bits and its tag from the high ones.
#[test]
fn close_keys_spread_over_high_and_low_bits() {
    let hashes: Vec<u64> = (0..4_096).map(|number| lane(number).0).collect();
    for shift in [0, 57] {
        let mut hits = [0; 128];
        hashes.iter().for_each(|hash| hits[(hash >> shift) as usize % 128] += 1);
        // 32 each on average; with a fair hash, 100 does not happen in the life of this project.
        assert!(hits.iter().all(|hits| (1..100).contains(hits)), "{hits:?}");
    }
}

/// Simulations repeat by their seed, while the hashes differ with every process.
#[test]
fn the_order_of_a_drain_does_not_depend_on_the_keys() {
    let drained = |name: fn(u64) -> LaneKey| {
        let mut lanes = Lanes::new();
        (0..100).for_each(|number| lanes.hold(name(number)));
        for item in (0..300).rev() {
            lanes.park(name(item * 7 % 100), item).expect("busy");
        }
        for number in (0..100).step_by(3) {
            lanes.finish(name(number));
        }
        lanes.drain().collect::<Vec<u64>>()
    };
    assert_eq!(drained(lane), drained(|number| LaneKey::of_value(&number)));
}

mod bugs_of_the_caller {
    use super::*;

    #[test]
    #[cfg_attr(debug_assertions, should_panic = "is running already")]
    fn holding_twice_fails_a_debug_build_and_loses_nobody_who_waits() {
        let mut lanes = Lanes::new();
        lanes.hold(lane(1));
        lanes.park(lane(1), 1).expect("busy");
        lanes.hold(lane(1));
        assert_eq!(lanes.finish(lane(1)), Some(1));
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic = "is not running")]
    fn finishing_an_idle_lane_fails_a_debug_build_and_changes_nothing() {
        let mut lanes: Lanes<u64> = Lanes::new();
        assert_eq!(lanes.finish(lane(1)), None);
        assert_eq!(lanes.busy(), 0);
    }

    #[test]
    #[should_panic = "each is one u64"]
    fn what_is_no_lane_key_is_not_hashed() {
        std::hash::Hasher::write(&mut crate::lanes::Identity::default(), b"bytes");
    }
}
