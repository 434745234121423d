//! What a running consumer shows of itself.

mod stats;

pub use self::stats::{FailedRecord, PartitionStats, Stats};
