//! A process that dies in the middle of its work and is started again.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kpipe_core::source::Outcome;
use kpipe_core::{Consumer, TopicPartition};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::broker::{Broker, CommitFault, What as Seen};
use crate::clock::SharedClock;
use crate::record::TestRecord;
use crate::run::Run;
use crate::stream::{MEMBER, TestStream, hand_back_all};
use crate::witness::{What, Witness};

/// How many records an assertion names at most.
const NAMED: usize = 10;

/// Where the process dies; each time at the middle one of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Crash {
    /// A record was received, and its handler has not begun.
    AfterReceive,
    /// A handler has begun.
    InHandler,
    /// A handler has ended well, and nobody has heard of it.
    BeforeAck,
    /// Half of the records are finished, the commit that says so is on its way, and does not arrive.
    BeforeCommit,
    /// A partition is revoked, and what runs in it has not ended.
    InRebalance,
}

/// Runs a consumer, kills it at a chosen point as `kill -9` does, starts it again, and says for each
/// record how often it was handled.
///
/// ```
/// use kpipe_core::{Consumer, Record};
/// use kpipe_test::{Crash, CrashRestartHarness};
///
/// fn billing() -> Consumer {
///     Consumer::new("billing").topic("payments", |record: Record| async move {
///         tokio::task::yield_now().await;
///         Ok(())
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let run = CrashRestartHarness::new(billing)
///     .records(1_000)
///     .crash_when(Crash::BeforeCommit)
///     .run()
///     .await;
/// run.assert_at_least_once();
/// assert_eq!(run.handled_twice(), run.finished_but_unrecorded()); // the exact window
/// # }
/// ```
pub struct CrashRestartHarness<F> {
    make: F,
    records: usize,
    record: Box<dyn Fn(usize) -> TestRecord + Send>,
    partitions: i32,
    crash: Crash,
}

impl<F> CrashRestartHarness<F>
where
    F: Fn() -> Consumer + Send + 'static,
{
    /// Takes the function that makes the definition; it is called once for each process. It owns what it
    /// uses (`move ||`), because the processes run on a thread of their own.
    pub fn new(make: F) -> Self {
        Self {
            make,
            records: 100,
            record: Box::new(|index| {
                TestRecord::key(format!("key-{}", index % 10)).value(index.to_string())
            }),
            partitions: 1,
            crash: Crash::InHandler,
        }
    }

    /// How many records are sent to the consumer's first topic, at least 2; default 100.
    #[must_use]
    pub fn records(mut self, records: usize) -> Self {
        self.records = records;
        self
    }

    /// What the records are; default ten keys in turn, and the index as the value.
    #[must_use]
    pub fn record(mut self, record: impl Fn(usize) -> TestRecord + Send + 'static) -> Self {
        self.record = Box::new(record);
        self
    }

    /// How many partitions the topics have; default 1.
    #[must_use]
    pub fn partitions(mut self, partitions: i32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Where the process dies; default [`Crash::InHandler`].
    #[must_use]
    pub fn crash_when(mut self, crash: Crash) -> Self {
        self.crash = crash;
        self
    }

    /// Runs both processes, the second one until nothing is left to do. Handlers run on runtimes of the
    /// harness's own, with timers and I/O.
    ///
    /// # Panics
    /// If there are less than 2 records, the consumer has no topic or does not start, its first process
    /// never comes to the point, or the second one is stuck as in
    /// [`TestStream::flush`](crate::TestStream::flush).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the processes to run to their end.
    pub async fn run(self) -> CrashRun {
        assert!(self.records >= 2, "records = {}: must be at least 2", self.records);
        let (done, outcome) = oneshot::channel();
        let process = thread::spawn(move || {
            // Nobody listens if the test has gone on.
            let _ = done.send(self.both_lives());
        });
        match outcome.await {
            Ok(run) => run,
            Err(_) => match process.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a thread that ends well has told the outcome"),
            },
        }
    }

    fn both_lives(self) -> CrashRun {
        let clock = SharedClock::default();
        let broker = Broker::with_time(Arc::new(clock.clone()));
        let witness = Arc::new(Witness::new(Arc::new(clock.clone())));
        let life =
            || TestStream::over((self.make)(), broker.clone(), clock.clone(), witness.clone());

        let mut first = life().partitions(self.partitions);
        let topic = first.first_topic().expect("a consumer has a topic").to_owned();
        let runtime = runtime();
        runtime.block_on(async {
            // So that there is something that must not be handled again.
            for index in 0..self.records / 2 {
                first.send(&topic, (self.record)(index));
            }
            first.flush().await;
            let bystander = Bystander { broker: broker.clone(), seen: broker.steps() };
            self.lay_the_mine(&broker, &witness);
            for index in self.records / 2..self.records {
                first.send(&topic, (self.record)(index));
            }
            let came = first.run_until(|| witness.is_dead() || self.dies_by(&bystander)).await;
            assert!(came, "the process finished everything and never came to {:?}", self.crash);
        });
        die(&broker, &witness);
        // Whatever was under way is dropped where it was.
        drop((runtime, first));
        let unrecorded = unrecorded(&witness, |partition| {
            broker.committed((self.make)().group_id(), &partition.topic, partition.partition)
        });

        witness.ledger().bury();
        let run = self::runtime().block_on(life().flush());
        CrashRun { run, unrecorded }
    }

    /// Has the process die at the middle one of the records to come, where the step itself is the point.
    fn lay_the_mine(&self, broker: &Broker, witness: &Arc<Witness>) {
        let crash = self.crash;
        let mut left = self.records.div_ceil(4);
        let point = move |what: &What| {
            let here = match (crash, what) {
                (Crash::AfterReceive, What::Received { .. }) => true,
                (Crash::InHandler | Crash::InRebalance, What::Began { .. }) => true,
                (Crash::BeforeAck, What::Ended { outcome, .. }) => *outcome == Outcome::Passed,
                _ => false,
            };
            left -= usize::from(here);
            here && left == 0
        };
        let (dying, broker) = (Arc::downgrade(witness), broker.clone());
        let group = (self.make)().group_id().to_owned();
        match crash {
            Crash::BeforeCommit => broker.on_commits(MEMBER, [CommitFault::Lost]),
            Crash::InRebalance => witness.at(point, move || hand_back_all(&broker, &group)),
            _ => witness.at(point, move || {
                if let Some(witness) = dying.upgrade() {
                    die(&broker, &witness);
                }
            }),
        }
    }

    /// Whether the broker has seen that at which the process dies.
    fn dies_by(&self, bystander: &Bystander) -> bool {
        match self.crash {
            Crash::BeforeCommit => bystander.saw(|seen| matches!(seen, Seen::CommitAsked { .. })),
            Crash::InRebalance => bystander.saw(|seen| matches!(seen, Seen::Revoked { .. })),
            _ => false,
        }
    }
}

