//! The command line, and what a child process is told.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use benches::Fallible;
use benches::arms::{Arm, RunSpec};
use clap::Parser;
use serde::{Deserialize, Serialize};

/// Runs several consumers over the same topic of an Apache Kafka, interleaved, each in a process of
/// its own, and prints a JSON line per run and a Markdown table.
#[derive(Debug, Parser)]
#[command(name = "broker")]
pub(crate) struct Args {
    /// Which consumers to run, comma separated; they alternate in this order.
    #[arg(long, value_delimiter = ',', required_unless_present = "child")]
    pub(crate) arms: Vec<Arm>,

    /// Records in the topic; each run reads all of them (1 to 100,000,000).
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) records: u64,

    /// Partitions of the topic (1 to 1,000).
    #[arg(long, default_value_t = 8)]
    pub(crate) partitions: u32,

    /// How long a handler waits, in microseconds. At 0 it is ready at its first poll; below 5,000
    /// it waits on the bench's own timer thread, from there on `tokio::time::sleep`.
    #[arg(long, default_value_t = 0)]
    pub(crate) work_us: u64,

    /// At 0 work, handlers are pending once and wake themselves.
    #[arg(long)]
    pub(crate) pend_once: bool,

    /// How many handlers may run at once (1 to 1,000,000).
    #[arg(long, default_value_t = 1_000)]
    pub(crate) max_in_flight: usize,

    /// How many records KPipe may hold (running or waiting); by default as many as it does.
    #[arg(long)]
    pub(crate) max_held: Option<u64>,

    /// Address of a running broker; `KPIPE_KAFKA` does the same. Without either, `scripts/kafka`
    /// starts one for the time of this program.
    #[arg(long, env = "KPIPE_KAFKA", hide_env_values = true)]
    pub(crate) bootstrap: Option<String>,

    /// How often each arm runs (1 to 1,000).
    #[arg(long, default_value_t = 3)]
    pub(crate) reps: u32,

    /// Worker threads of the tokio runtime; by default one for each core.
    #[arg(long, default_value_t = cores())]
    pub(crate) workers: usize,

    /// Only count records: what the accounting finds is then unknown, and its cost gone.
    #[arg(long)]
    pub(crate) no_ledger: bool,

    /// Leave out the first, uncounted run that warms the broker up.
    #[arg(long)]
    pub(crate) cold: bool,

    /// An option of librdkafka for every arm, as KEY=VALUE; may be repeated.
    #[arg(long, value_parser = key_value, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<(String, String)>,

    /// A run that takes longer than this many seconds has failed.
    #[arg(long, default_value_t = 900)]
    pub(crate) timeout_s: u64,

    /// One run, in this process; what the program calls itself with.
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// What a child process is told.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ChildSpec {
    /// Which round of all arms this is, from 1; 0 is the one that warms the broker up.
    pub(crate) rep: u32,
    pub(crate) work_us: u64,
    pub(crate) pend_once: bool,
    pub(crate) workers: usize,
    pub(crate) ledger: bool,
    pub(crate) timeout_s: u64,
    pub(crate) run: RunSpec,
}

impl Args {
    /// What clap's types do not say.
    pub(crate) fn check(&self) -> Fallible<()> {
        between("records", self.records, 1, 100_000_000)?;
        between("partitions", self.partitions.into(), 1, 1_000)?;
        between("max-in-flight", self.max_in_flight as u64, 1, 1_000_000)?;
        between("reps", self.reps.into(), 1, 1_000)?;
        between("workers", self.workers as u64, 1, 1_000)?;
        if self.pend_once && self.work_us > 0 {
            return Err("pend-once with work-us above 0: such handlers are pending anyway".into());
        }
        for (place, arm) in self.arms.iter().enumerate() {
            if self.arms[..place].contains(arm) {
                return Err(format!("arms: {arm} stands twice; --reps repeats").into());
            }
        }
        Ok(())
    }
}

fn between(name: &str, value: u64, least: u64, most: u64) -> Fallible<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} = {value}: must be between {least} and {most}").into())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text}: wants KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}
