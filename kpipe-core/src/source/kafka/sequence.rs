//! Whether the next message of a partition may be handed out.

use super::errors::Trouble;

/// Where a partition's intake stands.
#[derive(Debug)]
pub(super) struct Sequence {
    /// One past the last record handed out.
    next: i64,
    /// An error came. The batch call raises librdkafka's position for an error as it does for a
    /// record, so if the partition is paused now (in any rebalance) it resumes one record too far.
    /// The record that follows must be `next`.
    in_doubt: bool,
    /// Nothing more is handed out: it would come after a hole.
    shut: bool,
}

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    HandOut,
    Discard,
    /// Discard it, and have the partition read again from what is committed.
    Jumped,
}

impl Sequence {
    pub(super) fn starting_at(next: i64) -> Self {
        Self { next, in_doubt: false, shut: false }
    }

    pub(super) fn next(&self) -> i64 {
        self.next
    }

    /// A record is there.
    #[inline]
    pub(super) fn record(&mut self, offset: i64) -> Verdict {
        if self.in_doubt || self.shut {
            return self.doubtful(offset);
        }
        self.next = offset + 1;
        Verdict::HandOut
    }

    #[cold]
    fn doubtful(&mut self, offset: i64) -> Verdict {
        if self.shut {
            return Verdict::Discard;
        }
        // A gap that was there anyway, by compaction or a transaction, costs one re-read too many.
        if offset > self.next {
            self.shut = true;
            return Verdict::Jumped;
        }
        self.in_doubt = false;
        self.next = offset + 1;
        Verdict::HandOut
    }

    /// An error is there. Returns whether it is news.
    pub(super) fn error(&mut self, trouble: Trouble) -> bool {
        if self.shut || trouble == Trouble::None {
            return false;
        }
        match trouble {
            Trouble::Passing => self.in_doubt = true,
            _ => self.shut = true,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_pass_with_their_gaps() {
        let mut sequence = Sequence::starting_at(10);
        for offset in [10, 11, 500] {
            assert_eq!(sequence.record(offset), Verdict::HandOut);
        }
        assert_eq!(sequence.next(), 501);
    }

    #[test]
    fn after_a_passing_error_the_next_record_clears_the_doubt() {
        let mut sequence = Sequence::starting_at(10);
        assert!(sequence.error(Trouble::Passing));
        assert_eq!(sequence.record(10), Verdict::HandOut);
        assert_eq!(sequence.record(20), Verdict::HandOut, "a gap is a gap again");
    }

    #[test]
    fn after_a_passing_error_a_jump_is_not_handed_out() {
        let mut sequence = Sequence::starting_at(10);
        assert!(sequence.error(Trouble::Passing));
        assert_eq!(sequence.record(11), Verdict::Jumped);
        assert_eq!(sequence.record(12), Verdict::Discard);
        assert!(!sequence.error(Trouble::Passing), "said once");
        assert_eq!(sequence.next(), 10);
    }

    #[test]
    fn nothing_follows_a_lost_position_or_a_hole() {
        for trouble in [Trouble::Hole, Trouble::Position { reset: true }] {
            let mut sequence = Sequence::starting_at(10);
            assert!(sequence.error(trouble));
            assert!(!sequence.error(trouble));
            assert_eq!(sequence.record(10), Verdict::Discard);
        }
    }

    #[test]
    fn an_error_that_means_nothing_changes_nothing() {
        let mut sequence = Sequence::starting_at(10);
        assert!(!sequence.error(Trouble::None));
        assert_eq!(sequence.record(30), Verdict::HandOut);
    }
}
