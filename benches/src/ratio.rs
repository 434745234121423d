//! Two costs measured in turns within one run, so that their ratio means something on a machine
//! whose absolute figures do not.

use std::hint::black_box;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Rounds of each side; the medians are compared. Many, for rounds short enough that most of them
/// pass between two interruptions of a busy machine: a few long ones would compare whom it hit.
const ROUNDS: usize = 401;

/// What a cost is measured against: an uncontended mutex taken and released around one bit set, in
/// 512 bytes of bits. Returns the time for `count` of them.
pub fn lock_and_set_a_bit(count: u64) -> Duration {
    let bits = Mutex::new([0_u64; 64]);
    let bits = black_box(&bits);
    let began = Instant::now();
    for index in 0..count {
        bits.lock()[(index / 64 % 64) as usize] |= 1 << (index % 64);
    }
    began.elapsed()
}

/// An uncontended mutex taken and released, nothing in between.
pub fn lock_and_unlock(count: u64) -> Duration {
    let nothing = Mutex::new(());
    let nothing = black_box(&nothing);
    let began = Instant::now();
    for _ in 0..count {
        drop(nothing.lock());
    }
    began.elapsed()
}

/// How long one operation of each side takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The side under test.
    pub ours: f64,
    /// What it is compared with.
    pub base: f64,
}

impl Pair {
    /// Measures both in turns. Each side is given a number of operations, best for less than half a
    /// millisecond, and returns how long they took without what it prepared.
    pub fn measure(
        count: u64,
        mut ours: impl FnMut(u64) -> Duration,
        mut base: impl FnMut(u64) -> Duration,
    ) -> Self {
        let mut rounds = [Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS)];
        for _ in 0..ROUNDS {
            for (side, took) in [ours(count), base(count)].into_iter().enumerate() {
                rounds[side].push(took.as_secs_f64() * 1e9 / count as f64);
            }
        }
        let [ours, base] = rounds.map(|mut round| {
            round.sort_unstable_by(f64::total_cmp);
            round[ROUNDS / 2]
        });
        Self { ours, base }
    }

    /// Prints both costs and their ratio, beside the most it may be where there is a bar.
    pub fn print(self, name: &str, most: Option<f64>) {
        let Self { ours, base } = self;
        let ratio = ours / base;
        let verdict = match most {
            Some(most) if ratio <= most => format!(", at most {most}x: ok"),
            Some(most) => format!(", at most {most}x: MISSED"),
            None => String::new(),
        };
        println!("{name:<52} {ours:>7.2} ns  base {base:>6.2} ns  {ratio:>5.2}x{verdict}");
    }
}

/// Whether the program was asked to measure, rather than to list or try out its benches.
pub fn is_asked_for() -> bool {
    let given = |name: &str| std::env::args().any(|arg| arg == name);
    given("--bench") && !given("--test") && !given("--list")
}
