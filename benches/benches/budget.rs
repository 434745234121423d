//! What the budget costs a record: on its own way through, as one of a batch, with all partitions at
//! it at once, and where there is no room.
//!
//! `cargo bench -p benches --bench budget` ends with the ratio to an uncontended mutex pair,
//! measured in turns with it.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use benches::ratio::{self, Pair};
use criterion::{BenchmarkId, Criterion, Throughput};
use kpipe_core::rooms::{Budget, Share};

const BATCH: u64 = 128;
const SLOTS: u64 = 32;
const PAYLOAD: u64 = 50;

fn default_budget() -> Budget {
    Budget::new(1_000, 10_000, 128 << 20)
}

/// A record that runs as a task: room for it, its bytes, an attempt; all back at its end.
fn one(share: &Share<'_>) {
    black_box(share.acquire_held(1));
    share.charge_bytes(PAYLOAD);
    black_box(share.acquire_slots(1));
    share.release_attempt(PAYLOAD);
}

/// Records that pass at their first poll: room for a batch, one bunch of attempts for all of them.
fn batch(share: &Share<'_>) {
    black_box(share.acquire_held(BATCH));
    share.charge_bytes(BATCH * PAYLOAD);
    black_box(share.acquire_slots(SLOTS));
    share.release_held(BATCH, BATCH * PAYLOAD);
    share.release_slots(SLOTS);
}

fn alone(c: &mut Criterion) {
    let mut group = c.benchmark_group("budget/alone");
    for partitions in [1, 8, 64] {
        let budget = default_budget();
        let shares: Vec<_> = (0..partitions).map(|_| budget.join()).collect();
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("one", partitions), |b| b.iter(|| one(&shares[0])));
        group.throughput(Throughput::Elements(BATCH));
        group.bench_function(BenchmarkId::new("batch of 128", partitions), |b| {
            b.iter(|| batch(&shares[0]));
        });
    }
    group.finish();
}

/// Two threads, each with a share of its own.
fn contended(c: &mut Criterion) {
    let mut group = c.benchmark_group("budget/two threads");
    for (name, records, work) in
        [("one", 1, one as fn(&Share<'_>)), ("batch of 128", BATCH, batch as fn(&Share<'_>))]
    {
        group.throughput(Throughput::Elements(2 * records));
        group.bench_function(name, |b| {
            b.iter_custom(|iterations| {
                let budget = default_budget();
                let began = Instant::now();
                thread::scope(|scope| {
                    for _ in 0..2 {
                        let share = budget.join();
                        scope.spawn(move || (0..iterations).for_each(|_| work(&share)));
                    }
                });
                began.elapsed()
            });
        });
    }
    group.finish();
}

/// Every attempt is taken. One of them goes round the partitions: who gives it back wakes the next,
/// which takes it, and waits for it again itself.
fn full(c: &mut Criterion) {
    let mut group = c.benchmark_group("budget/full");
    group.throughput(Throughput::Elements(1));
    for waiting in [2, 8, 64] {
        let budget = default_budget();
        let stuck = budget.join();
        let shares: Vec<_> = (0..waiting).map(|_| budget.join()).collect();
        stuck.acquire_slots(u64::MAX);
        for share in &shares {
            share.acquire_slots(u64::MAX);
        }
        stuck.release_slots(1);
        assert_eq!(shares[0].acquire_slots(1), 1);
        assert!(shares[1..].iter().all(|share| share.acquire_slots(1) == 0));
        let mut has = 0;
        group.bench_function(BenchmarkId::new("partitions", waiting), |b| {
            b.iter(|| {
                let next = (has + 1) % shares.len();
                shares[has].release_slots(1);
                let got = shares[next].acquire_slots(1);
                let none = shares[has].acquire_slots(1);
                has = next;
                (got, none)
            });
        });
    }
    group.finish();
}

/// For the record; there is no bar.
fn ratios() {
    let time = |work: fn(&Share<'_>)| {
        move |count: u64| -> Duration {
            let budget = default_budget();
            let share = budget.join();
            let began = Instant::now();
            (0..count).for_each(|_| work(&share));
            began.elapsed()
        }
    };
    println!("\nRatios, medians of rounds in turns");
    for (name, work) in [
        ("a record on its own (4 locks)", one as fn(&Share<'_>)),
        ("a batch of 128 (5 locks)", batch),
    ] {
        Pair::measure(50_000, time(work), ratio::lock_and_unlock).print(name, None);
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    alone(&mut criterion);
    contended(&mut criterion);
    full(&mut criterion);
    criterion.final_summary();
    if ratio::is_asked_for() {
        ratios();
    }
}
