//! The intake against completions, another intake, and the control loop that stops it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use loom::thread;

use super::*;
use crate::loom_support::{Branch, explore, raised, take_either};
use crate::partition::{Claim, Draw};
use crate::wake::Reasons;

/// R1, an intake that finds the window full against the completion that opens it: it goes on.
#[test]
fn loom_partition_r1_a_full_window_against_the_completion_that_opens_it() {
    static FULL: Branch = Branch::new("found it full");
    static OPEN: Branch = Branch::new("found it open");
    explore(&[&FULL, &OPEN], || {
        let epoch = Epoch::new(2);
        let (_, runnable) = epoch.admit(&[(0, NO_LANE), (1, NO_LANE), (2, NO_LANE)]);
        epoch.partition.finish_run(runnable[1].seq, 2);
        let task = {
            let epoch = epoch.clone();
            thread::spawn(move || epoch.pass(&runnable[0]))
        };
        let mut full = false;
        while epoch.partition.draw() == Draw::WindowFull {
            full = true;
            assert_eq!(wait(&epoch.intake), Reasons::ROOM);
        }
        take_either(full, &FULL, &OPEN);
        task.join().unwrap();
        assert_eq!(epoch.partition.draw(), Draw::Yes);
    });
}

/// At which step an intake found that it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    AtDraw,
    AtAdmission,
    AtClaim,
    Never,
}

/// How far the stop has come; not loom's, so that it orders nothing.
#[derive(Default)]
struct Progress {
    draining: AtomicBool,
    idle: AtomicBool,
}

/// R1, stopping against an intake at work: what it began is waited for, the rest is given up, and
/// nothing runs any more once the partition is said to be idle.
#[test]
fn loom_partition_r1_stopping_against_an_intake_at_work() {
    static AT_DRAW: Branch = Branch::new("stopped before the draw");
    static AT_ADMISSION: Branch = Branch::new("between draw and admission");
    static AT_CLAIM: Branch = Branch::new("between admission and claim");
    static NEVER: Branch = Branch::new("after the claim");
    static WAITED: Branch = Branch::new("the drain waited");
    explore(&[&AT_DRAW, &AT_ADMISSION, &AT_CLAIM, &NEVER, &WAITED], || {
        let epoch = Epoch::new(WIDE);
        let progress = Arc::new(Progress::default());
        let intake = {
            let (epoch, progress) = (epoch.clone(), progress.clone());
            thread::spawn(move || work_through_a_batch(&epoch, &progress))
        };
        assert!(epoch.partition.begin_drain().is_empty());
        progress.draining.store(true, Relaxed);
        if epoch.wait_until_idle() {
            WAITED.take();
        }
        progress.idle.store(true, Relaxed);
        let closing = epoch.partition.close();
        let (branch, passed) = match intake.join().unwrap() {
            Stopped::AtDraw => (&AT_DRAW, 0),
            Stopped::AtAdmission => (&AT_ADMISSION, 0),
            Stopped::AtClaim => (&AT_CLAIM, 1),
            Stopped::Never => (&NEVER, 2),
        };
        branch.take();
        let counts = epoch.counts();
        assert_eq!(counts.passed, passed);
        assert_accounted(counts);
        assert_eq!(closing.to_commit, (passed > 0).then_some(passed as i64));
        assert_eq!(raised(&epoch.intake), Reasons::STOP);
    });
}

/// A batch of three: the first is ready at its first poll, for which nobody is asked; the second
/// becomes a task; the third is given up when the second may not start.
fn work_through_a_batch(epoch: &Epoch, progress: &Progress) -> Stopped {
    let run = || assert!(!progress.idle.load(Relaxed), "a handler runs in an idle partition");
    if epoch.partition.draw() == Draw::Stopped {
        return Stopped::AtDraw;
    }
    let (admitted, mut runnable) = epoch.admit(&[(0, NO_LANE), (1, LANE), (2, NO_LANE)]);
    if admitted.stopped {
        return Stopped::AtAdmission;
    }
    run();
    epoch.partition.finish_run(runnable.pop_front().unwrap().seq, 1);
    let draining = progress.draining.load(Relaxed);
    let claim = epoch.partition.claim(runnable.pop_front().unwrap(), true);
    // The third one stays with the intake, which ends here.
    let stopped = match claim {
        Claim::Stopped(1) => Stopped::AtClaim,
        Claim::Run(second) => {
            assert!(!draining, "a record starts in a partition that drains");
            run();
            assert_eq!(epoch.pass(&second), None);
            Stopped::Never
        }
        other => panic!("{other:?}"),
    };
    epoch.partition.abandon(runnable.len() as u64);
    stopped
}

