//! Settings from a file or the environment, with the same checks and the same words as from code.

use std::time::Duration;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, StringDeserializer};

use super::{Consumer, NullKeys, Ordering};
use crate::error::{Error, ErrorKind};
use crate::failure::OnFailure;
use crate::source::StartAt;

/// Settings of a [`Consumer`] as they stand in a file or the environment, all optional; what is not
/// there stays as the code has it. Durations are written `"30s"` or `"5m"`, sizes `"64MiB"`, or
/// either as a plain number of milliseconds or bytes. Unknown fields are refused.
///
/// ```
/// use kpipe_core::{Consumer, ConsumerConfig};
///
/// let config: ConsumerConfig = serde_json::from_str(
///     r#"{"ordering": "partition", "commit_interval": "1s", "bytes_in_hand": "64MiB"}"#,
/// )?;
/// let consumer = Consumer::new("billing").configure(&config);
///
/// let wrong = serde_json::from_str::<ConsumerConfig>(r#"{"commit_interval": "soon"}"#);
/// assert!(wrong.unwrap_err().to_string().starts_with("commit_interval = soon: must be"));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Every field means what the setter of the same name on [`Consumer`] means, with its range and
/// default; ranges are checked at the start.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
#[non_exhaustive]
pub struct ConsumerConfig {
    /// See [`Consumer::new`].
    pub group_id: Option<String>,
    /// See [`Consumer::ordering`]: `parallel`, `key`, `partition` or `sequential`.
    pub ordering: Option<Ordering>,
    /// See [`Consumer::null_keys`]: `unordered` or `serial`.
    pub null_keys: Option<NullKeys>,
    /// See [`Consumer::max_in_flight`].
    pub max_in_flight: Option<u64>,
    /// See [`Consumer::max_held`].
    pub max_held: Option<u64>,
    /// See [`Consumer::bytes_in_hand`].
    pub bytes_in_hand: Option<u64>,
    /// See [`Consumer::max_finished_beyond`].
    pub max_finished_beyond: Option<u64>,
    /// See [`Consumer::commit_interval`].
    pub commit_interval: Option<Duration>,
    /// See [`Consumer::attempt_deadline`] and, for `off`, [`Consumer::no_attempt_deadline`].
    pub attempt_deadline: Option<AttemptDeadline>,
    /// See [`Consumer::on_failure`]: `hold` or `drop`.
    pub on_failure: Option<OnFailure>,
    /// See [`Consumer::start_at`]: `earliest`, `latest` or `fail`.
    pub start_at: Option<StartAt>,
    /// See [`Consumer::drain_deadline`].
    pub drain_deadline: Option<Duration>,
    /// See [`Consumer::shutdown_deadline`].
    pub shutdown_deadline: Option<Duration>,
    /// See [`Consumer::first_poll_inline`].
    pub first_poll_inline: Option<bool>,
}

/// How long an attempt may take, as a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptDeadline {
    /// So long.
    After(Duration),
    /// For ever: `off`. See the warning at [`Consumer::no_attempt_deadline`].
    Off,
}

impl ConsumerConfig {
    /// Reads the settings from the process's environment: for the prefix `BILLING_`, the variable
    /// `BILLING_MAX_IN_FLIGHT` is the field `max_in_flight`. Variables that name no field are left
    /// alone, since others may share the prefix.
    ///
    /// # Errors
    /// [`ErrorKind::Config`], naming the field, the value and what is accepted.
    pub fn from_env(prefix: &str) -> Result<Self, Error> {
        Self::from_vars(prefix, std::env::vars())
    }

