//! What is committed against what finishes meanwhile.

use loom::thread;

use super::*;
use crate::loom_support::{Branch, explore, take_either};

/// R7, two threads finish records behind a pending one: nothing is to be committed until that one
/// is done, then all of it.
#[test]
fn loom_partition_r7_a_pending_record_pins_the_offset_to_commit() {
    static OVERTAKEN: Branch = Branch::new("the last one finished first");
    explore(&[&OVERTAKEN], || {
        let (epoch, runnable) = Epoch::running(4);
        let head = &runnable[0];
        let tasks = [1, 3].map(|at| {
            let (epoch, seq) = (epoch.clone(), head.seq.plus(at));
            thread::spawn(move || {
                let first = epoch.partition.view().finished_beyond == 0;
                match at {
                    // Records 1 and 2.
                    1 => epoch.partition.finish_run(seq, 2),
                    _ => drop(epoch.partition.finish(seq, NO_LANE, End::Passed)),
                }
                first && at == 3
            })
        });
        assert_eq!(epoch.partition.to_commit(), None);
        let [_, overtaken] = tasks.map(|task| task.join().unwrap());
        if overtaken {
            OVERTAKEN.take();
        }
        let view = epoch.partition.view();
        assert_eq!((view.frontier, view.finished_beyond), (0, 3));
        assert_eq!(epoch.partition.to_commit(), None);
        epoch.pass(head);
        assert_eq!(epoch.partition.to_commit(), Some(4));
    });
}

/// R14, what is seen of a partition is from one instant: offset, records finished beyond it and
/// counts agree while records finish.
#[test]
fn loom_partition_r14_a_view_against_completions() {
    static BEYOND: Branch = Branch::new("one finished beyond the offset");
    static ALL: Branch = Branch::new("both finished");
    explore(&[&BEYOND, &ALL], || {
        let (epoch, runnable) = Epoch::running(3);
        let tasks = [0, 1].map(|at: usize| {
            let (epoch, seq) = (epoch.clone(), runnable[at].seq);
            thread::spawn(move || epoch.partition.finish(seq, NO_LANE, End::Passed).stays)
        });
        let view = epoch.partition.view();
        match (view.frontier, view.finished_beyond) {
            (0, 1) => BEYOND.take(),
            (2, 0) => ALL.take(),
            (0 | 1, 0) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(view.counts.passed, view.frontier as u64 + view.finished_beyond);
        assert_eq!(view.active, 3 - view.counts.passed);
        for task in tasks {
            task.join().unwrap();
        }
        assert_eq!(epoch.partition.to_commit(), Some(2));
    });
}

/// R16, a commit is acknowledged while more finishes: the partition is dirty again, with what the
/// commit did not cover.
#[test]
fn loom_partition_r16_an_acknowledgement_against_a_completion() {
    static BEFORE: Branch = Branch::new("finished before the snapshot");
    static MEANWHILE: Branch = Branch::new("finished while the commit was on its way");
    static AFTER: Branch = Branch::new("finished after the acknowledgement");
    explore(&[&BEFORE, &MEANWHILE, &AFTER], || {
        let (epoch, runnable) = Epoch::running(2);
        epoch.pass(&runnable[0]);
        let task = {
            let epoch = epoch.clone();
            thread::spawn(move || epoch.pass(&runnable[1]))
        };
        let sent = epoch.partition.to_commit().expect("one record is finished");
        let finished = epoch.counts().passed;
        epoch.partition.acknowledged(sent);
        let due = epoch.partition.to_commit();
        match (sent, finished) {
            (2, 2) => BEFORE.take(),
            (1, 2) => MEANWHILE.take(),
            (1, 1) if due.is_none() => AFTER.take(),
            (1, 1) => {}
            other => panic!("{other:?}"),
        }
        task.join().unwrap();
        assert_eq!(epoch.partition.to_commit(), (sent < 2).then_some(2));
        epoch.partition.acknowledged(2);
        assert_eq!(epoch.partition.to_commit(), None);
    });
}

/// R16, two acknowledgements that come in either order: the later commit is the one that counts.
#[test]
fn loom_partition_r16_acknowledgements_out_of_order() {
    static SWAPPED: Branch = Branch::new("the later one was answered first");
    explore(&[&SWAPPED], || {
        let (epoch, runnable) = Epoch::running(2);
        epoch.partition.finish_run(runnable[0].seq, 2);
        let earlier = {
            let epoch = epoch.clone();
            thread::spawn(move || {
                if epoch.partition.to_commit().is_none() {
                    SWAPPED.take();
                }
                epoch.partition.acknowledged(1);
            })
        };
        epoch.partition.acknowledged(2);
        earlier.join().unwrap();
        assert_eq!(epoch.partition.view().committed, Some(2));
        assert_eq!(epoch.partition.to_commit(), None);
    });
}

/// R16 and R8, the last commit of an epoch against the answer to the one before and a completion: it
/// is exactly what counts as passed, unless the broker has it already.
#[test]
fn loom_partition_r16_the_last_commit_against_an_acknowledgement_and_a_completion() {
    static CLEAN: Branch = Branch::new("nothing left to commit");
    static DIRTY: Branch = Branch::new("something left to commit");
    explore(&[&CLEAN, &DIRTY], || {
        let (epoch, runnable) = Epoch::running(2);
        epoch.pass(&runnable[0]);
        let sent = epoch.partition.to_commit().unwrap();
        let answer = {
            let epoch = epoch.clone();
            thread::spawn(move || epoch.partition.acknowledged(sent))
        };
        let task = {
            let epoch = epoch.clone();
            thread::spawn(move || epoch.pass(&runnable[1]))
        };
        let last = epoch.partition.close().to_commit;
        take_either(last.is_none(), &CLEAN, &DIRTY);
        answer.join().unwrap();
        task.join().unwrap();
        let counts = epoch.counts();
        match last {
            None => assert_eq!(counts.passed, 1),
            Some(next) => assert_eq!(counts.passed, next as u64),
        }
        assert_accounted(counts);
        assert_eq!(epoch.partition.to_commit(), None, "a closed epoch commits nothing");
    });
}
