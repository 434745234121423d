//! The end of an epoch against what still runs in it (G7).

use loom::thread;

use super::*;
use crate::loom_support::{Branch, OneAtATime, explore, raised, take_either};
use crate::wake::Reasons;

/// R8, two completions, one of them of a run, against the close of the epoch: each record counts
/// once, as passed and covered by the last commit or as abandoned, and then nothing moves.
#[test]
fn loom_partition_r8_completions_against_the_close() {
    static COUNTED: Branch = Branch::new("all counted");
    static FENCED: Branch = Branch::new("none counted");
    static ONE: Branch = Branch::new("one of them counted");
    explore(&[&COUNTED, &FENCED, &ONE], || {
        let (epoch, runnable) = Epoch::running(3);
        let run = {
            let (epoch, first) = (epoch.clone(), runnable[0].seq);
            thread::spawn(move || epoch.partition.finish_run(first, 2))
        };
        let last = {
            let (epoch, seq) = (epoch.clone(), runnable[2].seq);
            thread::spawn(move || epoch.partition.finish(seq, NO_LANE, End::Passed).stays)
        };
        epoch.partition.begin_drain();
        let closing = epoch.partition.close();
        let at_close = epoch.partition.view();
        run.join().unwrap();
        last.join().unwrap();
        let after = epoch.partition.view();
        assert_eq!((after.counts, after.frontier), (at_close.counts, at_close.frontier));
        assert_eq!(after.active, 0);
        assert_accounted(after.counts);
        let (to_commit, branch) = match after.counts.passed {
            0 => (None, &FENCED),
            1 => (None, &ONE),
            2 => (Some(2), &ONE),
            _ => (Some(3), &COUNTED),
        };
        branch.take();
        assert_eq!(closing.to_commit, to_commit);
        assert_eq!(epoch.partition.to_commit(), None);
    });
}

/// R8 and G2, the end of a straggler against the close and the wait for it: the next epoch of the
/// partition begins only after it, and is always told.
#[test]
fn loom_partition_r8_a_straggler_against_the_next_epoch() {
    static STRAGGLED: Branch = Branch::new("waited for the straggler");
    static IN_TIME: Branch = Branch::new("it had ended");
    explore(&[&STRAGGLED, &IN_TIME], || {
        let (epoch, runnable) = Epoch::running(1);
        let handlers = Arc::new(OneAtATime::default());
        let task = {
            let (epoch, handlers) = (epoch.clone(), handlers.clone());
            thread::spawn(move || {
                handlers.run(0);
                epoch.pass(&runnable[0]);
            })
        };
        epoch.partition.begin_drain();
        epoch.partition.close();
        take_either(epoch.wait_until_idle(), &STRAGGLED, &IN_TIME);
        // The same record, redelivered to the next epoch.
        handlers.run(0);
        assert_eq!(handlers.ran().len(), 2);
        task.join().unwrap();
    });
}

/// R11, two threads close an epoch: one of them gets what is to be committed and what is to be given
/// back, and what is unfinished is abandoned once.
#[test]
fn loom_partition_r11_two_closers_have_one_winner() {
    static OTHER: Branch = Branch::new("the other one won");
    static MINE: Branch = Branch::new("this one won");
    explore(&[&OTHER, &MINE], || {
        let (epoch, runnable) = Epoch::running(3);
        epoch.pass(&runnable[0]);
        assert!(epoch.finish(&runnable[1], End::Held("refused".into())).stays);
        let other = {
            let epoch = epoch.clone();
            thread::spawn(move || epoch.partition.close())
        };
        let mine = epoch.partition.close();
        let other = other.join().unwrap();
        take_either(mine.to_commit.is_some(), &MINE, &OTHER);
        let (winner, loser) = if mine.to_commit.is_some() { (mine, other) } else { (other, mine) };
        let view = epoch.partition.view();
        assert_eq!(view.first_held.map(|record| record.offset), Some(1));
        assert_eq!((view.held, view.waiting), (0, 0), "given back");
        assert_eq!((winner.to_commit, winner.held), (Some(1), 1));
        assert_eq!((loser.to_commit, loser.held), (None, 0));
        assert_eq!((view.counts.passed, view.counts.abandoned), (1, 2));
        assert_accounted(view.counts);
    });
}

