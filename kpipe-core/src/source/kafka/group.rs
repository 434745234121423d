//! What the group gave to this member, and which rebalance waits for an answer.
//!
//! librdkafka considers a rebalance answered by the next (un)assign call, whatever its list. So a
//! call made for another reason (one partition that gets a new position) must not happen while a
//! revoke is open, or the group would hand on partitions that are still being drained.

use std::collections::BTreeSet;

use crate::record::TopicPartition;

/// The membership as this side sees it.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Rebalances that the client waits for, oldest first; more than one only if a call for a single
    /// partition crossed a rebalance.
    open: Vec<Rebalance>,
    /// What the group gave to this member and has not asked back.
    owned: BTreeSet<TopicPartition>,
    /// What librdkafka was told to fetch. Less than `owned` where a start was not found.
    pub(super) fetched: BTreeSet<TopicPartition>,
    /// Partitions whose log does not have their position: the policy decides where to start.
    pub(super) reset: BTreeSet<TopicPartition>,
    /// How changes are made: partition by partition, or the whole list at once.
    pub(super) cooperative: bool,
    /// From now on rebalances are answered where they arrive, by giving everything back.
    pub(super) closing: bool,
}

/// A rebalance that the group waits for.
#[derive(Debug)]
pub(super) struct Rebalance {
    pub(super) kind: Kind,
    pub(super) partitions: BTreeSet<TopicPartition>,
    /// Those of a revoke that have not been unassigned.
    left: BTreeSet<TopicPartition>,
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Assign,
    Revoke,
}

impl Group {
    /// The client asks for an answer.
    pub(super) fn asked(
        &mut self,
        kind: Kind,
        partitions: BTreeSet<TopicPartition>,
        cooperative: bool,
        lost: bool,
    ) {
        self.cooperative = cooperative;
        match kind {
            Kind::Assign => self.owned.extend(partitions.iter().cloned()),
            Kind::Revoke => self.owned.retain(|place| !partitions.contains(place)),
        }
        let left = match kind {
            Kind::Assign => BTreeSet::new(),
            Kind::Revoke => partitions.clone(),
        };
        self.open.push(Rebalance { kind, partitions, left, lost });
    }

    /// The rebalance that an assign answers, if one is open.
    pub(super) fn take_assign(&mut self) -> Option<Rebalance> {
        let at = self.open.iter().position(|open| open.kind == Kind::Assign)?;
        Some(self.open.remove(at))
    }

    /// Notes that these were unassigned. Returns the revoke that is complete with them, if any, and
    /// those of them that belong to none.
    pub(super) fn unassigned(
        &mut self,
        partitions: Vec<TopicPartition>,
    ) -> (Option<Rebalance>, Vec<TopicPartition>) {
        let mut rest = Vec::new();
        for place in partitions {
            let mut revoke = self.open.iter_mut().filter(|open| open.kind == Kind::Revoke);
            if !revoke.any(|open| open.left.remove(&place)) {
                rest.push(place);
            }
        }
        let done =
            self.open.iter().position(|open| open.kind == Kind::Revoke && open.left.is_empty());
        (done.map(|at| self.open.remove(at)), rest)
    }

    pub(super) fn take_all(&mut self) -> Vec<Rebalance> {
        std::mem::take(&mut self.open)
    }

    /// Whether this partition may be consumed: it is this member's and not being asked back.
    pub(super) fn owns(&self, place: &TopicPartition) -> bool {
        self.owned.contains(place)
    }

    /// Whether a revoke waits for its answer.
    pub(super) fn is_revoking(&self) -> bool {
        self.open.iter().any(|open| open.kind == Kind::Revoke)
    }

    /// Whether a revoke waits that was not lost when it came.
    pub(super) fn is_revoking_in_peace(&self) -> bool {
        self.open.iter().any(|open| open.kind == Kind::Revoke && !open.lost)
    }

    /// The group did not wait for the open revokes: what is left of them.
    pub(super) fn lost_while_revoking(&mut self) -> Vec<TopicPartition> {
        let mut left = Vec::new();
        for open in self.open.iter_mut().filter(|open| open.kind == Kind::Revoke && !open.lost) {
            open.lost = true;
            left.extend(open.left.iter().cloned());
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(numbers: &[i32]) -> BTreeSet<TopicPartition> {
        numbers.iter().map(|&number| TopicPartition::new("t", number)).collect()
    }

    fn list(numbers: &[i32]) -> Vec<TopicPartition> {
        places(numbers).into_iter().collect()
    }

    #[test]
    fn a_revoke_is_answered_once_all_its_partitions_are_back() {
        let mut group = Group::default();
        group.asked(Kind::Assign, places(&[0, 1, 2]), true, false);
        assert!(group.take_assign().is_some());
        group.asked(Kind::Revoke, places(&[0, 1]), true, false);
        assert!(!group.owns(&TopicPartition::new("t", 0)));
        assert!(group.owns(&TopicPartition::new("t", 2)));

        let (answered, rest) = group.unassigned(list(&[0, 2]));
        assert!(answered.is_none() && group.is_revoking());
        assert_eq!(rest, list(&[2]), "belongs to no revoke");
        let (answered, _) = group.unassigned(list(&[1]));
        assert_eq!(answered.unwrap().partitions, places(&[0, 1]));
        assert!(!group.is_revoking());
    }

    #[test]
    fn an_empty_revoke_is_answered_by_an_empty_unassign() {
        let mut group = Group::default();
        group.asked(Kind::Revoke, places(&[]), false, false);
        assert!(group.unassigned(Vec::new()).0.is_some());
        assert!(group.unassigned(Vec::new()).0.is_none());
    }

    #[test]
    fn what_is_left_of_a_revoke_can_be_lost_once() {
        let mut group = Group::default();
        group.asked(Kind::Assign, places(&[0, 1]), false, false);
        group.take_assign();
        group.asked(Kind::Revoke, places(&[0, 1]), false, false);
        group.unassigned(list(&[0]));
        assert!(group.is_revoking_in_peace());
        assert_eq!(group.lost_while_revoking(), list(&[1]));
        assert!(!group.is_revoking_in_peace());
        assert_eq!(group.lost_while_revoking(), list(&[]));
    }
}
