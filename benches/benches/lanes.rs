//! What the lanes cost: a hand-over to the successor, a record's whole way through a busy lane, and
//! a lane that comes and goes.
//!
//! `cargo bench -p benches --bench lanes` ends with the ratios to an uncontended mutex pair,
//! measured in turns with it.

use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use benches::ratio::{self, Pair};
use criterion::{BenchmarkId, Criterion, Throughput};
use kpipe_core::rooms::{LaneKey, Lanes};
use parking_lot::Mutex;

/// As large as a record that waits, and with a spare bit pattern like one.
type Item = [NonZeroU64; 14];

const ITEM: Item = [NonZeroU64::MIN; 14];

const KEYS: [u64; 3] = [1, 100, 10_000];

/// Records parked before the clock starts, spread over the keys.
const WAITING: u64 = 10_000;

fn keys(count: u64) -> Vec<LaneKey> {
    (0..count).map(|number| LaneKey::of(&number.to_be_bytes())).collect()
}

fn all_held(keys: &[LaneKey]) -> Mutex<Lanes<Item>> {
    let mut lanes = Lanes::default();
    keys.iter().for_each(|key| lanes.hold(*key));
    Mutex::new(lanes)
}

/// The time of `count` hand-overs, each under a lock of its own.
fn hand_over(keys: &[LaneKey], count: u64) -> Duration {
    let lanes = all_held(keys);
    let order = || keys.iter().cycle().take(WAITING as usize);
    let mut took = Duration::ZERO;
    for _ in 0..count.div_ceil(WAITING) {
        for key in order() {
            assert!(lanes.lock().park(*key, ITEM).is_ok());
        }
        let began = Instant::now();
        for key in order() {
            black_box(lanes.lock().finish(*key));
        }
        took += began.elapsed();
    }
    took.mul_f64(count as f64 / (count.div_ceil(WAITING) * WAITING) as f64)
}

/// The time in which `count` records park behind their key and are handed over to, with a lock for
/// the arrival and one for the hand-over.
fn park_and_hand_over(keys: &[LaneKey], count: u64) -> Duration {
    let lanes = all_held(keys);
    let mut order = keys.iter().cycle();
    let began = Instant::now();
    for _ in 0..count {
        let key = *order.next().expect("a cycle");
        black_box(lanes.lock().park(key, black_box(ITEM))).expect("busy");
        black_box(lanes.lock().finish(key));
    }
    began.elapsed()
}

/// The time in which `count` lanes are made and gone with nobody waiting, while every other key is
/// held: what a record costs whose key nobody else has.
fn come_and_go(keys: &[LaneKey], count: u64) -> Duration {
    let lanes = all_held(keys);
    let others = others(keys.len());
    let mut order = others.iter().cycle();
    let began = Instant::now();
    for _ in 0..count {
        let key = *order.next().expect("a cycle");
        lanes.lock().hold(key);
        black_box(lanes.lock().finish(key));
    }
    began.elapsed()
}

/// The time in which `count` lanes are made, parked behind, handed over and gone, each step under a
/// lock of its own, while every other key is held.
fn whole_life(keys: &[LaneKey], count: u64) -> Duration {
    let lanes = all_held(keys);
    let others = others(keys.len());
    let mut order = others.iter().cycle();
    let began = Instant::now();
    for _ in 0..count {
        let key = *order.next().expect("a cycle");
        lanes.lock().hold(key);
        black_box(lanes.lock().park(key, black_box(ITEM))).expect("busy");
        black_box(lanes.lock().finish(key));
        black_box(lanes.lock().finish(key));
    }
    began.elapsed()
}

/// As many keys again, different ones.
fn others(count: usize) -> Vec<LaneKey> {
    keys(count as u64 * 2).split_off(count)
}

type Measure = fn(&[LaneKey], u64) -> Duration;

/// Each with the most it may cost in mutex pairs: a hand-over is the bar, alone and with the arrival
/// that it answers. The others are for the record.
const MEASURES: [(&str, Option<f64>, Measure); 4] = [
    ("hand-over", Some(6.0), hand_over),
    ("park, hand-over (2 locks)", Some(6.0), park_and_hand_over),
    ("hold, last finish (2 locks)", None, come_and_go),
    ("hold, park, hand-over, last finish (4 locks)", None, whole_life),
];

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("lanes");
    group.throughput(Throughput::Elements(1));
    group.bench_function("base: mutex pair", |b| b.iter_custom(ratio::lock_and_unlock));
    group.bench_function("key of 16 bytes", |b| {
        b.iter(|| LaneKey::of(black_box(b"customer-0000042")));
    });
    for (name, _, measure) in MEASURES {
        for count in KEYS {
            let keys = keys(count);
            group.bench_function(BenchmarkId::new(name, count), |b| {
                b.iter_custom(|count| measure(&keys, count));
            });
        }
    }
    group.finish();
}

/// The bar: a hand-over with its locks at most 6x the pair.
fn bars() {
    println!("\nRatios, medians of rounds in turns");
    for (name, most, measure) in MEASURES {
        for count in KEYS {
            let keys = keys(count);
            Pair::measure(4_000, |count| measure(&keys, count), ratio::lock_and_unlock)
                .print(&format!("{name}, {count} keys"), most);
        }
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
