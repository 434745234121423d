use super::*;

#[test]
fn nothing_is_due_until_something_finishes() {
    let found = Epoch::new(7, Some(7), 10);
    assert_eq!(found.partition.to_commit(), None);
    // Where the policy chose the start, the group has nothing on record: it is due at once.
    let chosen = Epoch::new(7, None, 10);
    assert_eq!(chosen.partition.to_commit(), Some(7));
}

#[test]
fn duplicates_are_given_back_and_counted_and_take_no_place() {
    let epoch = Epoch::new(5, Some(5), 10);
    let (admitted, runnable) = epoch.admit_at(0, &[(4, None), (5, None), (5, None), (7, None)]);
    assert_eq!((admitted.duplicates, admitted.parked, admitted.stopped), (vec![4, 5], 0, false));
    assert_eq!(runnable.iter().map(|record| record.item).collect::<Vec<_>>(), [5, 7]);
    let view = epoch.partition.view();
    assert_eq!((view.counts.received, view.counts.duplicates, view.active), (4, 2, 2));
}

/// Two of a key may both be runnable; the later one is claimed before it runs.
#[test]
fn the_second_of_a_key_in_a_batch_parks_behind_the_first_if_that_one_stays() {
    let epoch = Epoch::new(0, Some(0), 10);
    let (_, mut runnable) = epoch.admit_at(0, &[(0, Some(lane(1))), (1, Some(lane(1)))]);
    assert_eq!(runnable.len(), 2);
    let first = runnable.pop_front().unwrap();
    epoch.partition.hold(lane(1));
    assert_eq!(epoch.partition.claim(runnable.pop_front().unwrap(), true), Claim::Parked);
    assert_eq!((epoch.partition.view().active, epoch.partition.view().waiting), (1, 1));
    let next = epoch.finish(&first, End::Passed).next.expect("the successor");
    assert_eq!(next.item, 1);
    assert_eq!((epoch.partition.view().active, epoch.partition.view().waiting), (1, 0));
    assert_eq!(epoch.finish(&next, End::Dropped).next, None);
    assert_eq!(epoch.partition.to_commit(), Some(2));
}

#[test]
fn a_claim_without_a_hold_leaves_the_lane_idle() {
    let epoch = Epoch::new(0, Some(0), 10);
    let (_, mut runnable) = epoch.admit_at(0, &[(0, Some(lane(1))), (1, Some(lane(1)))]);
    for record in runnable.drain(..) {
        let Claim::Run(record) = epoch.partition.claim(record, false) else { panic!("idle") };
        epoch.partition.finish_run(record.seq, 1);
    }
    assert_eq!(epoch.partition.to_commit(), Some(2));
}

/// A failed record that stays holds its lane and the frontier, not the other keys.
#[test]
fn a_record_that_stays_holds_its_lane_and_the_frontier() {
    let epoch = Epoch::new(0, Some(0), 10);
    let (_, mut runnable) = epoch.admit_at(0, &[(0, Some(lane(1))), (1, Some(lane(2)))]);
    for expected in [0, 1] {
        let Claim::Run(record) = epoch.partition.claim(runnable.pop_front().unwrap(), true) else {
            panic!("{expected} may run")
        };
        runnable.push_back(record);
    }
    assert_eq!(epoch.admit_at(0, &[(2, Some(lane(1)))]).0.parked, 1);
    let finished = epoch.finish(&runnable[0], End::Held("refused".into()));
    assert_eq!(finished, Finished { next: None, stays: true });
    epoch.finish(&runnable[1], End::Passed);
    let view = epoch.partition.view();
    assert_eq!((view.frontier, view.finished_beyond, view.waiting, view.held), (0, 1, 1, 1));
    assert_eq!(view.first_held, Some(HeldRecord { offset: 0, failed: "refused".into() }));
    assert!(epoch.partition.is_idle(), "what stays does not run");
    assert_eq!(epoch.partition.to_commit(), None);
}

#[test]
fn of_those_that_stay_the_lowest_is_named() {
    let epoch = Epoch::new(0, Some(0), 10);
    let runnable = epoch.admit([3, 10, 11]);
    epoch.finish(&runnable[1], End::Held("one".into()));
    epoch.finish(&runnable[0], End::Held("two".into()));
    epoch.finish(&runnable[2], End::Held("three".into()));
    let first = epoch.partition.view().first_held.unwrap();
    assert_eq!((first.offset, first.failed.error.as_str()), (3, "two"), "the frontier is at 3");
}

