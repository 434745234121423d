//! The in-memory broker, driven as a bare `Source` and by the runtime.

mod bare;
mod commits;
mod faults;
mod logs;
mod producing;
mod queues;
mod rebalance;
mod storm;
mod whole;
