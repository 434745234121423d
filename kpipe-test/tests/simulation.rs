//! The contract over seeded schedules; the program `simulate` plays as many as one likes.

use kpipe_test::sim;

/// Seeds that once violated something.
const FOUND: [u64; 6] = [7_647, 20_711, 25_072, 34_538, 40_009, 5_144_338];

#[test]
fn a_few_hundred_schedules_keep_the_contract() {
    let schedules = if cfg!(debug_assertions) { 150 } else { 3_000 };
    for seed in FOUND.into_iter().chain(1..=schedules) {
        let played = sim::run(seed);
        if let Some(violation) = played.violation {
            let again =
                format!("cargo run --release -p kpipe-test --bin simulate -- --replay {seed}");
            panic!("{violation}; {again}");
        }
        assert!(played.faults > 0, "schedule {seed} has no fault and no rebalance");
    }
}

#[test]
fn a_seed_plays_the_same_each_time() {
    for seed in 1..=20 {
        assert_eq!(sim::run(seed).events, sim::run(seed).events, "schedule {seed}");
    }
}
