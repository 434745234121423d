//! The broker benchmark: the same records through several consumers, each run in a process of its
//! own, interleaved, and every record accounted for. `benches/README.md` says how to read it.

#![forbid(unsafe_code)]

mod args;
mod child;
mod machine;
mod report;
mod table;
mod usage;

use benches::Fallible;
use benches::arms::{Arm, RunSpec};
use benches::topic::Topic;
use clap::Parser;

use crate::args::{Args, ChildSpec};
use crate::report::Row;
use benches::cluster::Cluster;

fn main() -> Fallible<()> {
    let args = Args::parse();
    match &args.child {
        Some(spec) => child::run(&serde_json::from_str(spec)?),
        None => parent(&args),
    }
}

/// Fills the topic, runs the arms in turn, and prints a line per run and the table.
fn parent(args: &Args) -> Fallible<()> {
    args.check()?;
    let cluster = Cluster::reach(args.bootstrap.as_deref())?;
    let topic = Topic::fill(cluster.address(), args.records, args.partitions)?;

    // The broker's own code is compiled while it first serves a read, and the file cache fills: one
    // run that is not counted takes that away from the first arm.
    if !args.cold {
        run(args, &cluster, &topic, args.arms[0], 0)?;
    }
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); args.arms.len()];
    for rep in 1..=args.reps {
        for (&arm, rows) in args.arms.iter().zip(&mut rows) {
            let row = run(args, &cluster, &topic, arm, rep)?;
            println!("{}", serde_json::to_string(&row)?);
            rows.push(row);
        }
    }
    print!("\n{}", table::render(args, &rows));
    if !cluster.is_own() {
        topic.delete()?;
    }
    Ok(())
}

fn run(args: &Args, cluster: &Cluster, topic: &Topic, arm: Arm, rep: u32) -> Fallible<Row> {
    let group = format!("{}-{arm}-{rep}", topic.name());
    let run = RunSpec {
        arm,
        bootstrap: cluster.address().to_owned(),
        topic: topic.name().to_owned(),
        group: group.clone(),
        records: args.records,
        partitions: args.partitions,
        max_in_flight: args.max_in_flight,
        max_held: args.max_held,
        set: args.set.clone(),
    };
    let spec = ChildSpec {
        rep,
        work_us: args.work_us,
        pend_once: args.pend_once,
        workers: args.workers,
        ledger: !args.no_ledger,
        timeout_s: args.timeout_s,
        run,
    };
    let mut row = child::spawn(&spec)?;
    row.committed_sum = topic.committed_sum(&group)?;
    Ok(row)
}
