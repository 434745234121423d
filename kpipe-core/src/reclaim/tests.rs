use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

use super::Reclaim;

/// Notes on which thread it was dropped.
struct Thing(Arc<Mutex<Vec<ThreadId>>>);

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.lock().push(thread::current().id());
    }
}

fn things(count: usize, dropped: &Arc<Mutex<Vec<ThreadId>>>) -> Vec<Thing> {
    (0..count).map(|_| Thing(dropped.clone())).collect()
}

#[test]
fn all_that_is_given_is_dropped_on_the_working_thread() {
    let dropped = Arc::default();
    let reclaim = Arc::new(Reclaim::new(1_000));
    let worker = {
        let reclaim = reclaim.clone();
        thread::spawn(move || reclaim.work())
    };
    let id = worker.thread().id();
    for count in [1, 0, 128, 7] {
        let mut batch = things(count, &dropped);
        reclaim.give(&mut batch);
        assert!(batch.is_empty());
    }
    reclaim.finish();
    worker.join().unwrap();
    assert_eq!(*dropped.lock(), vec![id; 136]);
}

#[test]
fn what_there_is_no_room_for_is_dropped_where_it_is() {
    let dropped = Arc::default();
    let reclaim = Reclaim::new(10);
    reclaim.give(&mut things(10, &dropped));
    assert_eq!(dropped.lock().len(), 0);
    let mut batch = things(1, &dropped);
    reclaim.give(&mut batch);
    assert!(batch.is_empty());
    assert_eq!(dropped.lock().len(), 1, "nobody works, and there are ten");
}

#[test]
fn what_comes_after_the_end_is_dropped_where_it_is() {
    let dropped = Arc::default();
    let reclaim = Reclaim::new(10);
    reclaim.give(&mut things(2, &dropped));
    reclaim.finish();
    reclaim.give(&mut things(3, &dropped));
    assert_eq!(dropped.lock().len(), 3);
    reclaim.work();
    assert_eq!(dropped.lock().len(), 5, "what waited is dropped before the work ends");
}
