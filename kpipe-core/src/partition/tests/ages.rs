use super::super::ages::{Ages, MOST, STEP};
use super::*;

/// Sequences from 0 on; only a frontier makes them.
fn seq(number: u64) -> Seq {
    let mut frontier = crate::frontier::Frontier::new(0);
    frontier.register(0).expect("the first").plus(number)
}

#[test]
fn a_record_is_as_old_as_its_batch() {
    let mut ages = Ages::default();
    assert_eq!(ages.of(seq(0)), None);
    ages.note(seq(0), STEP, None);
    ages.note(seq(10), STEP * 3, Some(seq(4)));
    assert_eq!((ages.of(seq(9)), ages.of(seq(10))), (Some(STEP), Some(STEP * 3)));
    assert_eq!(ages.of(seq(1_000)), Some(STEP * 3));
}

#[test]
fn batches_close_together_share_an_entry_and_batches_a_step_apart_do_not() {
    let mut ages = Ages::default();
    ages.note(seq(0), STEP, None);
    ages.note(seq(1), STEP * 2 - Duration::from_nanos(1), Some(seq(0)));
    assert_eq!(ages.of(seq(1)), Some(STEP));
    ages.note(seq(2), STEP * 2, Some(seq(0)));
    assert_eq!(ages.of(seq(2)), Some(STEP * 2));
    assert_eq!(ages.len(), 2);
}

#[test]
fn what_only_finished_records_need_is_forgotten() {
    let mut ages = Ages::default();
    for batch in 0..100 {
        ages.note(seq(batch * 10), STEP * batch as u32, Some(seq(batch * 10)));
        assert_eq!(ages.len(), 1 + usize::from(batch > 0));
    }
}

/// A record that is stuck for good keeps its own age, while those behind it get coarser ones.
#[test]
fn behind_a_stuck_record_ages_get_coarser_and_memory_stays() {
    let mut ages = Ages::default();
    for batch in 0..100_000 {
        ages.note(seq(batch), STEP * batch as u32, Some(seq(0)));
        assert!(ages.len() <= MOST);
    }
    assert_eq!(ages.of(seq(0)), Some(Duration::ZERO));
    let latest = ages.of(seq(99_999)).unwrap();
    assert_eq!(latest, STEP * 99_999, "the newest is exact");
}

mod properties {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::property::{LONGEST, cases};

    proptest! {
        #![proptest_config(cases())]

        /// Whatever comes when, and however much is stuck: no record is younger than it is, those that
        /// came later are not older, and without coarsening each age is right to within a step.
        #[test]
        fn ages_are_upper_bounds_in_order(
            batches in vec((1..20_u64, 0..30_u64, 0..3_u64), 1..=LONGEST),
            stuck in any::<bool>(),
        ) {
            let mut ages = Ages::default();
            let mut came: Vec<Duration> = Vec::new();
            let (mut now, mut oldest, mut coarse) = (Duration::ZERO, 0, false);
            for (count, pause, finished) in batches {
                now += Duration::from_millis(pause);
                let first = came.len() as u64;
                coarse |= ages.len() == MOST;
                ages.note(seq(first), now, Some(seq(oldest)));
                prop_assert!(ages.len() <= MOST);
                came.extend(std::iter::repeat_n(now, count as usize));
                if !stuck {
                    oldest = (oldest + finished * count).min(came.len() as u64 - 1);
                }
            }
            let mut before = Duration::ZERO;
            for number in oldest..came.len() as u64 {
                let at = ages.of(seq(number)).expect("in hand");
                let came = came[number as usize];
                prop_assert!(before <= at && at <= came, "{} ms of {} ms", at.as_millis(), came.as_millis());
                prop_assert!(coarse || came - at < STEP);
                before = at;
            }
        }
    }
}