    /// Reads the settings from names and values like those of an environment.
    ///
    /// ```
    /// use kpipe_core::ConsumerConfig;
    ///
    /// let vars = [("APP_MAX_IN_FLIGHT".to_owned(), "200".to_owned())];
    /// assert_eq!(ConsumerConfig::from_vars("APP_", vars)?.max_in_flight, Some(200));
    /// # Ok::<(), kpipe_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`], naming the field, the value and what is accepted.
    pub fn from_vars(
        prefix: &str,
        vars: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let fields = vars.into_iter().filter_map(|(name, value)| {
            let field = name.strip_prefix(prefix)?.to_ascii_lowercase();
            FIELDS.contains(&field.as_str()).then_some((field, value.into()))
        });
        let object = serde_json::Value::Object(fields.collect());
        let written = serde_json::from_value::<Written>(object)
            .map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        Self::try_from(written)
    }
}

impl Consumer {
    /// Takes over every setting that the configuration has.
    ///
    /// ```
    /// # use kpipe_core::{Consumer, ConsumerConfig};
    /// # fn example() -> Result<(), kpipe_core::Error> {
    /// let consumer = Consumer::new("billing").configure(&ConsumerConfig::from_env("BILLING_")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn configure(mut self, config: &ConsumerConfig) -> Self {
        fn take<T: Clone>(from: &Option<T>, to: &mut T) {
            if let Some(value) = from {
                to.clone_from(value);
            }
        }
        let settings = &mut self.settings;
        take(&config.group_id, &mut settings.group_id);
        take(&config.ordering, &mut settings.ordering);
        take(&config.null_keys, &mut settings.null_keys);
        take(&config.max_in_flight, &mut settings.max_in_flight);
        settings.max_held = config.max_held.or(settings.max_held);
        take(&config.bytes_in_hand, &mut settings.bytes_in_hand);
        take(&config.max_finished_beyond, &mut settings.max_finished_beyond);
        take(&config.commit_interval, &mut settings.commit_interval);
        match config.attempt_deadline {
            None => {}
            Some(AttemptDeadline::After(after)) => settings.attempt_deadline = Some(after),
            Some(AttemptDeadline::Off) => settings.attempt_deadline = None,
        }
        take(&config.on_failure, &mut settings.on_failure);
        take(&config.start_at, &mut settings.start_at);
        settings.drain_deadline = config.drain_deadline.or(settings.drain_deadline);
        take(&config.shutdown_deadline, &mut settings.shutdown_deadline);
        take(&config.first_poll_inline, &mut settings.first_poll_inline);
        self
    }
}

const FIELDS: [&str; 14] = [
    "group_id",
    "ordering",
    "null_keys",
    "max_in_flight",
    "max_held",
    "bytes_in_hand",
    "max_finished_beyond",
    "commit_interval",
    "attempt_deadline",
    "on_failure",
    "start_at",
    "drain_deadline",
    "shutdown_deadline",
    "first_poll_inline",
];

/// The fields as a format hands them over: an environment knows nothing but text, and a format's own
/// error would not name the field.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    group_id: Option<String>,
    ordering: Option<Scalar>,
    null_keys: Option<Scalar>,
    max_in_flight: Option<Scalar>,
    max_held: Option<Scalar>,
    bytes_in_hand: Option<Scalar>,
    max_finished_beyond: Option<Scalar>,
    commit_interval: Option<Scalar>,
    attempt_deadline: Option<Scalar>,
    on_failure: Option<Scalar>,
    start_at: Option<Scalar>,
    drain_deadline: Option<Scalar>,
    shutdown_deadline: Option<Scalar>,
    first_poll_inline: Option<Scalar>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(u64),
    Flag(bool),
    Other(f64),
    Text(String),
}

