//! How many cases a property test runs, and how long its sequences of operations are: one place for
//! all rooms.

use std::env;

use proptest::collection::vec;
use proptest::prelude::*;

/// Says how many cases each property runs, for a release build: `KPIPE_PROPERTY_CASES=10000`.
const VARIABLE: &str = "KPIPE_PROPERTY_CASES";
/// Without it: no more than a debug build gets through in a second or two.
const FEW: u32 = 100;
/// The most operations of one case.
pub(crate) const LONGEST: usize = 2_000;

/// The settings of every property.
pub(crate) fn cases() -> ProptestConfig {
    let cases = match env::var(VARIABLE) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{VARIABLE}={text:?}: a number of cases"))
        }
        Err(_) => FEW,
    };
    let mut config = ProptestConfig::with_cases(cases);
    // proptest's own bound is too low to delete operations one by one from the longest of sequences.
    // It stays where PROPTEST_MAX_SHRINK_ITERS says otherwise.
    if config.max_shrink_iters == u32::MAX {
        config.max_shrink_iters = 50_000;
        config.max_shrink_time = 60_000;
    }
    config
}

/// Sequences of 1 to [`LONGEST`] operations: mostly short ones, which reach most states and are quick, and
/// one in 20 long ones, most of them of full length. Each can shrink to a single operation.
pub(crate) fn sequences<S: Strategy>(op: impl Fn() -> S) -> impl Strategy<Value = Vec<S::Value>> {
    let long = (vec(op(), 0..=LONGEST), vec(op(), 1..=LONGEST)).prop_map(|(mut ops, more)| {
        ops.extend(more);
        ops.truncate(LONGEST);
        ops
    });
    prop_oneof![
        8 => vec(op(), 1..=20),
        8 => vec(op(), 1..=120),
        3 => vec(op(), 1..=600),
        1 => long,
    ]
}
