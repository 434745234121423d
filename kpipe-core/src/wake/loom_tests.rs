use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

use super::{Reasons, Signal};
use crate::loom_support::{Branch, explore, raised, take_either, wait};

/// R15, an arrival against an intake that looks and finds nothing: it never sleeps through it.
#[test]
fn loom_wake_r15_an_arrival_against_the_look_before_the_wait() {
    static AT_ONCE: Branch = Branch::new("raised before the look");
    static WAITED: Branch = Branch::new("raised after it");
    explore(&[&AT_ONCE, &WAITED], || {
        let signal = Arc::new(Signal::default());
        let client = {
            let signal = signal.clone();
            thread::spawn(move || signal.raise(Reasons::ARRIVAL))
        };
        let first = raised(&signal);
        let nothing_yet = first == Reasons::default();
        take_either(nothing_yet, &WAITED, &AT_ONCE);
        assert_eq!(if nothing_yet { wait(&signal) } else { first }, Reasons::ARRIVAL);
        client.join().unwrap();
        assert_eq!(raised(&signal), Reasons::default(), "taken once");
    });
}

/// R15, two reasons from two threads: both arrive, in one take or in two.
#[test]
fn loom_wake_r15_two_reasons_from_two_threads() {
    static TOGETHER: Branch = Branch::new("taken together");
    static APART: Branch = Branch::new("taken apart");
    explore(&[&TOGETHER, &APART], || {
        let signal = Arc::new(Signal::default());
        let raisers = [Reasons::ROOM, Reasons::STOP].map(|reason| {
            let signal = signal.clone();
            thread::spawn(move || signal.raise(reason))
        });
        let (mut room, mut stop, mut takes) = (false, false, 0);
        while !(room && stop) {
            let reasons = wait(&signal);
            room |= reasons.contains(Reasons::ROOM);
            stop |= reasons.contains(Reasons::STOP);
            takes += 1;
        }
        take_either(takes == 1, &TOGETHER, &APART);
        for raiser in raisers {
            raiser.join().unwrap();
        }
    });
}

/// R15, a wait that was given up (its time was over) leaves a waker behind: the next wait is woken
/// all the same.
#[test]
fn loom_wake_r15_a_wait_after_one_that_was_given_up() {
    static BETWEEN: Branch = Branch::new("raised between the waits");
    static AFTER: Branch = Branch::new("raised after the second one began");
    explore(&[&BETWEEN, &AFTER], || {
        let signal = Arc::new(Signal::default());
        let given_up = raised(&signal);
        assert_eq!(given_up, Reasons::default());
        let raiser = {
            let signal = signal.clone();
            thread::spawn(move || signal.raise(Reasons::ROOM))
        };
        let mut looks = 0;
        let reasons = loom::future::block_on(std::future::poll_fn(|cx| {
            looks += 1;
            signal.poll_take(cx)
        }));
        take_either(looks == 1, &BETWEEN, &AFTER);
        assert_eq!(reasons, Reasons::ROOM);
        raiser.join().unwrap();
    });
}

/// R3, what a thread wrote before it raised is whole for whoever takes the reason.
#[test]
fn loom_wake_r3_what_was_written_before_a_reason_is_seen_with_it() {
    static WAITED: Branch = Branch::new("had to wait");
    explore(&[&WAITED], || {
        let shared = Arc::new((Signal::default(), AtomicUsize::new(0)));
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || {
                // Relaxed: the signal alone must order it before the reader's look.
                shared.1.store(7, Relaxed);
                shared.0.raise(Reasons::ARRIVAL);
            })
        };
        let (signal, written) = &*shared;
        if raised(signal) == Reasons::default() {
            WAITED.take();
            wait(signal);
        }
        assert_eq!(written.load(Relaxed), 7);
        writer.join().unwrap();
    });
}
