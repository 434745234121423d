//! What the benchmarks of KPipe share. `README.md` beside this crate says what they measure.

#![forbid(unsafe_code)]

pub mod arms;
pub mod cluster;
pub mod handler;
pub mod ledger;
pub mod memory;
pub mod ratio;
mod timer;
pub mod topic;
pub mod work;
pub mod workload;

/// What a bench ends with.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
