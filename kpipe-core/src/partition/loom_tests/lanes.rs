//! The lanes as the partition uses them: admission, claim and hand-over (R6, G2).

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;
use crate::loom_support::{Branch, OneAtATime, explore, take_either};
use crate::partition::Claim;

/// A record that has the lane, then its successors, as a record task runs them.
fn run(epoch: &Epoch, handlers: &OneAtATime, record: Runnable<u64>) {
    let mut next = Some(record);
    while let Some(record) = next {
        handlers.run(record.item);
        next = epoch.pass(&record);
    }
}

/// An epoch in which record 0 has the lane.
fn busy_with_0() -> (Arc<Epoch>, Runnable<u64>) {
    let epoch = Epoch::new(WIDE);
    let (_, mut runnable) = epoch.admit(&[(0, LANE)]);
    match epoch.partition.claim(runnable.pop_front().unwrap(), true) {
        Claim::Run(record) => (epoch, record),
        other => panic!("{other:?}"),
    }
}

/// R6, the task of a lane that goes against records that arrive for it, one by one: each runs once,
/// in order, and never two at a time.
#[test]
fn loom_partition_r6_hand_over_and_removal_against_arrivals() {
    static ADMITTED_BUSY: Branch = Branch::new("parked at the admission");
    static IDLE: Branch = Branch::new("found the lane idle");
    explore(&[&ADMITTED_BUSY, &IDLE], || {
        let (epoch, first) = busy_with_0();
        let handlers = Arc::new(OneAtATime::default());
        let task = {
            let (epoch, handlers) = (epoch.clone(), handlers.clone());
            thread::spawn(move || run(&epoch, &handlers, first))
        };
        for offset in 1..3 {
            let (admitted, runnable) = epoch.admit(&[(offset, LANE)]);
            take_either(admitted.parked == 1, &ADMITTED_BUSY, &IDLE);
            for record in runnable {
                match epoch.partition.claim(record, true) {
                    Claim::Run(record) => run(&epoch, &handlers, record),
                    other => panic!("only this thread makes lanes: {other:?}"),
                }
            }
        }
        task.join().unwrap();
        assert_eq!(handlers.ran(), [0, 1, 2]);
        assert!(epoch.partition.is_idle());
        assert_eq!(epoch.partition.to_commit(), Some(3));
    });
}

/// R6, a record that pends at its first poll takes the lane and becomes a task, whose end meets the
/// next record of the key on its way through the same batch.
#[test]
fn loom_partition_r6_a_first_poll_that_pends_against_the_next_of_its_key() {
    static PARKED: Branch = Branch::new("parked behind the task");
    static IDLE: Branch = Branch::new("the task had ended");
    explore(&[&PARKED, &IDLE], || {
        let epoch = Epoch::new(WIDE);
        let handlers = Arc::new(OneAtATime::default());
        let lane = LaneKey::of(b"key");
        let (_, mut runnable) = epoch.admit(&[(0, Some(lane)), (1, Some(lane))]);
        let first = runnable.pop_front().unwrap();
        epoch.partition.hold(lane);
        let task = {
            let (epoch, handlers) = (epoch.clone(), handlers.clone());
            thread::spawn(move || run(&epoch, &handlers, first))
        };
        match epoch.partition.claim(runnable.pop_front().unwrap(), false) {
            Claim::Parked => PARKED.take(),
            Claim::Run(second) => {
                IDLE.take();
                // Ready at its first poll: it needs no lane.
                handlers.run(1);
                epoch.partition.finish_run(second.seq, 1);
            }
            Claim::Stopped(_) => panic!("nobody stops"),
        }
        task.join().unwrap();
        assert_eq!(handlers.ran(), [0, 1]);
        assert!(epoch.partition.is_idle());
        assert_eq!(epoch.partition.to_commit(), Some(2));
    });
}

