//! What a schedule consists of: settings, records, and what happens when; all of it drawn from a seed.

use std::fmt;
use std::time::Duration;

use kpipe_core::{NullKeys, OnFailure, Ordering};

use crate::seed::Seed;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A large record: 26 of them are the whole budget of bytes.
const LARGE: usize = 20_000;
/// Half of the smallest budget is the consumer's, the other half its client's.
const BYTES_IN_HAND: u64 = 1 << 20;
/// Records that an intake takes at once.
const BATCH: u64 = 128;

/// When the last fault begins; from then on all is well.
pub(super) const CALM: Duration = Duration::from_secs(40);
/// By then every partition must have drained: the longest backoff of a partition that failed is a
/// minute, and what is held back is delivered again once its group rebalances at the calm's begin.
pub(super) const SETTLED: Duration = Duration::from_secs(40 + 300);

/// One schedule.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) settings: Plain,
    pub(super) partitions: i32,
    pub(super) members: usize,
    pub(super) cooperative: bool,
    /// In order of time.
    pub(super) acts: Vec<(Duration, Act)>,
}

/// The consumer's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    pub(super) ordering: Ordering,
    pub(super) null_keys: NullKeys,
    pub(super) on_failure: OnFailure,
    pub(super) first_poll_inline: bool,
    pub(super) max_in_flight: u64,
    pub(super) max_held: u64,
    pub(super) max_finished_beyond: u64,
    /// How many bytes each record has; with large ones the budget of bytes is the smallest there is.
    pub(super) payload: usize,
    pub(super) commit_interval: Duration,
    pub(super) attempt_deadline: Duration,
    pub(super) drain_deadline: Duration,
}

impl Plain {
    /// The setting, where it is not the default.
    pub(super) fn bytes_in_hand(&self) -> Option<u64> {
        (self.payload > 0).then_some(BYTES_IN_HAND)
    }

    /// How many bytes may be held: the size of a batch is known only once it is taken.
    pub(super) fn most_bytes(&self) -> u64 {
        BYTES_IN_HAND / 2 + BATCH * (self.payload as u64 + 100)
    }
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Produce {
        partition: i32,
        key: Option<u64>,
        does: Does,
    },
    /// Offsets without records: markers, compaction.
    Gap {
        partition: i32,
        offsets: i64,
    },
    /// Everything below the log's end, less this many, is deleted.
    Truncate {
        partition: i32,
        keep: i64,
    },
    Join,
    /// A member shuts down within this time.
    Leave {
        within: Duration,
    },
    /// A member's process dies.
    Crash,
    Rebalance,
    /// A partition goes to another member.
    Move {
        partition: i32,
    },
    /// A partition is revoked and given back to the same member.
    HandBack {
        partition: i32,
    },
    /// A member is thrown out and joins anew by itself.
    Expel,
    Commits(Commits),
    /// The group's coordinator is away.
    CoordinatorAway {
        during: Duration,
    },
    BrokerAway {
        during: Duration,
    },
    /// The last records of a queue are delivered twice.
    Twice {
        partition: i32,
        records: usize,
    },
    FailAssign {
        partition: i32,
    },
    FetchError,
}

/// What becomes of a member's next commits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Commits {
    Retry(usize),
    Fenced,
    Late(Duration),
    /// Applied, and the answer lost.
    Unanswered,
}

/// What a handler does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Pass,
    Yield,
    Sleep(Duration),
    /// Fails at its first deliveries, so many of them; then passes.
    Fail(u32),
    Panic(u32),
    /// Waits to be cancelled at its first deliveries, and ends then.
    HeedCancel(u32),
    /// Never ends at its first deliveries: a deadline or a revoke cuts it.
    Hang(u32),
}

/// As a record's value says it.
impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass 0"),
            Self::Yield => f.write_str("yield 0"),
            Self::Sleep(time) => write!(f, "sleep {}", time.as_millis()),
            Self::Fail(times) => write!(f, "fail {times}"),
            Self::Panic(times) => write!(f, "panic {times}"),
            Self::HeedCancel(times) => write!(f, "heed {times}"),
            Self::Hang(times) => write!(f, "hang {times}"),
        }
    }
}

impl Does {
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (what, number) = value.split_once(' ')?;
        let number: u32 = number.parse().ok()?;
        Some(match what {
            "pass" => Self::Pass,
            "yield" => Self::Yield,
            "sleep" => Self::Sleep(Duration::from_millis(number.into())),
            "fail" => Self::Fail(number),
            "panic" => Self::Panic(number),
            "heed" => Self::HeedCancel(number),
            "hang" => Self::Hang(number),
            _ => return None,
        })
    }
}

impl Plan {
    /// The schedule of a seed.
    pub(super) fn of(seed: u64) -> Self {
        let mut draw = Seed::new(seed);
        let partitions = 1 + draw.below(12) as i32;
        let settings = settings(&mut draw);
        let mut acts = Vec::new();
        produce(&mut draw, partitions, settings, &mut acts);
        disturb(&mut draw, partitions, &mut acts);
        acts.sort_by_key(|(at, _)| *at);
        Self {
            settings,
            partitions,
            members: 1 + draw.below(3) as usize,
            cooperative: draw.chance(0.5),
            acts,
        }
    }
}

