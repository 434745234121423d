//! The frontier under a mutex, as the partition holds it.

use std::sync::Arc;

use loom::thread;

use super::{Frontier, Seq};
use crate::loom_support::{Branch, explore, take_either};
use crate::sync::Mutex;

type Shared = Arc<Mutex<Frontier>>;

/// A frontier with this many records from offset 0 on.
fn registered(count: i64) -> (Shared, Vec<Seq>) {
    let mut frontier = Frontier::new(0);
    let seqs = (0..count).map(|offset| frontier.register(offset).unwrap()).collect();
    (Arc::new(Mutex::new(frontier)), seqs)
}

/// The first and one past the last offset of each finished run.
fn runs(frontier: &Frontier) -> Vec<(i64, i64)> {
    frontier.finished_runs().map(|run| (run.start, run.end)).collect()
}

/// R7, the first record is pending while two threads finish later ones: the offset stays in front of
/// it and then moves over all of them at once.
#[test]
fn loom_frontier_r7_a_pending_record_pins_what_two_threads_finish_behind_it() {
    static OVERTAKEN: Branch = Branch::new("the later one finished first");
    explore(&[&OVERTAKEN], || {
        let (frontier, seqs) = registered(4);
        let later = {
            let (frontier, seq) = (frontier.clone(), seqs[3]);
            thread::spawn(move || {
                let mut frontier = frontier.lock();
                if frontier.finished_beyond() == 0 {
                    OVERTAKEN.take();
                }
                assert!(!frontier.complete(seq));
                assert_eq!(frontier.next_offset(), 0);
            })
        };
        let run = {
            let (frontier, seq) = (frontier.clone(), seqs[1]);
            thread::spawn(move || {
                let mut frontier = frontier.lock();
                assert!(!frontier.complete_run(seq, 2));
                assert_eq!(frontier.next_offset(), 0);
            })
        };
        assert_eq!(frontier.lock().next_offset(), 0);
        later.join().unwrap();
        run.join().unwrap();
        let mut frontier = frontier.lock();
        assert_eq!(runs(&frontier), [(1, 4)]);
        assert!(frontier.complete(seqs[0]));
        assert_eq!((frontier.next_offset(), frontier.finished_beyond()), (4, 0));
    });
}

/// R10, two registrations: one takes its place before the other, or is refused as passed; nothing
/// is torn.
#[test]
fn loom_frontier_r10_two_registrations() {
    static BOTH: Branch = Branch::new("both registered");
    static PASSED: Branch = Branch::new("the lower one came too late");
    explore(&[&BOTH, &PASSED], || {
        let (frontier, _) = registered(0);
        let higher = {
            let frontier = frontier.clone();
            thread::spawn(move || frontier.lock().register(5).unwrap())
        };
        let lower = frontier.lock().register(0);
        let higher = higher.join().unwrap();
        let mut frontier = frontier.lock();
        assert_eq!(frontier.unfinished(), if lower.is_some() { 2 } else { 1 });
        assert_eq!(frontier.next_offset(), if lower.is_some() { 0 } else { 5 });
        frontier.complete(higher);
        match lower {
            Some(lower) => {
                BOTH.take();
                assert_eq!((frontier.next_offset(), runs(&frontier)), (0, vec![(5, 6)]));
                assert!(frontier.complete(lower));
            }
            None => PASSED.take(),
        }
        assert_eq!((frontier.next_offset(), frontier.unfinished()), (6, 0));
    });
}

/// R9, a record is registered while the only one before it finishes: whichever comes first, the
/// offset stops at the new one.
#[test]
fn loom_frontier_r9_a_registration_against_the_completion_that_empties_it() {
    static EMPTIED: Branch = Branch::new("emptied before the registration");
    static NOT_EMPTIED: Branch = Branch::new("registered before the completion");
    explore(&[&EMPTIED, &NOT_EMPTIED], || {
        let (frontier, seqs) = registered(1);
        let intake = {
            let frontier = frontier.clone();
            thread::spawn(move || {
                let mut frontier = frontier.lock();
                take_either(frontier.unfinished() == 0, &EMPTIED, &NOT_EMPTIED);
                frontier.register(1).unwrap()
            })
        };
        assert!(frontier.lock().complete(seqs[0]));
        let new = intake.join().unwrap();
        let mut frontier = frontier.lock();
        assert_eq!(frontier.oldest_unfinished(), Some((new, 1)));
        assert!(frontier.complete(new));
        assert_eq!(frontier.next_offset(), 2);
    });
}

/// R14, what a commit sends is from one instant: no run begins at the offset or below it, and offset
/// and runs together are exactly what was finished.
#[test]
fn loom_frontier_r14_offset_and_finished_runs_against_completions() {
    static BEYOND: Branch = Branch::new("a run beyond the offset");
    static MOVED: Branch = Branch::new("the offset moved over it");
    explore(&[&BEYOND, &MOVED], || {
        let (frontier, seqs) = registered(3);
        let attempts = [seqs[0], seqs[1]].map(|seq| {
            let frontier = frontier.clone();
            thread::spawn(move || frontier.lock().complete(seq))
        });
        let (next, runs) = {
            let frontier = frontier.lock();
            (frontier.next_offset(), runs(&frontier))
        };
        match (next, &runs[..]) {
            (0 | 1, []) => {}
            (0, [run]) => {
                BEYOND.take();
                assert_eq!(*run, (1, 2));
            }
            (2, []) => MOVED.take(),
            other => panic!("{other:?}"),
        }
        let moves = attempts.map(|attempt| attempt.join().unwrap());
        assert!(moves[0], "the first record moves the offset whenever it finishes");
        assert_eq!(frontier.lock().next_offset(), 2);
    });
}