/// R6, two records of an idle key that are claimed at once: one takes the lane, the other waits
/// behind it or comes after it.
#[test]
fn loom_partition_r6_two_claims_for_one_key() {
    static PARKED: Branch = Branch::new("one waited for the other");
    static BOTH_RAN: Branch = Branch::new("one came after the other had gone");
    explore(&[&PARKED, &BOTH_RAN], || {
        let epoch = Epoch::new(WIDE);
        let handlers = Arc::new(OneAtATime::default());
        // A key that the user's function made of the record.
        let lane = Some(LaneKey::of_value(&7));
        let (_, runnable) = epoch.admit(&[(0, lane), (1, lane)]);
        assert_eq!(runnable.len(), 2, "the lane is idle");
        let claims = runnable.into_iter().map(|record| {
            let (epoch, handlers) = (epoch.clone(), handlers.clone());
            thread::spawn(move || match epoch.partition.claim(record, true) {
                Claim::Run(record) => {
                    run(&epoch, &handlers, record);
                    false
                }
                Claim::Parked => true,
                Claim::Stopped(_) => panic!("nobody stops"),
            })
        });
        // Both are on their way before the first is waited for.
        let claims: Vec<_> = claims.collect();
        let parked = claims.into_iter().map(|claim| claim.join().unwrap());
        let parked = parked.filter(|parked| *parked).count();
        take_either(parked == 1, &PARKED, &BOTH_RAN);
        assert!(parked < 2);
        assert_eq!(handlers.ran().len(), 2);
        assert!(epoch.partition.is_idle());
        assert_eq!(epoch.partition.to_commit(), Some(2));
    });
}

/// R6, hand-over against the revoke that gives up what waits: the successor runs or is given up,
/// and is waited for if it runs.
#[test]
fn loom_partition_r6_hand_over_against_a_drain() {
    static HANDED_OVER: Branch = Branch::new("handed over");
    static GIVEN_UP: Branch = Branch::new("given up");
    explore(&[&HANDED_OVER, &GIVEN_UP], || {
        let (epoch, first) = busy_with_0();
        let handlers = Arc::new(OneAtATime::default());
        assert_eq!(epoch.admit(&[(1, LANE)]).0.parked, 1);
        let task = {
            let (epoch, handlers) = (epoch.clone(), handlers.clone());
            thread::spawn(move || run(&epoch, &handlers, first))
        };
        let given_up = epoch.partition.begin_drain();
        epoch.wait_until_idle();
        let ran = handlers.ran();
        let closing = epoch.partition.close();
        task.join().unwrap();
        assert_eq!(handlers.ran(), ran, "nothing ran after the partition was idle");
        take_either(given_up.is_empty(), &HANDED_OVER, &GIVEN_UP);
        assert_eq!(ran.len() + given_up.len(), 2);
        assert_eq!(closing.to_commit, Some(ran.len() as i64));
        assert_accounted(epoch.counts());
    });
}

/// R3, a record that waits is whole for the thread that its predecessor's task runs on.
#[test]
fn loom_partition_r3_a_successor_is_whole() {
    static HANDED_OVER: Branch = Branch::new("handed over");
    explore(&[&HANDED_OVER], || {
        let (intake, control) = Default::default();
        // Loom reports a read of the cell that the write does not come before.
        let partition: Partition<UnsafeCell<u64>> = Partition::new(0, None, WIDE, intake, control);
        let partition = Arc::new(partition);
        let admit = |partition: &Partition<UnsafeCell<u64>>, offset: i64| {
            let mut runnable = VecDeque::new();
            let item = UnsafeCell::new(0);
            item.with_mut(|_| ());
            partition.admit([(offset, LANE, item)], Duration::ZERO, &mut runnable);
            runnable.pop_front()
        };
        let first = admit(&partition, 0).unwrap();
        let Claim::Run(first) = partition.claim(first, true) else { panic!("idle") };
        let task = {
            let partition = partition.clone();
            thread::spawn(move || {
                let next = partition.finish(first.seq, first.lane, End::Passed).next;
                if let Some(next) = &next {
                    HANDED_OVER.take();
                    next.item.with(|_| ());
                }
                next.is_some()
            })
        };
        let own = admit(&partition, 1);
        assert_ne!(own.is_some(), task.join().unwrap(), "one of them has it");
    });
}
