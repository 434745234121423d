//! Settings from a file or the environment, with the same checks and the same words as from code.

mod scalar;
mod variables;

use std::ffi::OsString;
use std::time::Duration;

use serde::Deserialize;

use self::scalar::{Named, Scalar};
use self::variables::{Names, Variables};
use super::{Consumer, NullKeys, Ordering};
use crate::error::{Error, ErrorKind};
use crate::failure::OnFailure;
use crate::source::StartAt;

/// Settings of a [`Consumer`] as they stand in a file or the environment, all optional; what is not
/// there, or null, stays as the code has it. Unknown fields are refused.
///
/// - Durations: `"30s"`, `"5m"`, `"1h 30m"`, `"250ms"`, or a plain number of milliseconds.
/// - Sizes: `"64MiB"`, `"1GiB"` (powers of 1024), `"64MB"`, `"64M"` (powers of 1000), or a plain
///   number of bytes.
/// - Numbers may have separators where they are text: `"10_000"`, `"10,000"`.
/// - `attempt_deadline` may also be `off`, `none` or `false`.
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
    /// See [`Consumer::attempt_deadline`] and, for `off`, `none` and `false`,
    /// [`Consumer::no_attempt_deadline`].
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
    /// For ever: `off`, `none` or `false`. See the warning at [`Consumer::no_attempt_deadline`].
    Off,
}

