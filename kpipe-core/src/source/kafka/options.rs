//! The user's own librdkafka options: which are refused and why, what KPipe sets, what is secret.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use super::client::LOG_TARGET;
use super::limits::{Limits, MOST_QUEUED, MOST_QUEUED_KIB};
use crate::error::{Error, ErrorKind};
use crate::source::Subscription;

/// Options by name, as given.
#[derive(Clone, Default)]
pub(super) struct Options(BTreeMap<String, String>);

/// Options that would undo a promise or that have a place of their own, and why they are refused.
const REFUSED: &[(&str, &str)] = &[
    ("bootstrap.servers", "the brokers are given to `Kafka::brokers`; remove the option"),
    ("metadata.broker.list", "the brokers are given to `Kafka::brokers`; remove the option"),
    ("group.id", "the group is the consumer's name, `Consumer::new`; remove the option"),
    ("enable.auto.commit", WHO_COMMITS),
    ("auto.commit.enable", WHO_COMMITS),
    ("auto.commit.interval.ms", "the interval is set by `commit_interval`; remove the option"),
    ("enable.auto.offset.store", WHO_COMMITS),
    ("offset.store.method", WHO_COMMITS),
    ("offset.store.path", WHO_COMMITS),
    ("offset.store.sync.interval.ms", WHO_COMMITS),
    ("auto.offset.reset", "KPipe finds the start itself; use `start_at`"),
    (
        "enable.partition.eof",
        "the end of a partition would move the position past records that were not handed out; \
         `stats()` has the log's ends",
    ),
    (
        "allow.auto.create.topics",
        "a topic that does not exist is reported at the start; create it or remove the option",
    ),
    ("log.queue", "log lines go to `tracing`; remove the option"),
    (
        "test.mock.num.brokers",
        "starts a cluster for each client; give the address of one mock cluster to \
         `Kafka::brokers`",
    ),
];

const WHO_COMMITS: &str =
    "KPipe commits what is finished; remove the option (see \"Who commits\" in the README)";

/// Options that `group.protocol=consumer` moved to the broker.
const ON_THE_BROKER: &[(&str, &str)] = &[
    ("session.timeout.ms", "the broker's group.consumer.session.timeout.ms decides"),
    ("heartbeat.interval.ms", "the broker's group.consumer.heartbeat.interval.ms decides"),
    ("partition.assignment.strategy", "the broker assigns; use `group.remote.assignor`"),
    ("group.protocol.type", "there is one type only"),
];

/// What a first look at the cluster needs: how to connect and to authenticate.
const TO_CONNECT: &[&str] = &[
    "api.version.",
    "broker.",
    "client.",
    "connections.",
    "debug",
    "enable.sasl.",
    "enable.ssl.",
    "https.",
    "log",
    "max.in.flight",
    "message.max.bytes",
    "receive.message.max.bytes",
    "reconnect.",
    "resolve",
    "retry.backoff.",
    "sasl.",
    "security.",
    "socket.",
    "ssl",
];