/// G7: nothing counts and nothing moves after the close.
#[test]
fn g7_what_ends_after_the_close_moves_nothing() {
    let epoch = Epoch::new(0, Some(0), 10);
    let runnable = epoch.admit(0..5);
    epoch.finish(&runnable[0], End::Passed);
    assert_eq!(epoch.partition.close(), Closing { to_commit: Some(1), held: 0 });
    let at_close = epoch.counts();
    assert_eq!((at_close.passed, at_close.abandoned), (1, 4));
    epoch.partition.finish_run(runnable[1].seq, 1);
    assert_eq!(epoch.finish(&runnable[2], End::Passed), Finished { next: None, stays: false });
    let failed = epoch.finish(&runnable[3], End::Held("too late".into()));
    assert_eq!(failed, Finished { next: None, stays: false });
    assert!(!raised(&epoch.control).contains(Reasons::DRAINED), "one still runs");
    epoch.finish(&runnable[4], End::Dropped);
    assert_eq!(raised(&epoch.control), Reasons::DRAINED);
    assert_eq!(epoch.counts(), at_close);
    assert_eq!((epoch.partition.view().held, epoch.partition.to_commit()), (0, None));
    assert_eq!(epoch.partition.close(), Closing { to_commit: None, held: 0 });
    assert_eq!(epoch.counts(), at_close, "closed twice, abandoned once");
}

/// G7: a lane's successor does not start in an epoch that is over.
#[test]
fn g7_no_successor_after_the_close() {
    let epoch = Epoch::new(0, Some(0), 10);
    let (_, mut runnable) = epoch.admit_at(0, &[(0, Some(lane(1)))]);
    let Claim::Run(first) = epoch.partition.claim(runnable.pop_front().unwrap(), true) else {
        panic!("idle")
    };
    epoch.admit_at(0, &[(1, Some(lane(1)))]);
    epoch.partition.close();
    assert_eq!(epoch.finish(&first, End::Passed).next, None);
}

#[test]
fn a_drain_gives_up_what_waits_and_lets_what_runs_count() {
    let epoch = Epoch::new(0, Some(0), 10);
    let (_, mut runnable) = epoch.admit_at(0, &[(0, Some(lane(1))), (1, None)]);
    let Claim::Run(first) = epoch.partition.claim(runnable.pop_front().unwrap(), true) else {
        panic!("idle")
    };
    assert_eq!(epoch.admit_at(0, &[(2, Some(lane(1)))]).0.parked, 1);
    let waiting = epoch.partition.begin_drain();
    assert_eq!(waiting.iter().map(|record| record.item).collect::<Vec<_>>(), [2]);
    assert_eq!(raised(&epoch.intake), Reasons::STOP);
    assert_eq!(epoch.partition.draw(), Draw::Stopped);
    let (admitted, none) = epoch.admit_at(0, &[(3, None)]);
    assert!(admitted.stopped && none.is_empty());
    assert_eq!(epoch.counts().received, 3, "what was not registered was not received");
    let unlaned = runnable.pop_front().unwrap();
    assert_eq!(epoch.partition.claim(unlaned, false), Claim::Stopped(1));
    assert_eq!(raised(&epoch.control), Reasons::default(), "record 0 runs");
    assert_eq!(epoch.finish(&first, End::Passed).next, None);
    assert_eq!(raised(&epoch.control), Reasons::DRAINED);
    assert_eq!(epoch.partition.close().to_commit, Some(1));
    assert_eq!((epoch.counts().passed, epoch.counts().abandoned), (1, 2));
    assert_accounted(epoch.counts());
}

#[test]
fn an_intake_that_ends_gives_up_what_it_never_began() {
    let epoch = Epoch::new(0, Some(0), 10);
    epoch.admit(0..3);
    epoch.partition.begin_drain();
    epoch.partition.abandon(2);
    assert!(!epoch.partition.is_idle());
    epoch.partition.abandon(1);
    assert!(epoch.partition.is_idle());
    assert_eq!(raised(&epoch.control), Reasons::DRAINED);
    epoch.partition.close();
    assert_eq!(epoch.counts().abandoned, 3);
}

