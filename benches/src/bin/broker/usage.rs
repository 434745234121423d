//! What a run costs this process: processor time, memory, allocations.

use std::fs;

use benches::Fallible;
use nix::sys::resource::{UsageWho, getrusage};

#[cfg(feature = "count-allocations")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

// Linked for its symbols: it is the process's malloc then, for Rust's `System` and for librdkafka.
#[cfg(feature = "jemalloc")]
use tikv_jemallocator as _;

/// Readings since the process started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Of all threads, user and system.
    pub(crate) cpu_s: f64,
    /// By Rust code; `None` where they are not counted.
    pub(crate) allocations: Option<Allocations>,
}

/// Allocations and reallocations, and the bytes they asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocations {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Usage {
    pub(crate) fn now() -> Fallible<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let seconds = |time: nix::sys::time::TimeVal| {
            time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0
        };
        Ok(Self {
            cpu_s: seconds(usage.user_time()) + seconds(usage.system_time()),
            allocations: allocations(),
        })
    }

    /// What was used since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let allocations = self.allocations.zip(before.allocations).map(|(now, then)| Allocations {
            count: now.count - then.count,
            bytes: now.bytes - then.bytes,
        });
        Self { cpu_s: self.cpu_s - before.cpu_s, allocations }
    }
}

#[cfg(feature = "count-allocations")]
fn allocations() -> Option<Allocations> {
    let stats = ALLOCATOR.stats();
    let grown = stats.bytes_reallocated.max(0) as u64;
    Some(Allocations {
        count: (stats.allocations + stats.reallocations) as u64,
        bytes: stats.bytes_allocated as u64 + grown,
    })
}

#[cfg(not(feature = "count-allocations"))]
fn allocations() -> Option<Allocations> {
    None
}

/// The most memory that was resident, in KiB; `None` where the system does not tell.
///
/// Not `getrusage`'s figure: a process inherits that from the one that started it.
pub(crate) fn rss_peak_kb() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The malloc of this process.
pub(crate) fn allocator() -> &'static str {
    // Elsewhere its functions have names of their own, and nobody calls them.
    if cfg!(all(feature = "jemalloc", target_os = "linux")) { "jemalloc" } else { "system" }
}
