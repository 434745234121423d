//! Letting everything happen that is going to, and knowing when that is.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use kpipe_core::TopicPartition;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::TestStream;
use super::ticker::Ticker;
use crate::run::Run;
use crate::witness::{Attempt, Running};

/// So often every task that is ready gets its turn before a standstill is one.
const TURNS: u32 = 4;
/// A consumer of which nothing ran and nothing was heard for so long waits for nothing.
const STANDSTILL: Duration = Duration::from_secs(3_600);
/// So often a handler may ignore its deadline.
const IGNORED: u32 = 3;

impl TestStream {
    /// Runs until nothing is left to do: every record that was sent is finished, or held by a failure,
    /// or waits behind one that is, and everything finished is committed. Then says what happened since
    /// the stream was made. May be called again, after more was sent.
    ///
    /// KPipe's own waits pass in virtual time. While handlers run, time is real: a flush waits for them,
    /// and takes them for stuck once nothing has happened for the [`patience`](Self::patience); then their
    /// deadlines pass.
    ///
    /// # Panics
    /// If the consumer does not start, and if a handler is stuck that no deadline ends.
    ///
    /// # Cancel safety
    /// A flush that is dropped stops the clock; the next one goes on.
    pub async fn flush(&mut self) -> Run {
        if let Err(error) = self.start().await {
            panic!("the consumer does not start: {error}");
        }
        let mut driver = Driver::new(self);
        while driver.turn().await == Turn::Busy {}
        self.run()
    }

    /// Runs until `is_over`; false if nothing is left to do before.
    pub(crate) async fn run_until(&mut self, is_over: impl Fn() -> bool) -> bool {
        let mut driver = Driver::new(self);
        loop {
            if is_over() {
                return true;
            }
            if driver.turn().await == Turn::Rest {
                return is_over();
            }
        }
    }

    /// Moves the clock until the future ends.
    pub(super) async fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut driver = Driver::new(self);
        loop {
            let ended = {
                let mut turn = pin!(driver.turn());
                poll_fn(|cx| {
                    if let Poll::Ready(output) = future.as_mut().poll(cx) {
                        return Poll::Ready(Err(output));
                    }
                    turn.as_mut().poll(cx).map(Ok)
                })
                .await
            };
            match ended {
                Err(output) => return output,
                Ok(Turn::Busy) => {}
                Ok(Turn::Rest) => drop(driver.skip()),
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Busy,
    Rest,
}

/// Moves one stream's clock.
struct Driver<'a> {
    stream: &'a TestStream,
    ticker: Ticker,
    /// Whether other threads may be at it while this one looks.
    threads: bool,
    /// What had happened when something last did.
    steps: usize,
    /// For so many turns nothing has.
    turns: u32,
    /// Since then, on the kit's clock and really.
    since: Instant,
    really: std::time::Instant,
    ignored: u32,
}

impl<'a> Driver<'a> {
    fn new(stream: &'a TestStream) -> Self {
        Self {
            stream,
            ticker: Ticker::start(),
            threads: Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread,
            steps: 0,
            turns: 0,
            since: stream.clock.0.now(),
            really: std::time::Instant::now(),
            ignored: 0,
        }
    }

    /// Lets what is ready go on, and does what a standstill asks for.
    async fn turn(&mut self) -> Turn {
        yield_now().await;
        let clock = &self.stream.clock.0;
        clock.wake_due();
        let (steps, running) = self.look();
        if steps != self.steps {
            self.steps = steps;
            self.turns = 0;
            self.ignored = 0;
            self.since = clock.now();
            self.really = std::time::Instant::now();
            return Turn::Busy;
        }
        self.turns += 1;
        if self.turns < TURNS {
            return Turn::Busy;
        }
        if let Some((attempt, running)) = running {
            self.wait_for_handlers(&attempt, running).await;
            return Turn::Busy;
        }
        if self.threads && self.turns == TURNS {
            self.ticker.tick().await;
            return Turn::Busy;
        }
        self.turns = 0;
        let standstill = clock.now() - self.since > STANDSTILL;
        if standstill || self.is_at_rest() || !self.skip() { Turn::Rest } else { Turn::Busy }
    }

    /// How much has happened so far, and the attempt that runs and is the first to meet its deadline.
    fn look(&self) -> (usize, Option<(Attempt, Running)>) {
        let ledger = self.stream.witness.ledger();
        let far = |running: &Running| (running.deadline.is_none(), running.deadline);
        let running = ledger.running.iter().min_by_key(|(_, running)| far(running));
        let running = running.map(|(attempt, running)| (attempt.clone(), *running));
        (ledger.steps.len() + self.stream.broker.steps(), running)
    }

    /// Moves the clock to when the next of KPipe's own waits is over; false if there is none.
    fn skip(&self) -> bool {
        let clock = &self.stream.clock.0;
        let due = clock.first_due(None);
        due.into_iter().for_each(|at| clock.skip_to(at));
        due.is_some()
    }

    /// Waits for a step, or a moment. Handlers of which nothing is heard for too long are stuck: the
    /// first deadline passes.
    async fn wait_for_handlers(&mut self, attempt: &Attempt, running: Running) {
        tokio::select! {
            () = self.stream.witness.changed.notified() => {}
            () = self.ticker.tick() => {}
        }
        if self.really.elapsed() < self.stream.patience {
            return;
        }
        self.really = std::time::Instant::now();
        let clock = &self.stream.clock.0;
        let Some(deadline) = running.deadline else {
            self.stuck(attempt, running, "set one or complete it")
        };
        if deadline <= clock.now() {
            self.ignored += 1;
            if self.ignored >= IGNORED {
                self.stuck(
                    attempt,
                    running,
                    "and a handler that blocks its thread does not meet its own",
                );
            }
        }
        // Its timer was set a moment after its deadline was told.
        clock.skip_to(clock.first_due(Some(deadline)).unwrap_or(deadline));
    }

    fn stuck(&self, (partition, _, offset): &Attempt, running: Running, advice: &str) -> ! {
        let age = self.stream.clock.0.now() - running.since;
        panic!(
            "record {offset} of {partition} never finished: handler pending since {age:.0?}, attempt {}; \
             flush waits for deadlines, {advice}",
            running.attempt
        );
    }

    /// Whether every partition is here, every record has been received, and everything finished is
    /// committed.
    fn is_at_rest(&self) -> bool {
        let Some(running) = &self.stream.running else { return true };
        let stats = running.stats();
        let clean: BTreeSet<_> = stats
            .partitions
            .into_iter()
            .filter(|one| one.committed == Some(one.frontier))
            .map(|one| one.partition)
            .collect();
        let ledger = self.stream.witness.ledger();
        self.stream.topics.iter().all(|topic| {
            let partitions = 0..self.stream.broker.partitions(topic).unwrap_or_default();
            partitions.into_iter().all(|partition| {
                let last = self.stream.broker.last_offset(topic, partition);
                let partition = TopicPartition::new(&**topic, partition);
                let next = ledger.next.get(&partition);
                clean.contains(&partition)
                    && next.is_some_and(|next| last.is_none_or(|last| *next > last))
            })
        })
    }
}