#[test]
fn nobody_is_told_of_a_lull_while_the_partition_runs() {
    let epoch = Epoch::new(0, Some(0), 10);
    let runnable = epoch.admit(0..2);
    epoch.partition.finish_run(runnable[0].seq, 2);
    epoch.partition.abandon(0);
    assert_eq!(raised(&epoch.control), Reasons::default());
    assert_eq!(raised(&epoch.intake), Reasons::default());
}

#[test]
fn a_full_window_stops_drawing_until_the_frontier_moves() {
    let epoch = Epoch::new(0, Some(0), 2);
    let runnable = epoch.admit(0..4);
    epoch.finish(&runnable[1], End::Passed);
    assert_eq!(epoch.partition.draw(), Draw::Yes);
    epoch.finish(&runnable[2], End::Passed);
    assert_eq!(epoch.partition.draw(), Draw::WindowFull);
    epoch.finish(&runnable[3], End::Passed);
    assert_eq!(raised(&epoch.intake), Reasons::default(), "it is fuller");
    epoch.finish(&runnable[0], End::Passed);
    assert_eq!(raised(&epoch.intake), Reasons::ROOM);
    assert_eq!(epoch.partition.draw(), Draw::Yes);
    let runnable = epoch.admit([4]);
    epoch.finish(&runnable[0], End::Passed);
    assert_eq!(raised(&epoch.intake), Reasons::default(), "nobody waits");
}

#[test]
fn a_frontier_that_moves_behind_a_window_that_stays_full_wakes_nobody() {
    let epoch = Epoch::new(0, Some(0), 2);
    let runnable = epoch.admit(0..4);
    epoch.partition.finish_run(runnable[2].seq, 2);
    assert_eq!(epoch.partition.draw(), Draw::WindowFull);
    epoch.finish(&runnable[0], End::Passed);
    assert_eq!(raised(&epoch.intake), Reasons::default());
    epoch.finish(&runnable[1], End::Passed);
    assert_eq!(raised(&epoch.intake), Reasons::ROOM);
}

/// C7 and C9: clean is what the broker acknowledged, and an older answer changes nothing.
#[test]
fn c7_a_partition_is_clean_when_its_newest_offset_is_acknowledged() {
    let epoch = Epoch::new(0, None, 10);
    let runnable = epoch.admit(0..3);
    epoch.finish(&runnable[0], End::Passed);
    assert_eq!(epoch.partition.to_commit(), Some(1));
    assert_eq!(epoch.partition.to_commit(), Some(1), "until it is acknowledged");
    epoch.finish(&runnable[1], End::Passed);
    epoch.partition.acknowledged(1);
    assert_eq!(epoch.partition.to_commit(), Some(2), "dirty again");
    epoch.partition.acknowledged(2);
    epoch.partition.acknowledged(1);
    assert_eq!((epoch.partition.to_commit(), epoch.partition.view().committed), (None, Some(2)));
}

/// G3: the age of the oldest record in hand.
#[test]
fn the_oldest_unfinished_record_has_the_age_of_its_batch() {
    let epoch = Epoch::new(0, Some(0), 10);
    let oldest = |epoch: &Epoch| epoch.partition.view().oldest.map(|at| at.as_millis());
    assert_eq!(oldest(&epoch), None);
    let (_, first) = epoch.admit_at(100, &[(0, None), (1, None)]);
    let (_, second) = epoch.admit_at(2_000, &[(5, None)]);
    assert_eq!(oldest(&epoch), Some(100));
    epoch.finish(&first[1], End::Passed);
    assert_eq!(oldest(&epoch), Some(100));
    epoch.finish(&first[0], End::Passed);
    assert_eq!(oldest(&epoch), Some(2_000));
    epoch.finish(&second[0], End::Passed);
    assert_eq!(oldest(&epoch), None);
}

/// G8 over several epochs: each count goes to its own.
#[test]
fn the_counts_of_epochs_add_up() {
    let one = Counts { received: 31, passed: 1, dropped: 2, abandoned: 4, duplicates: 24 };
    let mut sum = one;
    sum += one;
    sum += Counts { duplicates: 1, received: 1, ..Counts::default() };
    let Counts { received, passed, dropped, abandoned, duplicates } = sum;
    assert_eq!([received, passed, dropped, abandoned, duplicates], [63, 2, 4, 8, 49]);
    assert_accounted(sum);
}