impl Options {
    pub(super) fn set(&mut self, name: String, value: String) {
        self.0.insert(name, value);
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Refuses what would undo a promise, and what contradicts itself.
    pub(super) fn check(&self, subscription: &Subscription) -> Result<Checked, Error> {
        self.refuse(REFUSED)?;
        let on_the_broker = self.get("group.protocol") == Some("consumer");
        if on_the_broker {
            let refused = ON_THE_BROKER.iter().find(|(name, _)| self.0.contains_key(*name));
            if let Some((name, reason)) = refused {
                let reason = format!("not with group.protocol=consumer: {reason}");
                return Err(Error::config(name, self.shown(name), reason));
            }
        }
        let max_poll_interval = self.millis("max.poll.interval.ms", 300_000, 1..=86_400_000)?;
        let session_timeout = self.millis("session.timeout.ms", 45_000, 1..=3_600_000)?;
        if !on_the_broker && max_poll_interval < session_timeout {
            return Err(self.contradiction(max_poll_interval, session_timeout));
        }
        if let Some(drain) = subscription.drain_deadline
            && drain >= max_poll_interval
        {
            return Err(Error::config(
                "drain_deadline",
                Human(drain),
                format_args!(
                    "must be shorter than max.poll.interval.ms ({}), after which the broker ends \
                     the rebalance without this member",
                    Human(max_poll_interval)
                ),
            ));
        }
        let log_level = self.number("log_level", 0..=7)?.map_or_else(wanted_log_level, log_level);
        let keeps_its_place = self.get("group.instance.id").is_some() && !on_the_broker;
        Ok(Checked { options: self.clone(), max_poll_interval, keeps_its_place, log_level })
    }

    /// A member that may be silent for longer than it may process. The option that was given is
    /// named, not one that stands at its default.
    fn contradiction(&self, max_poll_interval: Duration, session_timeout: Duration) -> Error {
        let why = "or a member would be given up before it is missed";
        let (poll, session) = (max_poll_interval.as_millis(), session_timeout.as_millis());
        if self.get("max.poll.interval.ms").is_none() {
            let accepted = format_args!("must be at most max.poll.interval.ms ({poll}), {why}");
            return Error::config("session.timeout.ms", session, accepted);
        }
        let accepted = format_args!("must be at least session.timeout.ms ({session}), {why}");
        Error::config("max.poll.interval.ms", poll, accepted)
    }

    fn refuse(&self, refused: &[(&str, &str)]) -> Result<(), Error> {
        match refused.iter().find(|(name, _)| self.0.contains_key(*name)) {
            Some((name, reason)) => Err(Error::config(name, self.shown(name), reason)),
            None => Ok(()),
        }
    }

    fn millis(
        &self,
        name: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Duration, Error> {
        Ok(Duration::from_millis(self.number(name, range)?.unwrap_or(default)))
    }

    fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(Error::config(
                name,
                text,
                format_args!("must be a whole number from {} to {}", range.start(), range.end()),
            )),
        }
    }

    fn shown(&self, name: &str) -> &str {
        shown(name, self.get(name).unwrap_or_default())
    }
}

/// Secrets are masked.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(name, value)| (name, shown(name, value))))
            .finish()
    }
}

/// Options that passed.
pub(super) struct Checked {
    options: Options,
    pub(super) max_poll_interval: Duration,
    /// Whether this is a static member of a classic group: one that does not leave when it closes.
    /// (In the new protocol a static member says that it will be back.)
    pub(super) keeps_its_place: bool,
    log_level: RDKafkaLogLevel,
}

impl Checked {
    /// For a first look at the cluster, outside the group.
    pub(super) fn to_look(&self, brokers: &str) -> ClientConfig {
        let mut config = self.config(brokers);
        for (name, value) in &self.options.0 {
            if TO_CONNECT.iter().any(|prefix| name.starts_with(prefix)) {
                config.set(name, value);
            }
        }
        config
    }

