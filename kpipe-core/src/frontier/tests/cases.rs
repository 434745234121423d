use super::{Frontier, Naive, Seq, Tracker, register_all};

/// Makes each case a test of the frontier and of the model.
macro_rules! over_both {
    ($($(#[$doc:meta])* fn $name:ident<$tracker:ident>() $body:block)*) => {
        mod frontier {
            $(#[test] fn $name() { super::generic::$name::<super::Frontier>(); })*
        }
        mod model {
            $(#[test] fn $name() { super::generic::$name::<super::Naive>(); })*
        }
        mod generic {
            use super::*;
            $($(#[$doc])* pub(super) fn $name<$tracker: Tracker>() $body)*
        }
    };
}

over_both! {
    /// C4: what was committed says where to start, exactly.
    fn c4_nothing_registered_commits_the_start<T>() {
        let tracker = T::new(17);
        assert_eq!((tracker.next_offset(), tracker.next_expected()), (17, 17));
        assert_eq!((tracker.window(), tracker.unfinished(), tracker.finished_beyond()), (0, 0, 0));
        assert_eq!(tracker.oldest_unfinished(), None);
        assert_eq!(tracker.offset_of(Seq(0)), None);
        assert!(tracker.runs().is_empty());
    }

    /// C6: gaps inside, acknowledged out of order.
    fn c6_gaps_end_at_last_plus_one<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, [0, 2, 4, 6]);
        assert_eq!(tracker.try_complete(seqs[0]), Some(true));
        assert_eq!(tracker.next_offset(), 2);
        assert_eq!(tracker.try_complete(seqs[1]), Some(true));
        assert_eq!(tracker.next_offset(), 4);
        assert_eq!(tracker.try_complete(seqs[3]), Some(false));
        assert_eq!((tracker.next_offset(), tracker.finished_beyond()), (4, 1));
        assert_eq!(tracker.runs(), [(6, 7)]);
        assert_eq!(tracker.try_complete(seqs[2]), Some(true));
        assert_eq!((tracker.next_offset(), tracker.finished_beyond()), (7, 0));
    }

    /// C6: a transaction marker at the very start: the first record is not where it was expected.
    fn c6_a_marker_first<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, [1, 2]);
        assert_eq!(tracker.oldest_unfinished(), Some((seqs[0], 1)));
        assert_eq!(tracker.try_complete(seqs[1]), Some(false));
        assert_eq!(tracker.next_offset(), 1);
        assert_eq!(tracker.try_complete(seqs[0]), Some(true));
        assert_eq!(tracker.next_offset(), 3);
    }

    /// C6: a marker after the last record is never delivered, so it holds nothing up; the record
    /// after it says that it was there.
    fn c6_a_marker_last<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, [0, 1]);
        tracker.try_complete_run(seqs[0], 2);
        assert_eq!(tracker.next_offset(), 2);
        let after = register_all(&mut tracker, [3])[0];
        assert_eq!(tracker.next_offset(), 3);
        assert_eq!(tracker.try_complete(after), Some(true));
        assert_eq!(tracker.next_offset(), 4);
    }

    /// C6: a marker between an unfinished record and finished ones is never passed on its own.
    fn c6_a_marker_between<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, [0, 1, 3, 4]);
        assert_eq!(tracker.try_complete_run(seqs[2], 2), Some(false));
        assert_eq!(tracker.try_complete(seqs[0]), Some(true));
        assert_eq!((tracker.next_offset(), tracker.runs()), (1, vec![(3, 5)]));
        assert_eq!(tracker.try_complete(seqs[1]), Some(true));
        assert_eq!(tracker.next_offset(), 5);
    }

    /// A gap between two finished neighbours is part of their run, one beside a hole is not.
    fn c6_a_run_covers_the_gaps_inside_it<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, [0, 10, 20, 30, 40]);
        tracker.try_complete_run(seqs[1], 2);
        tracker.try_complete(seqs[4]);
        assert_eq!(tracker.runs(), [(10, 21), (40, 41)]);
        let offsets: Vec<_> = seqs.iter().map(|seq| tracker.offset_of(*seq)).collect();
        assert_eq!(offsets, [0, 10, 20, 30, 40].map(Some));
    }

    /// C10: the first member of a group on a log that starts at 5000, found by the reset policy.
    fn c10_the_log_starts_at_5000<T>() {
        let mut tracker = T::new(5000);
        assert_eq!(tracker.next_offset(), 5000);
        assert_eq!(tracker.register(4999), None);
        let seqs = register_all(&mut tracker, 5000..5003);
        assert_eq!(tracker.try_complete(seqs[1]), Some(false));
        assert_eq!((tracker.next_offset(), tracker.runs()), (5000, vec![(5001, 5002)]));
        assert_eq!(tracker.try_complete(seqs[0]), Some(true));
        assert_eq!(tracker.next_offset(), 5002);
    }

    /// librdkafka delivers a record twice now and then after a pause.
    fn duplicates_are_refused_and_change_nothing<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, [0, 1, 5]);
        for offset in [-1, 0, 1, 3, 5] {
            assert_eq!(tracker.register(offset), None, "{offset}");
        }
        assert_eq!((tracker.window(), tracker.next_expected()), (3, 6));
        tracker.try_complete_run(seqs[0], 3);
        assert_eq!(tracker.register(5), None);
        assert_eq!((tracker.window(), tracker.next_offset()), (0, 6));
    }

    /// A bug of the caller must never move the committed offset.
    fn what_is_finished_or_unknown_is_refused<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, 0..6);
        tracker.try_complete(seqs[0]);
        tracker.try_complete(seqs[3]);
        let finished_already = [(0, 1), (0, 6), (0, 2), (3, 1), (1, 3), (2, 2), (3, 2)];
        let unknown = [(6, 1), (5, 2), (1, 6), (u64::MAX, 1), (1, u64::MAX), (7, 0)];
        for (first, count) in finished_already.into_iter().chain(unknown) {
            assert_eq!(tracker.try_complete_run(Seq(first), count), None, "{count} from {first}");
        }
        for seq in [0, 3, 6, u64::MAX] {
            assert_eq!(tracker.try_complete(Seq(seq)), None, "{seq}");
        }
        assert_eq!((tracker.next_offset(), tracker.finished_beyond()), (1, 1));
        assert_eq!(tracker.runs(), [(3, 4)]);
    }

    fn an_empty_run_is_no_completion<T>() {
        let mut tracker = T::new(0);
        let seqs = register_all(&mut tracker, 0..2);
        assert_eq!(tracker.try_complete_run(seqs[0], 0), Some(false));
        assert_eq!(tracker.try_complete_run(seqs[1].plus(1), 0), Some(false));
        assert_eq!(tracker.unfinished(), 2);
    }

    /// Runs that end at, before and after the borders of words (64) and chunks (4,096).
    fn runs_meet_the_borders_of_words_and_chunks<T>() {
        for border in [64_u64, 4096, 8192] {
            for (first, end) in [(1, border), (border - 1, border + 1), (border, border + 64)] {
                let mut tracker = T::new(0);
                let seqs = register_all(&mut tracker, 0..12_400);
                let run = (first as i64, end as i64);
                assert_eq!(tracker.try_complete_run(Seq(first), end - first), Some(false));
                assert_eq!(tracker.runs(), [run]);
                assert_eq!(tracker.try_complete_run(seqs[0], first), Some(true));
                assert_eq!(tracker.next_offset(), run.1);
            }
        }
    }
}

mod bugs_of_the_caller {
    use super::*;

    #[test]
    #[cfg_attr(debug_assertions, should_panic = "completed twice")]
    fn completing_twice_fails_a_debug_build_and_changes_nothing_else() {
        let mut frontier = Frontier::new(0);
        let seqs = register_all(&mut frontier, 0..2);
        assert!(frontier.complete(seqs[0]));
        assert!(!frontier.complete(seqs[0]));
        assert_eq!(frontier.next_offset(), 1);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic = "never registered")]
    fn an_unknown_run_fails_a_debug_build_and_changes_nothing_else() {
        let mut frontier = Frontier::new(0);
        let seqs = register_all(&mut frontier, 0..2);
        assert!(!frontier.complete_run(seqs[0], 3));
        assert_eq!(frontier.next_offset(), 0);
    }
}

#[test]
fn completing_says_whether_the_offset_moved() {
    let mut frontier = Frontier::new(0);
    let seqs = register_all(&mut frontier, 0..6);
    assert!(!frontier.complete(seqs[1]));
    assert!(frontier.complete(seqs[0]));
    assert!(!frontier.complete_run(seqs[3], 2));
    assert!(frontier.complete_run(seqs[2], 1));
    assert_eq!(frontier.next_offset(), 5);
}
