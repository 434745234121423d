//! Whole consumers, and what became of each record.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kpipe_core::{Consumer, Ordering, Record, Report, Running};
use tokio::time::Instant;

use crate::PATIENCE;
use crate::cluster::Cluster;

/// How often each record was handled, by partition and offset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<(i32, i64), u32>>>);

impl Ledger {
    pub(crate) fn note(&self, record: &Record) {
        *self.0.lock().unwrap().entry((record.partition(), record.offset())).or_default() += 1;
    }

    /// Records that were handled.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Records that were handled more than once.
    pub(crate) fn twice(&self) -> Vec<(i32, i64)> {
        let ledger = self.0.lock().unwrap();
        ledger.iter().filter(|(_, times)| **times > 1).map(|(place, _)| *place).collect()
    }

    /// The offsets handled in a partition.
    pub(crate) fn offsets(&self, partition: i32) -> Vec<i64> {
        let ledger = self.0.lock().unwrap();
        ledger.keys().filter(|(of, _)| *of == partition).map(|(_, offset)| *offset).collect()
    }
}

/// A consumer whose handler takes a while and then notes the record. One record of a partition at a
/// time, so that what a drain leaves is not in between.
pub(crate) fn noting(group: &str, topic: &str, ledger: &Ledger, takes: Duration) -> Consumer {
    let ledger = ledger.clone();
    let handler = move |record: Record| {
        let ledger = ledger.clone();
        async move {
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            ledger.note(&record);
            Ok(())
        }
    };
    Consumer::new(group)
        .topic(topic, handler)
        .ordering(Ordering::Partition)
        .commit_interval(Duration::from_millis(200))
}

pub(crate) async fn start(cluster: &impl Cluster, consumer: Consumer) -> Running {
    consumer.start(cluster.client(None)).await.expect("starts")
}

pub(crate) async fn shut_down(running: Running) -> Report {
    running.shutdown(Duration::from_secs(10)).await.expect("a report")
}

/// Looks again and again until it is so.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    until_asked(what, async || so()).await;
}

/// Asks again and again until it is so.
pub(crate) async fn until_asked<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let begun = Instant::now();
    while !so().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