impl ConsumerConfig {
    /// Reads the settings from the process's environment: for the prefix `BILLING_`, the variable
    /// `BILLING_MAX_IN_FLIGHT` is the field `max_in_flight`. Variables that have the prefix and name
    /// no field are left alone, since others may share it, but logged by name in one warning: a
    /// setting that is misspelt would otherwise be ignored in silence.
    ///
    /// # Errors
    /// [`ErrorKind::Config`], naming the variable, the value and what is accepted; also for a value
    /// that is not UTF-8.
    pub fn from_env(prefix: &str) -> Result<Self, Error> {
        Self::from_os_vars(prefix, std::env::vars_os())
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
    /// [`ErrorKind::Config`], naming the variable, the value and what is accepted.
    pub fn from_vars(
        prefix: &str,
        vars: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        Self::from_os_vars(
            prefix,
            vars.into_iter().map(|(name, value)| (name.into(), value.into())),
        )
    }

    fn from_os_vars(
        prefix: &str,
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let vars = Variables::of(prefix, vars)?;
        vars.warn_of_strangers();
        let object = serde_json::Value::Object(vars.fields);
        let written = serde_json::from_value::<Written>(object)
            .map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        Self::read(written, &vars.names)
    }

    /// Reads what a format handed over. `names` has the names of the fields as the user wrote them,
    /// where they differ.
    fn read(written: Written, names: &Names) -> Result<Self, Error> {
        let named = |field| Named { field: names.get(field).map_or(field, String::as_str) };
        Ok(Self {
            group_id: named("group_id").text(written.group_id)?,
            ordering: named("ordering")
                .choice(written.ordering, "parallel, key, partition or sequential")?,
            null_keys: named("null_keys").choice(written.null_keys, "unordered or serial")?,
            max_in_flight: named("max_in_flight").number(written.max_in_flight)?,
            max_held: named("max_held").number(written.max_held)?,
            bytes_in_hand: named("bytes_in_hand").size(written.bytes_in_hand)?,
            max_finished_beyond: named("max_finished_beyond")
                .number(written.max_finished_beyond)?,
            commit_interval: named("commit_interval").duration(written.commit_interval)?,
            attempt_deadline: named("attempt_deadline").deadline(written.attempt_deadline)?,
            on_failure: named("on_failure").choice(written.on_failure, "hold or drop")?,
            start_at: named("start_at").choice(written.start_at, "earliest, latest or fail")?,
            drain_deadline: named("drain_deadline").duration(written.drain_deadline)?,
            shutdown_deadline: named("shutdown_deadline").duration(written.shutdown_deadline)?,
            first_poll_inline: named("first_poll_inline").flag(written.first_poll_inline)?,
        })
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
    group_id: Option<Scalar>,
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

impl TryFrom<Written> for ConsumerConfig {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        Self::read(written, &Names::new())
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
        for off in [r#""off""#, r#""OFF""#, r#""none""#, r#""False""#, "false"] {
            let config = json(&format!(r#"{{"attempt_deadline": {off}}}"#)).unwrap();
            assert_eq!(config.attempt_deadline, Some(AttemptDeadline::Off), "{off}");
            assert_eq!(Consumer::new("g").configure(&config).settings.attempt_deadline, None);
        }
        let config = json(r#"{"attempt_deadline": null}"#).unwrap();
        assert_eq!(config.attempt_deadline, None);
    }

    #[test]
    fn sizes_are_binary_with_an_i_and_decimal_without() {
        for (text, bytes) in [("64MiB", 64 << 20), ("64M", 64_000_000), ("64MB", 64_000_000)] {
            let config = json(&format!(r#"{{"bytes_in_hand": "{text}"}}"#)).unwrap();
            assert_eq!(config.bytes_in_hand, Some(bytes), "{text}");
        }
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
            (
                r#"{"attempt_deadline": "never"}"#,
                "attempt_deadline = never: must be a duration like \"30s\", \"5m\" or \"250ms\", or off",
            ),
            (r#"{"group_id": 7}"#, "group_id = 7: must be text in quotes"),
            (r#"{"max_held": [1]}"#, "max_held = [1]: must be a whole number"),
            (
                r#"{"commit_interval": {"secs":1}}"#,
                "commit_interval = {\"secs\":1}: must be a duration",
            ),
            (
                r#"{"commit_interval": {"$__toml_private_datetime": "07:32:00"}}"#,
                "commit_interval = 07:32:00: must be a duration",
            ),
            (r#"{"max_held": 1e300}"#, "max_held = 1e300: must be a whole number"),
            (r#"{"ordering": ["key"]}"#, "ordering = [\"key\"]: must be parallel"),
        ] {
            assert!(json(text).unwrap_err().starts_with(error), "{text}: {:?}", json(text));
        }
        assert!(json(r#"{"max_inflight": 1}"#).unwrap_err().contains("max_inflight"));
    }

    fn vars(vars: &[(&str, &str)]) -> Result<ConsumerConfig, String> {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ConsumerConfig::from_vars("APP_", vars).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_that_are_not_ours_are_left_alone() {
        let config = vars(&[("APP_NAME", "x"), ("HOME", "/"), ("MAX_HELD", "x")]).unwrap();
        assert_eq!(config, ConsumerConfig::default());
    }

    #[test]
    fn a_refused_variable_is_named_as_written() {
        let text = vars(&[("APP_MAX_HELD", "many")]).unwrap_err();
        assert_eq!(text, "APP_MAX_HELD = many: must be a whole number, not negative");
        let text = vars(&[("APP_ordering", "keys")]).unwrap_err();
        assert!(text.starts_with("APP_ordering = keys: must be parallel"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_utf_8_is_an_error_only_where_it_is_ours() {
        use std::os::unix::ffi::OsStringExt;
        let broken = || OsString::from_vec(vec![b'a', 0xff]);
        let mut name = OsString::from("APP_");
        name.push(broken());
        let others = [(broken(), broken()), (name, "x".into()), ("APP_NAME".into(), broken())];
        let config = ConsumerConfig::from_os_vars("APP_", others.clone()).unwrap();
        assert_eq!(config, ConsumerConfig::default());
        let ours = ("APP_MAX_HELD".into(), broken());
        let error = ConsumerConfig::from_os_vars("APP_", others.into_iter().chain([ours]));
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(error.to_string(), "APP_MAX_HELD = a\u{fffd}: must be UTF-8");
    }
}
