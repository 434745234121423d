//! The whole runtime over a source in memory, on a paused clock: deterministic, and nothing sleeps
//! for real.

mod commits;
mod failures;
mod limits;
mod memory;
mod ordering;
mod probe;
mod rebalance;
mod settings;
mod shutdown;
