//! One run in a process of its own: memory, processor time and allocations are then that run's, and
//! no arm inherits another's heap.

use std::env;
use std::process::{Command, Stdio, exit};
use std::thread;
use std::time::{Duration, Instant};

use benches::Fallible;
use benches::arms::{self, Run};
use benches::handler::Handler;
use benches::ledger::Ledger;
use benches::work::{Nothing, PendOnce, ShortWait, Sleep, TOKIO_FROM, Work};
use tokio::runtime;

use crate::args::ChildSpec;
use crate::report::Row;
use crate::usage::{self, Usage};

/// Starts this program anew for one run, and waits for its row.
pub(crate) fn spawn(spec: &ChildSpec) -> Fallible<Row> {
    let output = Command::new(env::current_exe()?)
        .arg("--child")
        .arg(serde_json::to_string(spec)?)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} (round {}): {}", spec.run.arm, spec.rep, output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Does the run and prints its row.
pub(crate) fn run(spec: &ChildSpec) -> Fallible<()> {
    end_with_parent();
    let work = Duration::from_micros(spec.work_us);
    let row = if spec.pend_once {
        measure(spec, PendOnce)
    } else if work.is_zero() {
        measure(spec, Nothing)
    } else if work < TOKIO_FROM {
        measure(spec, ShortWait::new(work))
    } else {
        measure(spec, Sleep(work))
    }?;
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}

fn measure<W: Work + 'static>(spec: &ChildSpec, work: W) -> Fallible<Row> {
    let full = spec.ledger && spec.run.arm.has_handlers();
    let ledger = Ledger::new(spec.run.records, spec.run.partitions, full);
    // For the life of the process: handlers then hold a plain reference, in every arm alike.
    let run: &'static Run<W> =
        Box::leak(Box::new(Run { spec: spec.run.clone(), handler: Handler { ledger, work } }));
    give_up_after(Duration::from_secs(spec.timeout_s), run);

    let runtime =
        runtime::Builder::new_multi_thread().worker_threads(spec.workers).enable_all().build()?;
    let before = Usage::now()?;
    let started = Instant::now();
    runtime.block_on(arms::run(run))?;
    let total = started.elapsed();
    let used = Usage::now()?.since(&before);

    let totals = run.handler.ledger.totals();
    let per_record = |value: u64| value as f64 / spec.run.records as f64;
    Ok(Row {
        arm: spec.run.arm,
        rep: spec.rep,
        records: spec.run.records,
        work_us: spec.work_us,
        pend_once: spec.pend_once,
        max_in_flight: spec.run.max_in_flight,
        workers: spec.workers,
        steady_s: totals.steady.as_secs_f64(),
        total_s: total.as_secs_f64(),
        per_s: spec.run.records as f64 / totals.steady.as_secs_f64(),
        handled: totals.handled,
        distinct: totals.distinct,
        duplicates: totals.duplicates,
        order_breaks: totals.order_breaks,
        key_overlaps: totals.key_overlaps,
        peak_in_flight: totals.peak_in_flight,
        work_us_actual_mean: totals.work_us_mean,
        committed_sum: 0,
        cpu_s: used.cpu_s,
        rss_peak_kb: usage::rss_peak_kb(),
        allocs_per_record: used.allocations.map(|used| per_record(used.count)),
        alloc_bytes_per_record: used.allocations.map(|used| per_record(used.bytes)),
        allocator: usage::allocator().to_owned(),
        allocations_counted: used.allocations.is_some(),
        ledger: full,
    })
}

/// A consumer that never gets its last record would wait for ever: says how far it came and ends the
/// process.
fn give_up_after<W: Work>(time: Duration, run: &'static Run<W>) {
    thread::spawn(move || {
        thread::sleep(time);
        eprintln!("{} is not done after {time:?}: {:?}", run.spec.arm, run.handler.ledger.totals());
        exit(1);
    });
}

/// A parent that is killed cannot end its run.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        eprintln!("this process may outlive its parent: {error}");
    }
}
