use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

use super::Reclaim;
use crate::loom_support::{Branch, explore, take_either, wait};
use crate::wake::{Reasons, Signal};

struct Thing(Arc<AtomicUsize>);

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// R15, things given against the wait for them: none is left lying, and the end is not slept through.
#[test]
fn loom_reclaim_r15_things_given_against_the_wait_and_the_end() {
    static KEPT: Branch = Branch::new("there was room");
    static HERE: Branch = Branch::new("dropped where it was");
    explore(&[&KEPT, &HERE], || {
        let dropped = Arc::new(AtomicUsize::new(0));
        let reclaim = Arc::new(Reclaim::new(1));
        let worker = {
            let reclaim = reclaim.clone();
            thread::spawn(move || reclaim.work())
        };
        for given in 1..=2 {
            let before = dropped.load(Relaxed);
            reclaim.give(&mut vec![Thing(dropped.clone())]);
            if given == 2 {
                take_either(dropped.load(Relaxed) == before, &KEPT, &HERE);
            }
        }
        reclaim.finish();
        worker.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 2, "each was dropped once");
    });
}

/// Raises a signal once it is dropped.
struct Told(Arc<Signal>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.raise(Reasons::ROOM);
    }
}

/// R15, what is given is dropped soon, and not when something else is given or at the end.
#[test]
fn loom_reclaim_r15_what_is_given_wakes_the_thread() {
    static GIVEN: Branch = Branch::new("given");
    explore(&[&GIVEN], || {
        let dropped = Arc::new(Signal::default());
        let reclaim = Arc::new(Reclaim::new(1));
        let worker = {
            let reclaim = reclaim.clone();
            thread::spawn(move || reclaim.work())
        };
        reclaim.give(&mut vec![Told(dropped.clone())]);
        wait(&dropped);
        GIVEN.take();
        reclaim.finish();
        worker.join().unwrap();
    });
}