/// R16, a shutdown against the completions of what runs: it waits for all of them, is told of the
/// last one, and commits them.
#[test]
fn loom_partition_r16_a_shutdown_against_the_last_completions() {
    static WAITED: Branch = Branch::new("waited");
    static IDLE: Branch = Branch::new("found it idle");
    explore(&[&WAITED, &IDLE], || {
        let (epoch, runnable) = Epoch::running(2);
        let tasks = runnable.into_iter().map(|record| {
            let epoch = epoch.clone();
            thread::spawn(move || match record.item {
                0 => epoch.partition.finish_run(record.seq, 1),
                _ => drop(epoch.finish(&record, End::Dropped)),
            })
        });
        let tasks: Vec<_> = tasks.collect();
        epoch.partition.begin_drain();
        take_either(epoch.wait_until_idle(), &WAITED, &IDLE);
        let closing = epoch.partition.close();
        assert_eq!(closing.to_commit, Some(2));
        let counts = epoch.counts();
        assert_eq!((counts.passed, counts.dropped, counts.abandoned), (1, 1, 0));
        for task in tasks {
            task.join().unwrap();
        }
    });
}

/// R16 and G9, an attempt whose task is dropped (its runtime ends) against the drain that waits for
/// it and the close: never an acknowledgement, and the drain is told.
#[test]
fn loom_partition_r16_a_dropped_attempt_against_a_drain() {
    static WAITED: Branch = Branch::new("waited");
    static IDLE: Branch = Branch::new("found it idle");
    explore(&[&WAITED, &IDLE], || {
        let (epoch, mut runnable) = Epoch::running(2);
        let finishes = {
            let (epoch, record) = (epoch.clone(), runnable.pop().unwrap());
            thread::spawn(move || epoch.pass(&record))
        };
        let dropped = {
            let (epoch, record) = (epoch.clone(), runnable.pop().unwrap());
            thread::spawn(move || epoch.finish(&record, End::Abandoned).next)
        };
        epoch.partition.begin_drain();
        take_either(epoch.wait_until_idle(), &WAITED, &IDLE);
        assert_eq!(epoch.partition.close().to_commit, None, "record 0 was not acknowledged");
        let counts = epoch.counts();
        assert_eq!((counts.passed, counts.abandoned), (1, 1));
        for task in [finishes, dropped] {
            assert_eq!(task.join().unwrap(), None);
        }
    });
}

/// R16, an intake that ends with records it never began against the drain that waits for them.
#[test]
fn loom_partition_r16_a_drain_against_an_intake_that_gives_up() {
    static WAITED: Branch = Branch::new("waited");
    static IDLE: Branch = Branch::new("found it idle");
    explore(&[&WAITED, &IDLE], || {
        let (epoch, runnable) = Epoch::running(2);
        let intake = {
            let epoch = epoch.clone();
            thread::spawn(move || {
                while !wait(&epoch.intake).contains(Reasons::STOP) {}
                epoch.partition.abandon(runnable.len() as u64);
            })
        };
        epoch.partition.begin_drain();
        take_either(epoch.wait_until_idle(), &WAITED, &IDLE);
        epoch.partition.close();
        intake.join().unwrap();
        assert_eq!(epoch.counts().abandoned, 2);
    });
}

/// R10, what is seen of a partition while it drains, closes and completes: no view is torn.
#[test]
fn loom_partition_r10_views_against_a_drain() {
    static RUNNING: Branch = Branch::new("seen with records in hand");
    static CLOSED: Branch = Branch::new("seen closed");
    explore(&[&RUNNING, &CLOSED], || {
        let (epoch, runnable) = Epoch::running(1);
        let (admitted, more) = epoch.admit(&[(5, NO_LANE)]);
        assert!(!admitted.stopped && more.len() == 1);
        let task = {
            let epoch = epoch.clone();
            thread::spawn(move || epoch.pass(&runnable[0]))
        };
        let control = {
            let epoch = epoch.clone();
            thread::spawn(move || {
                epoch.partition.begin_drain();
                epoch.partition.close()
            })
        };
        let view = epoch.partition.view();
        let finished = view.counts.passed;
        assert_eq!(view.frontier, if finished == 0 { 0 } else { 5 });
        assert!(view.oldest.is_some(), "offset 5 is in hand throughout");
        match view.counts.abandoned {
            0 => RUNNING.take(),
            abandoned => {
                CLOSED.take();
                assert_eq!(abandoned + finished, 2);
            }
        }
        task.join().unwrap();
        control.join().unwrap();
        assert_accounted(epoch.counts());
        epoch.partition.abandon(1);
        assert_eq!(raised(&epoch.control), Reasons::DRAINED);
    });
}
