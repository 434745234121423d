//! Plays schedules drawn from seeds against the contract, on every processor.
//!
//!     simulate [--schedules N] [--seed S] [--seconds T] [--threads N]
//!     simulate --replay SEED
//!
//! Seeds count up from S (default 1) until N schedules (default 1,000) were played or T seconds are over.
//! Each violation is a JSON line; the last line is what was played. Exits with 1 if there was a violation.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kpipe_test::sim::{self, Schedule};
use serde_json::json;

/// How often a schedule that violates something is played at most to make it shorter.
const TRIES: usize = 2_000;
/// So many violations are enough.
const ENOUGH: usize = 5;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1).collect()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!(
                "{error}; usage: simulate [--schedules N] [--seed S] [--seconds T] [--threads N] [--replay SEED]"
            );
            return ExitCode::from(2);
        }
    };
    match args.replay {
        Some(seed) => replay(seed),
        None => play(&args),
    }
}

#[derive(Debug)]
struct Args {
    schedules: u64,
    seed: u64,
    seconds: u64,
    threads: u64,
    replay: Option<u64>,
}

impl Args {
    fn parse(mut words: VecDeque<String>) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let mut args = Self { schedules: 1_000, seed: 1, seconds: u64::MAX, threads, replay: None };
        while let Some(name) = words.pop_front() {
            let value = words.pop_front().ok_or_else(|| format!("{name} needs a number"))?;
            let number =
                value.parse().map_err(|_| format!("{name} = {value}: must be a number from 0"))?;
            match name.as_str() {
                "--schedules" => args.schedules = number,
                "--seed" => args.seed = number,
                "--seconds" => args.seconds = number,
                "--threads" => args.threads = number.max(1),
                "--replay" => args.replay = Some(number),
                _ => return Err(format!("{name} is not an option")),
            }
        }
        Ok(args)
    }
}

fn replay(seed: u64) -> ExitCode {
    match sim::shrink(seed, TRIES) {
        None => {
            println!("{}", json!({"seed": seed, "violation": null}));
            ExitCode::SUCCESS
        }
        Some(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn play(args: &Args) -> ExitCode {
    let begun = Instant::now();
    let until = Duration::from_secs(args.seconds);
    let (next, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let played = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                while !enough.load(Relaxed) && begun.elapsed() < until {
                    let index = next.fetch_add(1, Relaxed);
                    if index >= args.schedules {
                        return;
                    }
                    let schedule = sim::run(args.seed.wrapping_add(index));
                    let mut played = played.lock().expect("nobody panics with it");
                    played.push(schedule);
                    let violations = played.iter().filter(|one| one.violation.is_some());
                    enough.store(violations.count() >= ENOUGH, Relaxed);
                }
            });
        }
    });
    let played = played.into_inner().expect("nobody panics with it");
    report(args, &played, begun.elapsed())
}

fn report(args: &Args, played: &[Schedule], took: Duration) -> ExitCode {
    let mut violated: Vec<&Schedule> =
        played.iter().filter(|schedule| schedule.violation.is_some()).collect();
    violated.sort_unstable_by_key(|schedule| schedule.seed);
    for schedule in &violated {
        let again = format!(
            "cargo run --release -p kpipe-test --bin simulate -- --replay {}",
            schedule.seed
        );
        let line = json!({"seed": schedule.seed, "violation": schedule.violation, "replay": again});
        println!("{line}");
    }
    let summary = json!({
        "schedules": played.len(),
        "first_seed": args.seed,
        "violations": violated.len(),
        "first_violation_after": violated.first().map(|schedule| schedule.seed - args.seed + 1),
        "per_minute": (played.len() as f64 / took.as_secs_f64() * 60.0).round(),
        "threads": args.threads,
        "events": distribution(played.iter().map(|schedule| schedule.events)),
        "faults": distribution(played.iter().map(|schedule| schedule.faults)),
    });
    println!("{summary}");
    if violated.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn distribution(values: impl Iterator<Item = usize>) -> serde_json::Value {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    let at = |share: f64| {
        let last = values.len().checked_sub(1)?;
        values.get((last as f64 * share).round() as usize)
    };
    json!({"min": at(0.0), "p10": at(0.1), "median": at(0.5), "p90": at(0.9), "max": at(1.0)})
}
