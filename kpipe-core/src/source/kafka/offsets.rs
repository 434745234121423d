//! Questions about offsets: what the group committed, where logs begin and end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::client::{Hook, list_of};
use super::ffi::Client;
use crate::record::TopicPartition;

const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);
/// How long the question about one partition may take: one that has a leader answers in far less.
const ALONE_WITHIN: Duration = Duration::from_millis(300);
/// How long the brokers may take to say where the logs end.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// An end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// The first offset that the log still has.
    Low,
    /// One past the last; with `isolation.level=read_committed` (the default) before the first
    /// transaction that is open.
    High,
}

/// What is known of each place, or why nothing is.
pub(super) type Answers<T> = HashMap<TopicPartition, Result<T, String>>;

/// What the group has committed; `None` where it has not. Asks again while there are errors, until
/// the time is up: right after a rebalance the coordinator may not be ready.
pub(super) fn committed(
    consumer: &BaseConsumer<Hook>,
    places: &[TopicPartition],
    until: Instant,
) -> Answers<Option<i64>> {
    ask(consumer, places, until, |open, left| consumer.committed_offsets(list_of(open), left))
        .into_iter()
        .map(|(place, answer)| {
            let offset = answer.map(|offset| match offset {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            (place, offset)
        })
        .collect()
}

/// Where the logs begin or end: one request for each leader, and where that fails as a whole, because
/// one partition has no leader or is gone, each partition on its own.
pub(super) fn edges(
    consumer: &BaseConsumer<Hook>,
    places: &[TopicPartition],
    edge: Edge,
    until: Instant,
) -> Answers<i64> {
    let third = until.saturating_duration_since(Instant::now()) / 3;
    let together = ask(consumer, places, Instant::now() + third, |open, left| {
        let mut list = list_of(open);
        // In a question by time these two stand for the ends of the log, as in Kafka's protocol.
        let stands_for = match edge {
            Edge::Low => Offset::Beginning,
            Edge::High => Offset::End,
        };
        list.set_all_offsets(stands_for)?;
        consumer.offsets_for_times(list, left)
    });
    let answers = together.into_iter().map(|(place, answer)| {
        let answer = match answer {
            Ok(Offset::Offset(offset)) => Ok(offset),
            Ok(other) => Err(format!("the broker answered {other:?}")),
            Err(error) if Instant::now() >= until => Err(error),
            Err(_) => alone(consumer, &place, edge),
        };
        (place, answer)
    });
    answers.collect()
}

fn alone(consumer: &BaseConsumer<Hook>, place: &TopicPartition, edge: Edge) -> Result<i64, String> {
    let (low, high) = consumer
        .fetch_watermarks(&place.topic, place.partition, ALONE_WITHIN)
        .map_err(|error| error.to_string())?;
    Ok(match edge {
        Edge::Low => low,
        Edge::High => high,
    })
}

/// Where the logs end; from the last fetch where the brokers do not answer in time.
pub(super) fn ends(client: &Client, places: Vec<TopicPartition>) -> Vec<Option<i64>> {
    let mut ends = edges(client.consumer(), &places, Edge::High, Instant::now() + ENDS_WITHIN);
    let end = |place| match ends.remove(place) {
        Some(Ok(end)) => Some(end),
        _ => client.cached_end(place),
    };
    places.iter().map(end).collect()
}

/// Asks for all places, then for those again that had an error.
fn ask(
    consumer: &BaseConsumer<Hook>,
    places: &[TopicPartition],
    until: Instant,
    question: impl Fn(&[TopicPartition], Duration) -> rdkafka::error::KafkaResult<TopicPartitionList>,
) -> Answers<Offset> {
    let shared = consumer.context().shared();
    let mut answers = HashMap::with_capacity(places.len());
    let mut open = places.to_vec();
    while !open.is_empty() {
        // At least a moment, so that even a late question is asked once.
        let left = until.saturating_duration_since(Instant::now()).max(BETWEEN_ATTEMPTS);
        match question(&open, left) {
            Ok(list) => {
                for elem in list.elements() {
                    let place = shared.place(elem.topic(), elem.partition());
                    let answer = elem.error().map(|()| elem.offset()).map_err(|e| e.to_string());
                    answers.insert(place, answer);
                }
                open.retain(|place| !matches!(answers.get(place), Some(Ok(_))));
            }
            Err(error) => {
                let unanswered = open.iter().map(|place| (place.clone(), Err(error.to_string())));
                answers.extend(unanswered);
            }
        }
        if open.is_empty() || Instant::now() + BETWEEN_ATTEMPTS >= until {
            break;
        }
        std::thread::sleep(BETWEEN_ATTEMPTS);
    }
    answers
}
