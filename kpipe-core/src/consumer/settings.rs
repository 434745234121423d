//! Settings and their limits, checked once at the start.

use std::fmt;
use std::hash::Hash;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::{NullKeys, Ordering};
use crate::budget::Limits;
use crate::error::Error;
use crate::failure::OnFailure;
use crate::lanes::LaneKey;
use crate::record::Record;
use crate::source::StartAt;

const MIB: u64 = 1024 * 1024;
const HOUR: Duration = Duration::from_secs(3600);

/// Every setting of a consumer; the defaults are the table in `docs/contract.md`.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) group_id: String,
    pub(crate) ordering: Ordering,
    pub(crate) null_keys: NullKeys,
    pub(crate) key_by: Option<LaneBy>,
    pub(crate) max_in_flight: u64,
    pub(crate) max_held: Option<u64>,
    pub(crate) bytes_in_hand: u64,
    pub(crate) max_finished_beyond: u64,
    pub(crate) commit_interval: Duration,
    pub(crate) attempt_deadline: Option<Duration>,
    pub(crate) on_failure: OnFailure,
    pub(crate) start_at: StartAt,
    pub(crate) drain_deadline: Option<Duration>,
    pub(crate) shutdown_deadline: Duration,
    pub(crate) first_poll_inline: bool,
}

impl Settings {
    pub(super) fn new(group_id: String) -> Self {
        Self {
            group_id,
            ordering: Ordering::default(),
            null_keys: NullKeys::default(),
            key_by: None,
            max_in_flight: 1_000,
            max_held: None,
            bytes_in_hand: 256 * MIB,
            max_finished_beyond: 1_000_000,
            commit_interval: Duration::from_secs(5),
            attempt_deadline: Some(Duration::from_secs(300)),
            on_failure: OnFailure::default(),
            start_at: StartAt::default(),
            drain_deadline: None,
            shutdown_deadline: Duration::from_secs(25),
            first_poll_inline: true,
        }
    }

    /// Checks every value; the first that is refused is reported.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.group_id.trim().is_empty() {
            let given = format!("{:?}", self.group_id);
            return Err(Error::config("group_id", given, "must not be empty or blank"));
        }
        within("max_in_flight", self.max_in_flight, 1..=1_000_000)?;
        if let Some(held) = self.max_held {
            within("max_held", held, 1..=10_000_000)?;
            if held < self.max_in_flight {
                let accepted = format!(
                    "must be at least max_in_flight ({}), whose records it counts",
                    number(self.max_in_flight)
                );
                return Err(Error::config("max_held", number(held), accepted));
            }
        }
        if !(MIB..=MIB * MIB).contains(&self.bytes_in_hand) {
            let accepted = "must be between 1 MiB and 1 TiB";
            return Err(Error::config("bytes_in_hand", number(self.bytes_in_hand), accepted));
        }
        within("max_finished_beyond", self.max_finished_beyond, 1..=100_000_000)?;
        let ms = Duration::from_millis;
        lasts("commit_interval", self.commit_interval, ms(10)..=HOUR)?;
        if let Some(deadline) = self.attempt_deadline {
            lasts("attempt_deadline", deadline, ms(1)..=HOUR * 24)?;
        }
        if let Some(deadline) = self.drain_deadline {
            lasts("drain_deadline", deadline, ms(1)..=HOUR * 24)?;
        }
        lasts("shutdown_deadline", self.shutdown_deadline, ms(100)..=HOUR)
    }

    /// The limits of the budget. One attempt at a time over the whole consumer is one slot.
    pub(crate) fn limits(&self) -> Limits {
        let in_flight = match self.ordering {
            Ordering::Sequential => 1,
            _ => self.max_in_flight,
        };
        let held = self.max_held.unwrap_or(10_000.max(self.max_in_flight));
        Limits { in_flight, held, bytes: self.bytes_in_hand - self.prefetch_bytes() }
    }

    /// The client's half of the bytes in hand.
    pub(crate) fn prefetch_bytes(&self) -> u64 {
        self.bytes_in_hand / 2
    }

    /// Whether a failed record that stays keeps its slot: when its scope is the whole consumer.
    pub(crate) fn holds_slot(&self) -> bool {
        self.ordering == Ordering::Sequential
    }

    /// Whether finding a lane runs a function of the user's.
    pub(crate) fn runs_user_code_for_lanes(&self) -> bool {
        self.ordering == Ordering::Key && self.key_by.is_some()
    }

    /// The lane that a record must queue in, if any.
    pub(crate) fn lane(&self, record: &Record) -> Option<LaneKey> {
        match self.ordering {
            Ordering::Parallel | Ordering::Sequential => None,
            Ordering::Partition => Some(LaneKey::WHOLE_PARTITION),
            Ordering::Key => {
                let key = match &self.key_by {
                    None => record.key().map(LaneKey::of),
                    Some(by) => by.lane(record),
                };
                match self.null_keys {
                    NullKeys::Unordered => key,
                    NullKeys::Serial => key.or(Some(LaneKey::NULL_KEY)),
                }
            }
        }
    }
}

