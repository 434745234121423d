//! Before joining the group: do the brokers answer, do they let us in, are the topics there (C34)?

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::mpsc;

use super::client::{Hook, Shared};
use super::errors;
use super::options::config_error;
use crate::error::{Error, ErrorKind};

/// One attempt to ask: short, so that a refusal is noticed at once and not when the time is up.
const ATTEMPT: Duration = Duration::from_millis(250);
const LISTEN: Duration = Duration::from_millis(5);
/// A topic that was created a moment ago may not be known to every broker yet.
const LOOKS_FOR_A_TOPIC: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Looks at the cluster through a client of its own, since a member's limits cannot be changed once
/// it exists and depend on the answer: the number of partitions of all topics.
///
/// # Errors
/// What keeps the consumer from starting.
pub(super) fn look(
    config: &ClientConfig,
    brokers: &str,
    topics: &[Arc<str>],
    within: Duration,
) -> Result<u64, Error> {
    let (notices, _) = mpsc::unbounded_channel();
    let shared = Shared::new(topics.to_vec(), notices);
    let looker: BaseConsumer<Hook> =
        config.create_with_context(Hook::new(shared.clone())).map_err(config_error)?;
    let look = Look { looker, shared, brokers, within, until: Instant::now() + within };
    let mut partitions = 0;
    for topic in topics {
        partitions += look.partitions(topic)?;
    }
    Ok(partitions)
}

struct Look<'a> {
    looker: BaseConsumer<Hook>,
    shared: Arc<Shared>,
    brokers: &'a str,
    within: Duration,
    until: Instant,
}

impl Look<'_> {
    fn partitions(&self, topic: &str) -> Result<u64, Error> {
        let mut missing = 0;
        loop {
            let (code, partitions) = self.ask(topic)?;
            match code {
                None if partitions > 0 => return Ok(partitions),
                Some(code) if errors::is_refusal(code) => {
                    return Err(Error::new(
                        ErrorKind::Unauthorized,
                        format!("topic `{topic}`: {code}"),
                    ));
                }
                Some(Code::UnknownTopicOrPartition | Code::InvalidTopic) | None => {
                    missing += 1;
                    if missing == LOOKS_FOR_A_TOPIC || code == Some(Code::InvalidTopic) {
                        return Err(Error::new(
                            ErrorKind::UnknownTopic,
                            format!("topic `{topic}` does not exist at {}", self.brokers),
                        ));
                    }
                }
                // A topic that is being created has no leaders for a moment.
                Some(Code::LeaderNotAvailable) if Instant::now() < self.until => {}
                Some(code) => {
                    return Err(Error::new(ErrorKind::Client, format!("topic `{topic}`: {code}")));
                }
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// The topic's error, if any, and its number of partitions.
    fn ask(&self, topic: &str) -> Result<(Option<Code>, u64), Error> {
        loop {
            let answer = self.looker.fetch_metadata(Some(topic), ATTEMPT);
            // Errors and log lines wait in the client's queue until it is polled. With no time to
            // wait, a poll would end after each line.
            while self.looker.poll(LISTEN).is_some() {}
            match answer {
                Ok(metadata) => {
                    let Some(found) = metadata.topics().first() else {
                        return Ok((Some(Code::UnknownTopicOrPartition), 0));
                    };
                    return Ok((found.error().map(Code::from), found.partitions().len() as u64));
                }
                Err(error) => self.failed(error)?,
            }
        }
    }

    /// Whether to go on asking.
    fn failed(&self, error: KafkaError) -> Result<(), Error> {
        if let Some(reason) = self.shared.refusal() {
            return Err(Error::new(
                ErrorKind::Unauthorized,
                format!("{} refused this client: {reason}", self.brokers),
            ));
        }
        if Instant::now() < self.until {
            return Ok(());
        }
        let reason = self.shared.last_error().unwrap_or_else(|| error.to_string());
        let text = format!("no broker of {} answered in {:?}: {reason}", self.brokers, self.within);
        Err(Error::new(ErrorKind::Unreachable, text).caused_by(error))
    }
}
