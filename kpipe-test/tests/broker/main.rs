//! The in-memory broker, driven as a bare `Source` and by the runtime.

mod bare;
mod rebalance;
mod whole;