/// A user's key extractor, down to the hash that a lane is found by.
#[derive(Clone)]
pub(crate) struct LaneBy(Arc<FindLane>);

type FindLane = dyn Fn(&Record) -> Option<LaneKey> + Send + Sync;

impl LaneBy {
    pub(super) fn new<K: Hash>(key: impl Fn(&Record) -> Option<K> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |record| key(record).map(|key| LaneKey::of_value(&key))))
    }

    fn lane(&self, record: &Record) -> Option<LaneKey> {
        (self.0)(record)
    }
}

impl fmt::Debug for LaneBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function")
    }
}

fn within(field: &str, value: u64, accepted: RangeInclusive<u64>) -> Result<(), Error> {
    if accepted.contains(&value) {
        return Ok(());
    }
    let accepted =
        format!("must be between {} and {}", number(*accepted.start()), number(*accepted.end()));
    Err(Error::config(field, number(value), accepted))
}

fn lasts(field: &str, value: Duration, accepted: RangeInclusive<Duration>) -> Result<(), Error> {
    if accepted.contains(&value) {
        return Ok(());
    }
    let accepted =
        format!("must be between {} and {}", span(*accepted.start()), span(*accepted.end()));
    Err(Error::config(field, span(value), accepted))
}

/// A number with thousands separators.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in the largest unit that leaves a whole number.
pub(crate) fn span(value: Duration) -> String {
    let ms = value.as_millis();
    match ms {
        0 if !value.is_zero() => format!("{value:?}"),
        0 => "0s".to_owned(),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = Settings::new("g".to_owned());
        change(&mut settings);
        settings.check().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_accepted() {
        Settings::new("g".to_owned()).check().unwrap();
    }

    #[test]
    fn a_refusal_names_field_value_and_what_is_accepted() {
        let text = refused(|s| s.max_in_flight = 0);
        assert_eq!(text, "max_in_flight = 0: must be between 1 and 1,000,000");
        let text = refused(|s| s.max_held = Some(10));
        assert_eq!(
            text,
            "max_held = 10: must be at least max_in_flight (1,000), whose records it counts"
        );
        let text = refused(|s| s.bytes_in_hand = 5);
        assert_eq!(text, "bytes_in_hand = 5: must be between 1 MiB and 1 TiB");
        let text = refused(|s| s.commit_interval = Duration::from_millis(1));
        assert_eq!(text, "commit_interval = 1ms: must be between 10ms and 1h");
        let text = refused(|s| s.attempt_deadline = Some(Duration::ZERO));
        assert_eq!(text, "attempt_deadline = 0s: must be between 1ms and 24h");
        let text = refused(|s| s.group_id.clear());
        assert_eq!(text, "group_id = \"\": must not be empty or blank");
        let text = refused(|s| s.group_id = " \t".to_owned());
        assert_eq!(text, "group_id = \" \\t\": must not be empty or blank");
    }

    #[test]
    fn more_in_flight_than_the_default_held_raises_it() {
        let mut settings = Settings::new("g".to_owned());
        settings.max_in_flight = 50_000;
        assert_eq!(settings.limits().held, 50_000);
    }
}
