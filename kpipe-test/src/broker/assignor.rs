//! Who gets which partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use kpipe_core::TopicPartition;

use super::member::MemberId;

/// How partitions are dealt out to the members of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Assignor {
    /// Of each topic a run of neighbours, the first members get one more. Kafka's default for eager
    /// groups.
    #[default]
    Range,
    /// All partitions of all topics in turn.
    RoundRobin,
    /// Everybody keeps what it has, as far as that is even. Cooperative and incremental groups always
    /// use it.
    Sticky,
}

/// Who gets which.
pub(super) type Target = BTreeMap<TopicPartition, MemberId>;

/// A member and what it subscribes to; in order of joining.
pub(super) type Subscriber<'a> = (MemberId, &'a [Arc<str>]);

/// Deals out the partitions, which are in order.
pub(super) fn assign(
    assignor: Assignor,
    partitions: &[TopicPartition],
    subscribers: &[Subscriber<'_>],
    owners: &Target,
) -> Target {
    match assignor {
        Assignor::Range => range(partitions, subscribers),
        Assignor::RoundRobin => round_robin(partitions, subscribers),
        Assignor::Sticky => sticky(partitions, subscribers, owners),
    }
}

fn wants((_, topics): &Subscriber<'_>, partition: &TopicPartition) -> bool {
    topics.contains(&partition.topic)
}

fn range(partitions: &[TopicPartition], subscribers: &[Subscriber<'_>]) -> Target {
    let mut target = Target::new();
    for of_topic in partitions.chunk_by(|a, b| a.topic == b.topic) {
        let members: Vec<_> = subscribers.iter().filter(|one| wants(one, &of_topic[0])).collect();
        if members.is_empty() {
            continue;
        }
        let (share, extra) = (of_topic.len() / members.len(), of_topic.len() % members.len());
        let mut rest = of_topic.iter();
        for (at, (member, _)) in members.into_iter().enumerate() {
            let count = share + usize::from(at < extra);
            target.extend(rest.by_ref().take(count).map(|partition| (partition.clone(), *member)));
        }
    }
    target
}

fn round_robin(partitions: &[TopicPartition], subscribers: &[Subscriber<'_>]) -> Target {
    let mut target = Target::new();
    let mut turn = subscribers.iter().cycle();
    for partition in partitions {
        // Once around at most: perhaps nobody wants it.
        let next = turn.by_ref().take(subscribers.len()).find(|one| wants(one, partition));
        target.extend(next.map(|(member, _)| (partition.clone(), *member)));
    }
    target
}

fn sticky(
    partitions: &[TopicPartition],
    subscribers: &[Subscriber<'_>],
    owners: &Target,
) -> Target {
    let mut loads = vec![Vec::new(); subscribers.len()];
    let mut free = Vec::new();
    for partition in partitions {
        let owner = owners.get(partition);
        let keeps = |one: &Subscriber<'_>| owner == Some(&one.0) && wants(one, partition);
        match subscribers.iter().position(keeps) {
            Some(at) => loads[at].push(partition),
            None => free.push(partition),
        }
    }
    for partition in free {
        let eligible = (0..subscribers.len()).filter(|at| wants(&subscribers[*at], partition));
        if let Some(at) = eligible.min_by_key(|at| loads[*at].len()) {
            loads[at].push(partition);
        }
    }
    while let Some((from, which, to)) = uneven(&loads, subscribers) {
        let partition = loads[from].remove(which);
        loads[to].push(partition);
    }
    let dealt = loads.iter().zip(subscribers).flat_map(|(load, (member, _))| {
        load.iter().map(|partition| ((*partition).clone(), *member))
    });
    dealt.collect()
}

/// A partition of a member that has at least two more than another that wants it.
fn uneven(
    loads: &[Vec<&TopicPartition>],
    subscribers: &[Subscriber<'_>],
) -> Option<(usize, usize, usize)> {
    let mut by_load: Vec<usize> = (0..loads.len()).collect();
    by_load.sort_by_key(|at| loads[*at].len());
    for &from in by_load.iter().rev() {
        for &to in &by_load {
            if loads[from].len() < loads[to].len() + 2 {
                break;
            }
            let last = loads[from].iter().rposition(|one| wants(&subscribers[to], one));
            if let Some(which) = last {
                return Some((from, which, to));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(topics: &[(&str, i32)]) -> Vec<TopicPartition> {
        let all = topics.iter().flat_map(|(topic, count)| {
            (0..*count).map(|partition| TopicPartition::new(*topic, partition))
        });
        all.collect()
    }

    fn counts(target: &Target, members: usize) -> Vec<usize> {
        (0..members)
            .map(|member| target.values().filter(|owner| **owner == member).count())
            .collect()
    }

    #[test]
    fn every_partition_goes_to_somebody_who_wants_it() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let (both, only_a) = (vec![a.clone(), b], vec![a]);
        let all = partitions(&[("a", 5), ("b", 3)]);
        let members: [Subscriber<'_>; 3] = [(0, &both), (1, &only_a), (2, &both)];
        for (assignor, expected) in [
            (Assignor::Range, [4, 2, 2]),
            (Assignor::RoundRobin, [3, 2, 3]),
            (Assignor::Sticky, [3, 2, 3]),
        ] {
            let target = assign(assignor, &all, &members, &Target::new());
            assert_eq!(target.len(), 8);
            assert_eq!(counts(&target, 3), expected, "{assignor:?}");
            assert!(target.iter().all(|(p, owner)| *owner != 1 || &*p.topic == "a"));
            assert!(assign(assignor, &all, &[], &Target::new()).is_empty());
        }
    }

    #[test]
    fn sticky_moves_only_what_evens_out() {
        let topics: Vec<Arc<str>> = vec!["t".into()];
        let all = partitions(&[("t", 7)]);
        let one = assign(Assignor::Sticky, &all, &[(0, &topics)], &Target::new());
        let two = assign(Assignor::Sticky, &all, &[(0, &topics), (1, &topics)], &one);
        assert_eq!(counts(&two, 2), [4, 3]);
        let three: Vec<Subscriber<'_>> = (0..3).map(|member| (member, &topics[..])).collect();
        let three = assign(Assignor::Sticky, &all, &three, &two);
        assert_eq!(counts(&three, 3), [3, 2, 2]);
        let moved = |before: &Target, after: &Target| {
            before.iter().filter(|(partition, owner)| after.get(*partition) != Some(*owner)).count()
        };
        assert_eq!((moved(&one, &two), moved(&two, &three)), (3, 2));
        let left = assign(Assignor::Sticky, &all, &[(0, &topics), (2, &topics)], &three);
        assert_eq!((counts(&left, 3), moved(&three, &left)), (vec![4, 0, 3], 2));
    }
}
