//! Where a partition starts: always a number, never left to the client.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use rdkafka::consumer::BaseConsumer;

use super::client::Hook;
use super::offsets::{self, Edge};
use crate::record::TopicPartition;
use crate::source::StartAt;

/// Where a partition starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) offset: i64,
    /// Whether the group committed it; else the policy chose it.
    pub(super) committed: bool,
    /// Why the policy chose although the group had a position.
    pub(super) instead: Option<String>,
}

/// Finds the start of each place, or why it has none for now.
///
/// `reset` are places whose position the broker says is not in the log.
pub(super) fn find(
    consumer: &BaseConsumer<Hook>,
    places: &[TopicPartition],
    start_at: StartAt,
    reset: &BTreeSet<TopicPartition>,
    until: Instant,
) -> Vec<(TopicPartition, Result<Start, String>)> {
    if places.is_empty() {
        return Vec::new();
    }
    let mut committed = offsets::committed(consumer, places, until);
    let mut lows = offsets::edges(consumer, places, Edge::Low, until);
    let mut ends = HashMap::new();
    if start_at == StartAt::Latest {
        let open = |place: &&TopicPartition| {
            let known = committed.get(*place).and_then(|answer| answer.as_ref().ok());
            let low = lows.get(*place).and_then(|answer| answer.as_ref().ok());
            let position = known.copied().flatten().filter(|_| !reset.contains(*place));
            position.is_none_or(|offset| low.is_some_and(|low| offset < *low))
        };
        let open: Vec<_> = places.iter().filter(open).cloned().collect();
        if !open.is_empty() {
            ends = offsets::edges(consumer, &open, Edge::High, until);
        }
    }
    let starts = places.iter().map(|place| {
        let start = choose(Known {
            committed: answer(committed.remove(place), "what the group committed"),
            low: answer(lows.remove(place), "where the log begins"),
            end: answer(ends.remove(place), "where the log ends"),
            reset: reset.contains(place),
            start_at,
        });
        (place.clone(), start)
    });
    starts.collect()
}

fn answer<T>(answer: Option<Result<T, String>>, question: &str) -> Result<T, String> {
    match answer {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) => Err(format!("{question}: {error}")),
        None => Err(format!("{question}: no answer")),
    }
}

/// What is known of a partition.
struct Known {
    committed: Result<Option<i64>, String>,
    low: Result<i64, String>,
    end: Result<i64, String>,
    reset: bool,
    start_at: StartAt,
}

/// A commit that lies beyond the log's end is taken as it is, and so is one where the beginning is
/// not known: what this client sees of the end stops at an open transaction, so only the broker can
/// judge. It answers "out of range", the position is lost, and the policy decides then.
fn choose(known: Known) -> Result<Start, String> {
    let Known { committed, low, end, reset, start_at } = known;
    let instead = match (committed?, &low) {
        (Some(offset), _) if reset => Some(format!("the log does not go on at {offset} any more")),
        (None, _) if reset => Some("the log does not have the position any more".into()),
        (Some(offset), Ok(low)) if offset < *low => {
            Some(format!("the committed offset {offset} is not in the log, which begins at {low}"))
        }
        (Some(offset), _) => return Ok(Start { offset, committed: true, instead: None }),
        (None, _) => None,
    };
    let offset = match start_at {
        StartAt::Earliest => low?,
        StartAt::Latest => end?,
        StartAt::Fail => {
            let reason = instead.as_deref().unwrap_or("the group has committed nothing");
            return Err(format!("{reason}; start_at = fail"));
        }
    };
    Ok(Start { offset, committed: false, instead })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(committed: Option<i64>, start_at: StartAt) -> Known {
        Known { committed: Ok(committed), low: Ok(100), end: Ok(200), reset: false, start_at }
    }

    fn offset(known: Known) -> (i64, bool) {
        let start = choose(known).unwrap();
        assert!(start.instead.is_none() || !start.committed);
        (start.offset, start.committed)
    }

    #[test]
    fn what_is_committed_counts_whatever_the_policy() {
        for policy in [StartAt::Earliest, StartAt::Latest, StartAt::Fail] {
            assert_eq!(offset(known(Some(100), policy)), (100, true), "{policy:?}");
            assert_eq!(offset(known(Some(200), policy)), (200, true), "{policy:?}");
            assert_eq!(offset(known(Some(500), policy)), (500, true), "the broker judges");
            let unknown = Known { low: Err("away".into()), ..known(Some(7), policy) };
            assert_eq!(offset(unknown), (7, true), "the broker judges");
        }
    }

    #[test]
    fn the_policy_decides_where_nothing_is_committed_or_the_log_lost_it() {
        for (committed, reset) in
            [(None, false), (None, true), (Some(99), false), (Some(150), true)]
        {
            let known = |start_at| Known { reset, ..known(committed, start_at) };
            assert_eq!(offset(known(StartAt::Earliest)), (100, false));
            assert_eq!(offset(known(StartAt::Latest)), (200, false));
            let refused = choose(known(StartAt::Fail)).unwrap_err();
            assert!(refused.ends_with("; start_at = fail"), "{refused}");
        }
        let moved = choose(known(Some(99), StartAt::Earliest)).unwrap();
        assert!(moved.instead.unwrap().contains("the committed offset 99 is not in the log"));
        assert_eq!(choose(known(None, StartAt::Earliest)).unwrap().instead, None, "a new group");
    }

    #[test]
    fn nothing_is_guessed_when_nobody_answers() {
        let away = || Err("away".to_owned());
        let policy = StartAt::Earliest;
        assert!(choose(Known { committed: Err("away".into()), ..known(None, policy) }).is_err());
        assert!(choose(Known { low: away(), ..known(None, policy) }).is_err());
        assert!(choose(Known { end: away(), ..known(None, policy) }).is_ok(), "not needed");
        assert!(choose(Known { end: away(), ..known(None, StartAt::Latest) }).is_err());
    }
}
