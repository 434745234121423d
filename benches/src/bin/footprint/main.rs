//! What KPipe takes when nothing moves: processor time at rest and memory for each record held.
//!
//! `cargo run --release -p benches --features count-allocations --bin footprint [-- --bootstrap HOST:PORT]`
//! prints a Markdown table. Each measurement runs in a process of its own.
#![forbid(unsafe_code)]

mod idle;
mod memory;

use std::env;
use std::process::{Command, id};
use std::time::{SystemTime, UNIX_EPOCH};

use benches::Fallible;
use benches::cluster::Cluster;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Measures KPipe at rest and with records held.
#[derive(Parser)]
struct Args {
    /// A broker that runs already; one is started otherwise.
    #[arg(long, env = "KPIPE_KAFKA")]
    bootstrap: Option<String>,
    /// One measurement, in this process.
    #[arg(long, hide = true)]
    only: Option<String>,
}

const ALL: [&str; 4] = ["idle-empty", "idle-held-back", "waiting", "running"];

fn main() -> Fallible<()> {
    let args = Args::parse();
    if let Some(only) = &args.only {
        let bootstrap = args.bootstrap.as_deref().ok_or("--only needs --bootstrap")?;
        let runtime = tokio::runtime::Runtime::new()?;
        return runtime.block_on(async {
            match only.as_str() {
                "idle-empty" => idle::empty(bootstrap).await,
                "idle-held-back" => idle::held_back(bootstrap).await,
                "waiting" => memory::waiting(bootstrap).await,
                "running" => memory::running(bootstrap).await,
                other => Err(format!("--only {other}: one of {ALL:?}").into()),
            }
        });
    }
    let cluster = Cluster::reach(args.bootstrap.as_deref())?;
    println!("| measured | value |\n| --- | ---: |");
    for only in ALL {
        let status = Command::new(env::current_exe()?)
            .args(["--only", only, "--bootstrap", cluster.address()])
            .status()?;
        if !status.success() {
            return Err(format!("{only}: {status}").into());
        }
    }
    Ok(())
}

/// A group that nobody had before.
fn group(name: &str) -> Fallible<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(format!("footprint-{name}-{now}-{}", id()))
}

/// Looks again until it is so.
async fn until(so: impl Fn() -> bool) -> Fallible<()> {
    let begun = std::time::Instant::now();
    while !so() {
        if begun.elapsed().as_secs() > 60 {
            return Err("nothing to measure within 60 s".into());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Ok(())
}
