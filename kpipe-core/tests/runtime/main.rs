//! The whole runtime over a source in memory, on a paused clock: deterministic, and nothing sleeps
//! for real.

mod commits;
mod failures;
mod limits;
mod limits_of_one;
mod memory;
mod ordering;
mod probe;
mod rebalance;
mod runtime_end;
mod settings;
mod shutdown;
mod stopping;
mod telling;
mod user_code;
mod wakeups;
