//! A run's line of JSON.

use benches::arms::Arm;
use serde::{Deserialize, Serialize};

/// What one run of one arm gave. A field that was not measured is null.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Row {
    pub(crate) arm: Arm,
    /// Which round of all arms the run belongs to, from 1.
    pub(crate) rep: u32,
    pub(crate) records: u64,
    pub(crate) work_us: u64,
    pub(crate) pend_once: bool,
    pub(crate) max_in_flight: usize,
    pub(crate) workers: usize,
    /// From the start of the first handler to the end of the last.
    pub(crate) steady_s: f64,
    /// From building the client until it is closed.
    pub(crate) total_s: f64,
    /// `records / steady_s`.
    pub(crate) per_s: f64,
    /// Handlers that ended.
    pub(crate) handled: u64,
    /// Records of which a handler ended.
    pub(crate) distinct: Option<u64>,
    /// Handlers that ended for a record that had been handled before.
    pub(crate) duplicates: Option<u64>,
    /// Handlers that started after one of a later record of the same key.
    pub(crate) order_breaks: Option<u64>,
    /// Handlers that started while another of the same key was running.
    pub(crate) key_overlaps: Option<u64>,
    /// The most handlers that were running at once.
    pub(crate) peak_in_flight: Option<u64>,
    /// From a handler's start to its end; at 0 work of one in 1,024.
    pub(crate) work_us_actual_mean: Option<f64>,
    /// The group's committed offsets, asked of the broker after the consumer was closed. Equal to
    /// `records` if the consumer committed what it finished.
    pub(crate) committed_sum: i64,
    /// Processor time of the process from building the client until it is closed.
    pub(crate) cpu_s: f64,
    pub(crate) rss_peak_kb: Option<u64>,
    /// By Rust code; librdkafka's own are not in it.
    pub(crate) allocs_per_record: Option<f64>,
    pub(crate) alloc_bytes_per_record: Option<f64>,
    /// The malloc of the process, librdkafka's included.
    pub(crate) allocator: String,
    /// Whether every allocation also paid for being counted.
    pub(crate) allocations_counted: bool,
    /// Whether every record was accounted for, or only counted.
    pub(crate) ledger: bool,
}
