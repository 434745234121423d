//! A handler that a test steers and looks into.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kpipe_core::{Consumer, Failure, HandlerResult, Record, Running};
use tokio::sync::Notify;

use crate::memory::Cluster;

/// Records every attempt; whatever its value says happens: `5ms` waits so long, `gate` waits until
/// the test opens it, `yield` pends once, `fail` fails, `panic` panics, `never` never ends, anything
/// else is done at once.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<Log>,
    gate: Notify,
    open: Mutex<bool>,
}

#[derive(Default)]
pub(crate) struct Log {
    /// Beginnings and ends, in order.
    pub(crate) steps: Vec<Step>,
    pub(crate) running: usize,
    pub(crate) peak: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(i32, i64),
    End(i32, i64),
}

impl Probe {
    pub(crate) async fn handle(self, record: Record) -> HandlerResult {
        let (partition, offset) = (record.partition(), record.offset());
        let running = self.begin(partition, offset);
        let value = std::str::from_utf8(record.value().unwrap_or_default())?.to_owned();
        match value.as_str() {
            "gate" => self.wait_at_gate().await,
            "fail" => return Err(Failure::msg("asked to fail")),
            "panic" => panic!("asked to panic"),
            "yield" => tokio::task::yield_now().await,
            "never" => std::future::pending().await,
            other => {
                if let Some(ms) = other.strip_suffix("ms") {
                    tokio::time::sleep(Duration::from_millis(ms.parse()?)).await;
                }
            }
        }
        drop(running);
        Ok(())
    }

    fn begin(&self, partition: i32, offset: i64) -> Attempt {
        let mut log = self.0.state.lock().unwrap();
        log.steps.push(Step::Begin(partition, offset));
        log.running += 1;
        log.peak = log.peak.max(log.running);
        Attempt { inner: self.0.clone(), partition, offset }
    }

    async fn wait_at_gate(&self) {
        let notified = self.0.gate.notified();
        if !*self.0.open.lock().unwrap() {
            notified.await;
        }
    }

    /// Lets everything through from now on.
    pub(crate) fn open_gate(&self) {
        *self.0.open.lock().unwrap() = true;
        self.0.gate.notify_waiters();
    }

    pub(crate) fn begun(&self) -> Vec<(i32, i64)> {
        let log = self.0.state.lock().unwrap();
        let begin = |step: &Step| match step {
            Step::Begin(partition, offset) => Some((*partition, *offset)),
            Step::End(..) => None,
        };
        log.steps.iter().filter_map(begin).collect()
    }

    /// The offsets begun, where there is one partition.
    pub(crate) fn offsets(&self) -> Vec<i64> {
        self.begun().into_iter().map(|(_, offset)| offset).collect()
    }

    pub(crate) fn peak(&self) -> usize {
        self.0.state.lock().unwrap().peak
    }

    pub(crate) fn running(&self) -> usize {
        self.0.state.lock().unwrap().running
    }

    /// Asserts that of the records in one scope at most one ran at a time, each begun once, in
    /// offset order.
    pub(crate) fn assert_ordered_by<S: Hash + Eq>(&self, scope: impl Fn(i32, i64) -> S) {
        self.assert_alone_by(&scope);
        let mut last: HashMap<(S, i32), i64> = HashMap::new();
        for (partition, offset) in self.begun() {
            let before = last.insert((scope(partition, offset), partition), offset);
            assert!(before.is_none_or(|before| before < offset), "{before:?} before {offset}");
        }
    }

    /// Asserts that of the records in one scope at most one ran at a time.
    pub(crate) fn assert_alone_by<S: Hash + Eq>(&self, scope: impl Fn(i32, i64) -> S) {
        let log = self.0.state.lock().unwrap();
        let mut running: HashSet<S> = HashSet::new();
        for step in &log.steps {
            match *step {
                Step::Begin(partition, offset) => {
                    assert!(running.insert(scope(partition, offset)), "two at once at {offset}");
                }
                Step::End(partition, offset) => {
                    assert!(running.remove(&scope(partition, offset)));
                }
            }
        }
    }
}

/// Ends with the attempt, however that ends.
struct Attempt {
    inner: Arc<Inner>,
    partition: i32,
    offset: i64,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut log = self.inner.state.lock().unwrap();
        log.steps.push(Step::End(self.partition, self.offset));
        log.running -= 1;
    }
}

/// A consumer of topic `t` whose handler is the probe.
pub(crate) fn consumer(probe: &Probe) -> Consumer {
    let probe = probe.clone();
    Consumer::new("g").topic("t", move |record: Record| probe.clone().handle(record))
}

pub(crate) async fn start(consumer: Consumer, cluster: &Cluster) -> Running {
    consumer.start(cluster.clone()).await.expect("the consumer starts")
}

/// Lets everything happen that can happen without time passing, plus a millisecond.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Lets virtual time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