    /// For the member of the group. KPipe's own settings last: none of them can be overridden, see
    /// [`REFUSED`]; its defaults first.
    pub(super) fn to_join(
        &self,
        brokers: &str,
        subscription: &Subscription,
        partitions: u64,
    ) -> Result<ClientConfig, Error> {
        let limits = Limits::derive(subscription.prefetch_bytes, partitions);
        let (kib, messages) = (limits.queued_kib, limits.queued_messages);
        self.check_limit("queued.max.messages.kbytes", kib, MOST_QUEUED_KIB, partitions)?;
        self.check_limit("queued.min.messages", messages, MOST_QUEUED, partitions)?;
        let mut config = self.config(brokers);
        config
            .set("queued.max.messages.kbytes", limits.queued_kib.to_string())
            .set("queued.min.messages", limits.queued_messages.to_string())
            .set("fetch.message.max.bytes", limits.fetch_bytes.to_string())
            .set("fetch.wait.max.ms", limits.fetch_wait_ms.to_string())
            // A partition at its limit is looked at again after this long. At the default of 1000 a
            // long log is read at a quarter of the speed; at 0 a thread spins.
            .set("fetch.queue.backoff.ms", "10")
            .set("statistics.interval.ms", "1000")
            .set("client.id", "kpipe");
        for (name, value) in &self.options.0 {
            config.set(name, value);
        }
        config
            .set("group.id", &subscription.group_id)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "false")
            // A position that the log does not have is an error, and the start is found by KPipe: the
            // batch call does not follow the client when it moves back on its own.
            .set("auto.offset.reset", "error");
        Ok(config)
    }

    /// The user's limits may be lower than the budget's share, not higher.
    fn check_limit(&self, name: &str, limit: u64, most: u64, partitions: u64) -> Result<(), Error> {
        match self.options.number(name, 1..=u64::MAX)? {
            Some(number) if number > limit && limit == most => {
                let accepted = format_args!("must be at most {most}, whatever `bytes_in_hand` is");
                Err(Error::config(name, number, accepted))
            }
            Some(number) if number > limit => {
                let share = match partitions {
                    1 => "what `bytes_in_hand` leaves for one partition".to_owned(),
                    _ => format!("what `bytes_in_hand` leaves for each of {partitions} partitions"),
                };
                let accepted = format_args!(
                    "must be at most {limit}: {share}; with more of it, up to {most} is accepted"
                );
                Err(Error::config(name, number, accepted))
            }
            _ => Ok(()),
        }
    }

    fn config(&self, brokers: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", brokers)
            .set("allow.auto.create.topics", "false")
            .set_log_level(self.log_level);
        config
    }
}

/// librdkafka's complaint about an option, naming it, without its value if that is secret.
pub(super) fn config_error(error: KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, reason, name, value) => {
            let reason = with_hint(&reason);
            Error::config(&name, shown(&name, &value), reason)
        }
        KafkaError::ClientCreation(reason) => Error::new(ErrorKind::Config, with_hint(&reason)),
        other => Error::new(ErrorKind::Client, other.to_string()).caused_by(other),
    }
}

/// Names the feature that a build lacks.
fn with_hint(reason: &str) -> String {
    const FEATURES: &[(&str, &str)] = &[
        ("SASL mechanism GSSAPI", "gssapi"),
        ("libsasl2 not available", "gssapi"),
        ("SASL mechanism SCRAM", "tls"),
        ("OpenSSL", "tls"),
        ("openssl support", "tls"),
        ("libzstd", "zstd"),
    ];
    match FEATURES.iter().find(|(sign, _)| reason.contains(sign)) {
        Some((_, feature)) => format!("{reason}: enable the feature `{feature}` of kpipe-core"),
        None => reason.to_owned(),
    }
}

/// The value, unless the name says that it is secret.
fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    const SECRET: &[&str] =
        &["password", "secret", ".pem", "oauthbearer.config", "assertion", "credential"];
    if SECRET.iter().any(|sign| name.contains(sign)) { "***" } else { value }
}

/// librdkafka's own warnings always; more where somebody listens.
fn wanted_log_level() -> RDKafkaLogLevel {
    if tracing::enabled!(target: LOG_TARGET, tracing::Level::DEBUG) {
        RDKafkaLogLevel::Debug
    } else if tracing::enabled!(target: LOG_TARGET, tracing::Level::INFO) {
        RDKafkaLogLevel::Info
    } else {
        RDKafkaLogLevel::Warning
    }
}

fn log_level(number: u64) -> RDKafkaLogLevel {
    use RDKafkaLogLevel as Level;
    match number {
        0 => Level::Emerg,
        1 => Level::Alert,
        2 => Level::Critical,
        3 => Level::Error,
        4 => Level::Warning,
        5 => Level::Notice,
        6 => Level::Info,
        _ => Level::Debug,
    }
}

/// A duration as people write it: `5m`, `45s`, `250ms`.
struct Human(Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            millis if millis > 0 && millis % 60_000 == 0 => write!(f, "{}m", millis / 60_000),
            millis if millis % 1_000 == 0 => write!(f, "{}s", millis / 1_000),
            millis => write!(f, "{millis}ms"),
        }
    }
}

#[cfg(test)]
mod tests;
