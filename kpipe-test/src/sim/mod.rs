//! The seeded simulation: production runtimes over the broker in memory, on a paused clock, with whatever
//! can go wrong drawn from a seed; and a checker that replays what happened against the contract.
//!
//! For the program `simulate` and this crate's own tests; outside semver.

mod check;
mod course;
mod plan;
mod shrink;
mod world;

use std::fmt::Write;

use self::plan::Plan;
use self::world::play;

/// What came of the schedule of a seed.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its seed.
    pub seed: u64,
    /// Things that happened: steps of records, commits, writes.
    pub events: usize,
    /// Faults and rebalances that were scripted.
    pub faults: usize,
    /// The promise that does not hold, and why.
    pub violation: Option<String>,
}

/// Plays the schedule of a seed.
pub fn run(seed: u64) -> Schedule {
    let plan = Plan::of(seed);
    let played = play(&plan);
    Schedule {
        seed,
        events: played.events,
        faults: plan.faults(),
        violation: played.violation.map(|violation| violation.to_string()),
    }
}

/// Makes the schedule of a seed that violates something as short as it can be made within so many tries,
/// and writes it down. `None` if it violates nothing.
pub fn shrink(seed: u64, tries: usize) -> Option<String> {
    let (plan, violation) = shrink::shrink(Plan::of(seed), tries)?;
    let mut text = format!("{violation}\n{:?}\n", plan.settings);
    let kind = if plan.cooperative { "cooperative" } else { "eager" };
    let _ = writeln!(text, "{} member(s), {} partition(s), {kind}", plan.members, plan.partitions);
    for (at, act) in &plan.acts {
        let _ = writeln!(text, "{at:>10.3?}  {act:?}");
    }
    Some(text)
}