/// R9, a record is admitted while the only one before it finishes: it is never dropped from the
/// frontier, whichever comes first.
#[test]
fn loom_partition_r9_an_admission_against_the_completion_that_empties_it() {
    static EMPTIED: Branch = Branch::new("emptied before the admission");
    static NOT_EMPTIED: Branch = Branch::new("admitted before the completion");
    explore(&[&EMPTIED, &NOT_EMPTIED], || {
        let (epoch, runnable) = Epoch::running(1);
        let intake = {
            let epoch = epoch.clone();
            thread::spawn(move || {
                take_either(epoch.partition.is_idle(), &EMPTIED, &NOT_EMPTIED);
                epoch.admit(&[(1, NO_LANE)]).1
            })
        };
        epoch.pass(&runnable[0]);
        let mut new = intake.join().unwrap();
        let view = epoch.partition.view();
        assert_eq!((view.frontier, view.active, view.finished_beyond), (1, 1, 0));
        assert!(view.oldest.is_some(), "the new record is the oldest");
        assert_eq!(epoch.partition.to_commit(), Some(1));
        epoch.pass(&new.pop_front().unwrap());
        assert_eq!(epoch.partition.to_commit(), Some(2));
        assert!(epoch.partition.is_idle());
    });
}

/// R10, two admissions: each offset is registered once or counted as a duplicate, in whichever order
/// they come.
#[test]
fn loom_partition_r10_two_admissions() {
    static IN_ORDER: Branch = Branch::new("in order");
    static PASSED: Branch = Branch::new("the lower ones came too late");
    explore(&[&IN_ORDER, &PASSED], || {
        let epoch = Epoch::new(WIDE);
        let other = {
            let epoch = epoch.clone();
            thread::spawn(move || epoch.admit(&[(1, NO_LANE), (2, NO_LANE)]))
        };
        let (lower, first) = epoch.admit(&[(0, NO_LANE), (1, NO_LANE)]);
        let (higher, second) = other.join().unwrap();
        let in_order = lower.duplicates.is_empty();
        take_either(in_order, &IN_ORDER, &PASSED);
        assert_eq!(lower.duplicates, if in_order { vec![] } else { vec![0, 1] });
        assert_eq!(higher.duplicates, if in_order { vec![1] } else { vec![] });
        let view = epoch.partition.view();
        assert_eq!(view.active, (first.len() + second.len()) as u64);
        assert_eq!(view.frontier, if in_order { 0 } else { 1 });
        for record in first.iter().chain(&second) {
            epoch.pass(record);
        }
        assert_eq!(epoch.partition.to_commit(), Some(3));
        assert_accounted(epoch.counts());
    });
}

/// R6 and R15, a successor left to the intake against an intake that looks and then waits: it is
/// started, and by nobody twice.
#[test]
fn loom_partition_r15_a_successor_left_to_the_intake_is_started() {
    static WAITED: Branch = Branch::new("waited for it");
    static THERE: Branch = Branch::new("found it there");
    explore(&[&WAITED, &THERE], || {
        let epoch = Epoch::new(WIDE);
        let (_, runnable) = epoch.admit(&[(0, LANE)]);
        epoch.partition.hold(LANE.unwrap());
        epoch.admit(&[(1, LANE)]);
        let task = {
            let epoch = epoch.clone();
            thread::spawn(move || {
                let next = epoch.pass(&runnable[0]).expect("it waits in the lane");
                assert_eq!(epoch.partition.wait_for_slot(next), None);
            })
        };
        let mut waited = false;
        while !epoch.partition.has_ready() {
            waited = true;
            assert_eq!(wait(&epoch.intake), Reasons::ROOM);
        }
        take_either(waited, &WAITED, &THERE);
        let next = epoch.partition.take_ready().expect("it was said to be there");
        task.join().unwrap();
        assert_eq!((next.item, epoch.partition.take_ready()), (1, None));
        assert_eq!(epoch.pass(&next), None);
        assert!(epoch.partition.is_idle());
        assert_eq!(epoch.partition.to_commit(), Some(2));
    });
}

/// R8, a successor left to the intake against a drain: given up exactly once, and the drain hears of
/// its end.
#[test]
fn loom_partition_r8_a_successor_left_to_the_intake_against_a_drain() {
    static DRAINED: Branch = Branch::new("given up by the drain");
    static REFUSED: Branch = Branch::new("refused, because it drains");
    static NEVER: Branch = Branch::new("still in its lane");
    explore(&[&DRAINED, &REFUSED, &NEVER], || {
        let epoch = Epoch::new(WIDE);
        let (_, runnable) = epoch.admit(&[(0, LANE)]);
        epoch.partition.hold(LANE.unwrap());
        epoch.admit(&[(1, LANE)]);
        let task = {
            let epoch = epoch.clone();
            thread::spawn(move || {
                let next = epoch.pass(&runnable[0])?;
                epoch.partition.wait_for_slot(next).map_or(Some(false), |_| Some(true))
            })
        };
        let given_up = epoch.partition.begin_drain().len();
        epoch.wait_until_idle();
        let refused = task.join().unwrap();
        match refused {
            None => NEVER.take(),
            Some(true) => REFUSED.take(),
            Some(false) => DRAINED.take(),
        }
        assert_eq!(given_up + usize::from(refused == Some(true)), 1);
        assert_eq!(epoch.partition.take_ready(), None);
        assert_eq!(epoch.partition.close().to_commit, Some(1));
    });
}