impl TryFrom<Written> for ConsumerConfig {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let duration = |field, value: Option<Scalar>| value.map(|v| v.duration(field)).transpose();
        let number = |field, value: Option<Scalar>| value.map(|v| v.number(field)).transpose();
        Ok(Self {
            group_id: written.group_id,
            ordering: choice(
                "ordering",
                written.ordering,
                "parallel, key, partition or sequential",
            )?,
            null_keys: choice("null_keys", written.null_keys, "unordered or serial")?,
            max_in_flight: number("max_in_flight", written.max_in_flight)?,
            max_held: number("max_held", written.max_held)?,
            bytes_in_hand: written.bytes_in_hand.map(|v| v.size("bytes_in_hand")).transpose()?,
            max_finished_beyond: number("max_finished_beyond", written.max_finished_beyond)?,
            commit_interval: duration("commit_interval", written.commit_interval)?,
            attempt_deadline: written
                .attempt_deadline
                .map(|value| match value {
                    Scalar::Text(text) if text == "off" => Ok(AttemptDeadline::Off),
                    value => value.duration("attempt_deadline").map(AttemptDeadline::After),
                })
                .transpose()?,
            on_failure: choice("on_failure", written.on_failure, "hold or drop")?,
            start_at: choice("start_at", written.start_at, "earliest, latest or fail")?,
            drain_deadline: duration("drain_deadline", written.drain_deadline)?,
            shutdown_deadline: duration("shutdown_deadline", written.shutdown_deadline)?,
            first_poll_inline: written
                .first_poll_inline
                .map(|value| value.flag("first_poll_inline"))
                .transpose()?,
        })
    }
}