impl Plan {
    /// How many faults and rebalances are scripted.
    pub(super) fn faults(&self) -> usize {
        self.acts.iter().filter(|(_, act)| !matches!(act, Act::Produce { .. })).count()
    }
}

fn settings(draw: &mut Seed) -> Plain {
    let ordering = match draw.below(10) {
        0..6 => Ordering::Key,
        6..8 => Ordering::Parallel,
        8 => Ordering::Partition,
        _ => Ordering::Sequential,
    };
    let max_in_flight = [1, 2, 8, 64, 1_000][draw.below(5) as usize];
    Plain {
        ordering,
        null_keys: if draw.chance(0.3) { NullKeys::Serial } else { NullKeys::Unordered },
        on_failure: if draw.chance(0.5) { OnFailure::Drop } else { OnFailure::Hold },
        first_poll_inline: draw.chance(0.7),
        max_in_flight,
        max_held: (max_in_flight * (1 + draw.below(4))).max(24),
        payload: [0, 0, 0, LARGE][draw.below(4) as usize],
        max_finished_beyond: [3, 20, 200, 1_000_000][draw.below(4) as usize],
        commit_interval: between(draw, 10 * MS, 5 * SECOND),
        attempt_deadline: between(draw, 200 * MS, 20 * SECOND),
        drain_deadline: between(draw, 50 * MS, 8 * SECOND),
    }
}

/// Records of a few keys, in bursts.
fn produce(draw: &mut Seed, partitions: i32, settings: Plain, acts: &mut Vec<(Duration, Act)>) {
    let keys = 1 + draw.below(50);
    let records = 30 + draw.below(120);
    // How rough the handlers are differs from schedule to schedule.
    let slow = draw.below(40);
    let rough = draw.below(12);
    // What is held counts against the limit for good, until its partition moves.
    let mut may_stay = (settings.max_held / 2).min(5);
    let mut at = Duration::ZERO;
    for _ in 0..records {
        if draw.chance(0.15) {
            at += between(draw, MS, CALM / 12);
        }
        let mut does = does(draw, slow, rough, settings.attempt_deadline);
        let stays =
            matches!(does, Does::Fail(_) | Does::Panic(_) | Does::Hang(_) | Does::HeedCancel(_));
        if stays && settings.on_failure == OnFailure::Hold {
            if may_stay == 0 {
                does = Does::Pass;
            }
            may_stay = may_stay.saturating_sub(1);
        }
        let key = draw.chance(0.9).then(|| draw.below(keys));
        let partition = draw.below(partitions as u64) as i32;
        acts.push((at.min(CALM), Act::Produce { partition, key, does }));
    }
}

fn does(draw: &mut Seed, slow: u64, rough: u64, deadline: Duration) -> Does {
    let dice = draw.below(100);
    let times = 1 + draw.below(2) as u32;
    if dice < rough {
        match draw.below(4) {
            0 => Does::Fail(times),
            1 => Does::Panic(times),
            2 => Does::HeedCancel(times),
            _ => Does::Hang(times),
        }
    } else if dice < rough + slow {
        // Well within the deadline: what always meets it can never be finished.
        Does::Sleep(between(draw, MS, (3 * SECOND).min(deadline / 2)))
    } else if dice < rough + slow + 20 {
        Does::Yield
    } else {
        Does::Pass
    }
}

/// At least one fault or rebalance, most often several.
fn disturb(draw: &mut Seed, partitions: i32, acts: &mut Vec<(Duration, Act)>) {
    for _ in 0..1 + draw.below(8) {
        let at = between(draw, MS, CALM);
        let partition = draw.below(partitions as u64) as i32;
        let during = between(draw, 100 * MS, 30 * SECOND);
        let act = match draw.below(19) {
            0 | 1 => Act::Join,
            2 => Act::Leave { within: between(draw, 100 * MS, 10 * SECOND) },
            3 => Act::Crash,
            4 => Act::Rebalance,
            5 | 6 => Act::Move { partition },
            7 | 8 => Act::HandBack { partition },
            9 => Act::Expel,
            10 => Act::Commits(Commits::Retry(1 + draw.below(3) as usize)),
            11 => Act::Commits(Commits::Late(between(draw, 10 * MS, 12 * SECOND))),
            12 => Act::Commits(match draw.chance(0.5) {
                true => Commits::Fenced,
                false => Commits::Unanswered,
            }),
            13 => Act::CoordinatorAway { during },
            14 => Act::BrokerAway { during },
            15 => Act::Gap { partition, offsets: [1, 5, 1_000_000_000][draw.below(3) as usize] },
            16 => Act::Truncate { partition, keep: draw.below(8) as i64 },
            17 => Act::Twice { partition, records: 1 + draw.below(5) as usize },
            _ => match draw.chance(0.5) {
                true => Act::FailAssign { partition },
                false => Act::FetchError,
            },
        };
        acts.push((at, act));
    }
}

fn between(draw: &mut Seed, least: Duration, most: Duration) -> Duration {
    // Short ones are as likely as long ones: the logarithm is drawn.
    let (low, high) = (least.as_secs_f64().ln(), most.as_secs_f64().ln());
    let at = draw.below(1_000_000) as f64 / 1e6;
    let millis = (low + (high - low) * at).exp() * 1e3;
    Duration::from_millis(millis.round().max(1.0) as u64)
}
