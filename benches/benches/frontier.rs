//! What the commit frontier costs: a completion in four orders, runs finished in one intake batch,
//! and the offset map of a window of a million.
//!
//! `cargo bench -p benches --bench frontier` ends with the ratios to an uncontended mutex pair
//! around one bit set, measured in turns with it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use benches::ratio::{self, Pair};
use criterion::{BenchmarkId, Criterion, Throughput};
use kpipe_core::rooms::{Frontier, Seq};
use parking_lot::Mutex;

/// Records registered before the clock starts.
const WINDOW: u64 = 1 << 14;
/// Records of one intake batch.
const BATCH: u64 = 128;

#[derive(Clone, Copy)]
enum Order {
    Ascending,
    Reversed,
    Random,
    StuckHead,
}

const ORDERS: [(&str, Order); 4] = [
    ("in order", Order::Ascending),
    ("reversed", Order::Reversed),
    ("random", Order::Random),
    ("stuck head", Order::StuckHead),
];

impl Order {
    /// The places of a window in the order in which they finish.
    fn places(self) -> Vec<u32> {
        let mut places: Vec<u32> = (0..WINDOW as u32).collect();
        match self {
            Self::Ascending => {}
            Self::Reversed => places.reverse(),
            Self::Random => shuffle(&mut places),
            Self::StuckHead => places.rotate_left(1),
        }
        places
    }
}

/// The same shuffle every time.
fn shuffle(places: &mut [u32]) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for last in (1..places.len()).rev() {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        places.swap(last, (state % (last as u64 + 1)) as usize);
    }
}

/// Appends a window of contiguous records; returns the first.
fn register(frontier: &Mutex<Frontier>, count: u64) -> Seq {
    let mut frontier = frontier.lock();
    let start = frontier.next_offset();
    let mut seqs = (start..start + count as i64).map(|offset| frontier.register(offset));
    let first = seqs.next().flatten().expect("a new offset");
    seqs.for_each(|seq| assert!(seq.is_some()));
    first
}

/// The time to finish `count` records, window after window, each under a lock of its own.
fn complete(places: &[u32], count: u64) -> Duration {
    let frontier = Mutex::new(Frontier::new(0));
    let mut took = Duration::ZERO;
    for _ in 0..count.div_ceil(WINDOW) {
        let first = register(&frontier, WINDOW);
        let began = Instant::now();
        for place in places {
            black_box(frontier.lock().complete(first.plus((*place).into())));
        }
        took += began.elapsed();
    }
    scale(took, count, WINDOW)
}

/// The time to finish `count` records in runs of a batch under one lock, at the head or behind a
/// stuck record.
fn complete_runs(stuck: bool, count: u64) -> Duration {
    let frontier = Mutex::new(Frontier::new(0));
    let mut took = Duration::ZERO;
    for _ in 0..count.div_ceil(WINDOW) {
        let mut first = register(&frontier, WINDOW + u64::from(stuck));
        let head = first;
        first = first.plus(stuck.into());
        let began = Instant::now();
        for batch in 0..WINDOW / BATCH {
            black_box(frontier.lock().complete_run(first.plus(batch * BATCH), BATCH));
        }
        took += began.elapsed();
        if stuck {
            frontier.lock().complete(head);
        }
    }
    scale(took, count, WINDOW)
}

/// The time to register `count` contiguous records under one lock a batch.
fn register_batches(count: u64) -> Duration {
    let frontier = Mutex::new(Frontier::new(0));
    let began = Instant::now();
    for batch in 0..count.div_ceil(BATCH) as i64 {
        let mut frontier = frontier.lock();
        for offset in batch * BATCH as i64..(batch + 1) * BATCH as i64 {
            black_box(frontier.register(black_box(offset)));
        }
    }
    scale(began.elapsed(), count, BATCH)
}

/// From whole windows to the number of records asked for.
fn scale(took: Duration, count: u64, unit: u64) -> Duration {
    took.mul_f64(count as f64 / (count.div_ceil(unit) * unit) as f64)
}

/// A million registered records with every so many unfinished.
fn window_with_holes(holes: u64) -> Frontier {
    const MILLION: u64 = 1_000_000;
    let frontier = Mutex::new(Frontier::new(0));
    let first = register(&frontier, MILLION);
    let step = MILLION / holes;
    for hole in 0..holes {
        frontier.lock().complete_run(first.plus(hole * step + 1), step - 1);
    }
    frontier.into_inner()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("frontier");
    group.throughput(Throughput::Elements(1));
    group.bench_function("base: mutex pair and one bit", |b| {
        b.iter_custom(ratio::lock_and_set_a_bit)
    });
    group.bench_function("register", |b| b.iter_custom(register_batches));
    for (name, order) in ORDERS {
        let places = order.places();
        group.bench_function(BenchmarkId::new("complete", name), |b| {
            b.iter_custom(|count| complete(&places, count));
        });
    }
    for (name, stuck) in [("at the head", false), ("behind a stuck record", true)] {
        group.bench_function(BenchmarkId::new("a record in a run of 128", name), |b| {
            b.iter_custom(|count| complete_runs(stuck, count));
        });
    }
    group.finish();

    let mut group = c.benchmark_group("frontier/runs of a million");
    for holes in [1, 100, 1_000, 10_000] {
        let frontier = window_with_holes(holes);
        group.bench_function(BenchmarkId::new("holes", holes), |b| {
            b.iter(|| frontier.finished_runs().fold(0, |sum, run| sum + (run.end - run.start)));
        });
    }
    group.finish();
}

/// The bars: a completion with its lock at most 2x the pair, a record of a run at most 1 ns.
fn bars() {
    println!("\nRatios, medians of rounds in turns");
    for (name, order) in ORDERS {
        let places = order.places();
        Pair::measure(WINDOW, |count| complete(&places, count), ratio::lock_and_set_a_bit)
            .print(&format!("completion with its lock, {name}"), Some(2.0));
    }
    for (name, stuck) in [("at the head", false), ("behind a stuck record", true)] {
        let pair = Pair::measure(
            WINDOW * 16,
            |count| complete_runs(stuck, count),
            // A base of 1 ns makes the ratio the bar itself.
            Duration::from_nanos,
        );
        pair.print(&format!("a record in a run of 128, {name}"), Some(1.0));
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    benches(&mut criterion);
    criterion.final_summary();
    if ratio::is_asked_for() {
        bars();
    }
}