fn choice<'de, T: Deserialize<'de>>(
    field: &str,
    value: Option<Scalar>,
    accepted: &str,
) -> Result<Option<T>, Error> {
    let Some(value) = value else { return Ok(None) };
    let text = value.text();
    let names = StringDeserializer::<ValueError>::new(text.clone());
    T::deserialize(names)
        .map(Some)
        .map_err(|_| Error::config(field, text, format_args!("must be {accepted}")))
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Other(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    fn duration(&self, field: &str) -> Result<Duration, Error> {
        match self {
            Self::Number(ms) => Some(Duration::from_millis(*ms)),
            Self::Text(text) => text
                .parse()
                .map(Duration::from_millis)
                .ok()
                .or_else(|| humantime::parse_duration(text).ok()),
            Self::Flag(_) | Self::Other(_) => None,
        }
        .ok_or_else(|| {
            let accepted = "must be a duration like \"30s\", \"5m\" or \"250ms\"";
            Error::config(field, self.text(), accepted)
        })
    }

    fn size(&self, field: &str) -> Result<u64, Error> {
        match self {
            Self::Number(bytes) => Some(*bytes),
            Self::Text(text) => text.parse::<bytesize::ByteSize>().ok().map(|size| size.as_u64()),
            Self::Flag(_) | Self::Other(_) => None,
        }
        .ok_or_else(|| {
            Error::config(field, self.text(), "must be a size like \"64MiB\" or a number of bytes")
        })
    }

    fn number(&self, field: &str) -> Result<u64, Error> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.replace(['_', ','], "").parse().ok(),
            Self::Flag(_) | Self::Other(_) => None,
        }
        .ok_or_else(|| Error::config(field, self.text(), "must be a whole number, not negative"))
    }

    fn flag(&self, field: &str) -> Result<bool, Error> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Text(text) => text.parse().ok(),
            Self::Number(_) | Self::Other(_) => None,
        }
        .ok_or_else(|| Error::config(field, self.text(), "must be true or false"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<ConsumerConfig, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_field_is_read_from_json_and_from_the_environment_alike() {
        let values = [
            ("group_id", "billing"),
            ("ordering", "sequential"),
            ("null_keys", "serial"),
            ("max_in_flight", "10"),
            ("max_held", "1_000"),
            ("bytes_in_hand", "64MiB"),
            ("max_finished_beyond", "5000"),
            ("commit_interval", "1s"),
            ("attempt_deadline", "2m"),
            ("on_failure", "drop"),
            ("start_at", "latest"),
            ("drain_deadline", "3s"),
            ("shutdown_deadline", "1500"),
            ("first_poll_inline", "false"),
        ];
        let vars = values.map(|(name, value)| (name.to_uppercase(), value.to_owned()));
        let from_vars = ConsumerConfig::from_vars("", vars).unwrap();
        let object = values.map(|(name, value)| format!("{name:?}: {value:?}")).join(", ");
        assert_eq!(from_vars, json(&format!("{{{object}}}")).unwrap());
        let expected = ConsumerConfig {
            group_id: Some("billing".to_owned()),
            ordering: Some(Ordering::Sequential),
            null_keys: Some(NullKeys::Serial),
            max_in_flight: Some(10),
            max_held: Some(1_000),
            bytes_in_hand: Some(64 << 20),
            max_finished_beyond: Some(5_000),
            commit_interval: Some(Duration::from_secs(1)),
            attempt_deadline: Some(AttemptDeadline::After(Duration::from_secs(120))),
            on_failure: Some(OnFailure::Drop),
            start_at: Some(StartAt::Latest),
            drain_deadline: Some(Duration::from_secs(3)),
            shutdown_deadline: Some(Duration::from_millis(1_500)),
            first_poll_inline: Some(false),
        };
        assert_eq!(from_vars, expected);

        // And every one of them reaches the consumer.
        let settings = Consumer::new("other").configure(&expected).settings;
        let applied = ConsumerConfig {
            group_id: Some(settings.group_id),
            ordering: Some(settings.ordering),
            null_keys: Some(settings.null_keys),
            max_in_flight: Some(settings.max_in_flight),
            max_held: settings.max_held,
            bytes_in_hand: Some(settings.bytes_in_hand),
            max_finished_beyond: Some(settings.max_finished_beyond),
            commit_interval: Some(settings.commit_interval),
            attempt_deadline: settings.attempt_deadline.map(AttemptDeadline::After),
            on_failure: Some(settings.on_failure),
            start_at: Some(settings.start_at),
            drain_deadline: settings.drain_deadline,
            shutdown_deadline: Some(settings.shutdown_deadline),
            first_poll_inline: Some(settings.first_poll_inline),
        };
        assert_eq!(applied, expected);
    }

    #[test]
    fn an_empty_configuration_changes_nothing() {
        let before = Consumer::new("g").max_in_flight(7).no_attempt_deadline();
        let text = format!("{before:?}");
        assert_eq!(format!("{:?}", before.configure(&json("{}").unwrap())), text);
    }

    #[test]
    fn deadlines_can_be_turned_off() {
        let config = json(r#"{"attempt_deadline": "off"}"#).unwrap();
        assert_eq!(Consumer::new("g").configure(&config).settings.attempt_deadline, None);
    }

    #[test]
    fn a_refusal_names_the_field_as_written() {
        for (text, error) in [
            (r#"{"max_held": -1}"#, "max_held = -1: must be a whole number, not negative"),
            (
                r#"{"ordering": "keys"}"#,
                "ordering = keys: must be parallel, key, partition or sequential",
            ),
            (
                r#"{"bytes_in_hand": "much"}"#,
                "bytes_in_hand = much: must be a size like \"64MiB\" or a number of bytes",
            ),
            (r#"{"first_poll_inline": 1}"#, "first_poll_inline = 1: must be true or false"),
            (
                r#"{"drain_deadline": true}"#,
                "drain_deadline = true: must be a duration like \"30s\", \"5m\" or \"250ms\"",
            ),
        ] {
            assert!(json(text).unwrap_err().starts_with(error), "{text}: {:?}", json(text));
        }
        assert!(json(r#"{"max_inflight": 1}"#).unwrap_err().contains("max_inflight"));
    }

    #[test]
    fn variables_that_are_not_ours_are_left_alone() {
        let vars = [("APP_NAME".to_owned(), "x".to_owned()), ("HOME".to_owned(), "/".to_owned())];
        assert_eq!(ConsumerConfig::from_vars("APP_", vars).unwrap(), ConsumerConfig::default());
    }
}