/// Sees what the broker sees from some point on.
struct Bystander {
    broker: Broker,
    seen: usize,
}

impl Bystander {
    fn saw(&self, what: impl Fn(&Seen) -> bool) -> bool {
        self.broker.history().iter().skip(self.seen).any(|seen| what(&seen.what))
    }
}

fn die(broker: &Broker, witness: &Witness) {
    witness.die();
    broker.kill(MEMBER, Duration::ZERO);
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is built")
}

/// What was finished and is not below the committed offset.
fn unrecorded(
    witness: &Witness,
    committed: impl Fn(&TopicPartition) -> Option<i64>,
) -> BTreeSet<(TopicPartition, i64)> {
    let ledger = witness.ledger();
    let finished = ledger.steps.iter().filter_map(|step| match step.what {
        What::Ended { offset, outcome: Outcome::Passed | Outcome::Dropped } => {
            Some((step.partition.clone(), offset))
        }
        _ => None,
    });
    finished.filter(|(partition, offset)| Some(*offset) >= committed(partition)).collect()
}

/// What came of the records over both processes.
#[derive(Clone, Debug)]
pub struct CrashRun {
    run: Run,
    unrecorded: BTreeSet<(TopicPartition, i64)>,
}

impl CrashRun {
    /// Every record that was finished more than once.
    pub fn handled_twice(&self) -> BTreeSet<(TopicPartition, i64)> {
        let twice = self.run.records().filter(|(_, _, record)| record.finished > 1);
        twice.map(|(partition, offset, _)| (partition.clone(), offset)).collect()
    }

    /// Every record that the first process had finished and that no commit told of: neither below the
    /// committed offset, nor in its map once there is one.
    pub fn finished_but_unrecorded(&self) -> BTreeSet<(TopicPartition, i64)> {
        self.unrecorded.clone()
    }

    /// Asserts that every record was finished by one process or the other (G1).
    ///
    /// # Panics
    /// If one was not.
    #[track_caller]
    pub fn assert_at_least_once(&self) {
        self.run.assert_at_least_once();
    }

    /// Asserts that exactly those were handled again that no commit told of (G6).
    ///
    /// # Panics
    /// If one was handled again that need not have been, or one was not that had to be.
    #[track_caller]
    pub fn assert_exact_window(&self) {
        let (twice, due) = (self.handled_twice(), &self.unrecorded);
        let needless: Vec<_> = twice.difference(due).take(NAMED).collect();
        let missing: Vec<_> = due.difference(&twice).take(NAMED).collect();
        assert!(
            needless.is_empty() && missing.is_empty(),
            "handled again although a commit told of them: {needless:?}; not handled again although none \
             did: {missing:?}"
        );
    }

    /// Everything else that there is to know.
    pub fn run(&self) -> &Run {
        &self.run
    }
}

impl<F> fmt::Debug for CrashRestartHarness<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashRestartHarness")
            .field("records", &self.records)
            .field("partitions", &self.partitions)
            .field("crash", &self.crash)
            .finish_non_exhaustive()
    }
}
