//! Plays a plan: members, handlers and a broker on a paused clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kpipe_core::{Consumer, Context, Failure, HandlerResult, OnFailure, Record, Running};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::check::{Checker, Event, Violation};
use super::course::{Course, Tracer};
use super::plan::{Act, CALM, Commits, Does, Plan, SETTLED};
use crate::broker::{AssignFault, Broker, CommitFault, Protocol};
use crate::record::TestRecord;
use kpipe_core::source::CommitErrorKind;

const TOPIC: &str = "t";
const GROUP: &str = "g";
/// The last shutdown of each member.
const LAST_SHUTDOWN: Duration = Duration::from_secs(20);
/// A shutdown may be late by that: the grace of what it cancels.
const SLACK: Duration = Duration::from_millis(200);

/// What came of a plan.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) events: usize,
    pub(super) violation: Option<Violation>,
}

/// Plays a plan from its beginning to the end of its last member.
pub(super) fn play(plan: &Plan) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime is built");
    runtime.block_on(async {
        let mut world = World::new(plan);
        let violation = world.live().await.err();
        Played { events: world.events, violation }
    })
}

type Checked = Result<(), Violation>;

struct World<'a> {
    plan: &'a Plan,
    broker: Broker,
    course: Arc<Course>,
    checker: Checker,
    members: Vec<Member>,
    /// Members that shut down, and within which time they have to.
    leaving: Vec<(usize, JoinHandle<Left>)>,
    deliveries: Deliveries,
    events: usize,
}

struct Member {
    name: String,
    tracer: Arc<Tracer>,
    /// Until it leaves or dies.
    running: Option<Running>,
}

/// How a shutdown went: how late it was, and what the consumer counted.
struct Left {
    late: Duration,
    stats: Option<kpipe_core::Stats>,
}

/// How often each record has come to a handler.
type Deliveries = Arc<Mutex<BTreeMap<(i32, i64), u32>>>;

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> Self {
        let protocol = match plan.cooperative {
            true => Protocol::Cooperative,
            false => Protocol::Eager,
        };
        let broker = Broker::builder().protocol(protocol).build();
        broker.create_topic(TOPIC, plan.partitions);
        Self {
            plan,
            course: Arc::new(Course::new(broker.clone())),
            broker,
            checker: Checker::new(plan.settings),
            members: Vec::new(),
            leaving: Vec::new(),
            deliveries: Deliveries::default(),
            events: 0,
        }
    }

    async fn live(&mut self) -> Checked {
        let begun = Instant::now();
        for _ in 0..self.plan.members {
            self.join().await;
        }
        for (at, act) in &self.plan.acts {
            sleep_until(begun + *at).await;
            self.act(act).await;
            self.check()?;
        }
        sleep_until(begun + CALM).await;
        self.calm().await?;
        self.settle(begun + SETTLED).await?;
        self.end().await
    }

    /// Replays what happened since the last time.
    fn check(&mut self) -> Checked {
        let events = self.course.take();
        self.events += events.len();
        events.iter().try_for_each(|event| self.checker.follow(event))?;
        self.check_bytes()
    }

    fn check_bytes(&self) -> Checked {
        let most = self.plan.settings.most_bytes();
        for running in self.members.iter().filter_map(|member| member.running.as_ref()) {
            let held = running.stats().bytes_held;
            if held > most {
                let text = format!("{held} bytes are held, and {most} may be");
                return Err(Violation { promise: "G4", text });
            }
        }
        Ok(())
    }

    /// All faults end, and somebody is there.
    async fn calm(&mut self) -> Checked {
        self.broker.calm();
        self.broker.let_assignor_decide(GROUP);
        if self.alive().is_none() {
            self.join().await;
        }
        self.check()
    }

    /// Waits until everything is finished and committed. What is held back by a failure comes to another
    /// attempt when its partition is given back.
    async fn settle(&mut self, by: Instant) -> Checked {
        let mut seconds = 0;
        loop {
            sleep(Duration::from_secs(1)).await;
            self.check()?;
            match self.checker.settled() {
                Ok(()) => return Ok(()),
                Err(violation) if Instant::now() >= by => return Err(violation),
                Err(_) => {}
            }
            seconds += 1;
            if self.plan.settings.on_failure == OnFailure::Hold && seconds % 15 == 0 {
                for partition in 0..self.plan.partitions {
                    self.broker.hand_back(GROUP, TOPIC, partition);
                }
            }
        }
    }

    /// Every member shuts down, within its time, holding nothing, and having counted rightly.
    async fn end(&mut self) -> Checked {
        for member in 0..self.members.len() {
            self.leave(member, LAST_SHUTDOWN);
        }
        for (member, left) in std::mem::take(&mut self.leaving) {
            let left = left.await.expect("a shutdown does not panic");
            self.check()?;
            self.check_leaver(member, &left)?;
        }
        Ok(())
    }

    fn check_leaver(&self, member: usize, left: &Left) -> Checked {
        let fault = |promise, text| Err(Violation { promise, text });
        if left.late > SLACK {
            return fault("G10", format!("member {member} shut down {:?} late", left.late));
        }
        let Some(stats) = &left.stats else {
            return fault("G9", format!("member {member} ended with an error"));
        };
        let counts = self.checker.counts(member);
        let rest = counts.received - counts.passed - counts.dropped - counts.duplicates;
        let told = [stats.received, stats.passed, stats.dropped, stats.duplicates, stats.abandoned];
        let seen = [counts.received, counts.passed, counts.dropped, counts.duplicates, rest];
        if told != seen {
            return fault("G8", format!("member {member} counted {told:?}, and {seen:?} happened"));
        }
        if (stats.in_flight, stats.held, stats.bytes_held) != (0, 0, 0) {
            let [slots, held, bytes] = [stats.in_flight, stats.held, stats.bytes_held];
            let text = format!("member {member} kept {slots} slots, {held} records, {bytes} bytes");
            return fault("G8", text);
        }
        self.checker.gone(member)
    }
}

/// What happens.
impl World<'_> {
    async fn act(&mut self, act: &Act) {
        let owner = |world: &Self, partition| world.broker.owner(GROUP, TOPIC, partition);
        match act {
            Act::Produce { partition, key, does } => self.produce(*partition, *key, *does),
            Act::Gap { partition, offsets } => self.broker.skip(TOPIC, *partition, *offsets),
            Act::Truncate { partition, keep } => {
                let (_, end) = self.broker.log_range(TOPIC, *partition).unwrap_or_default();
                self.broker.truncate_before(TOPIC, *partition, end - keep);
            }
            Act::Join => self.join().await,
            Act::Leave { within } => {
                if let Some(member) = self.alive() {
                    self.leave(member, *within);
                }
            }
            Act::Crash => self.crash(),
            Act::Rebalance => self.broker.rebalance_now(GROUP),
            Act::Move { partition } => {
                if let Some(to) = self.alive() {
                    self.broker.move_partition(TOPIC, *partition, &self.members[to].name);
                }
            }
            Act::HandBack { partition } => {
                self.broker.hand_back(GROUP, TOPIC, *partition);
            }
            Act::Expel => {
                if let Some(member) = self.alive() {
                    self.broker.expel(&self.members[member].name);
                }
            }
            Act::Commits(what) => {
                if let Some(member) = self.alive() {
                    self.broker.on_commits(&self.members[member].name, faults(*what));
                }
            }
            Act::CoordinatorAway { during } => self.broker.coordinator_away(*during),
            Act::BrokerAway { during } => self.broker.go_away(*during),
            Act::Twice { partition, records } => {
                self.broker.deliver_again(TOPIC, *partition, *records);
            }
            Act::FailAssign { partition } => {
                if let Some(member) = owner(self, *partition) {
                    self.broker.on_assigns(&member, [AssignFault::Fail]);
                    self.broker.hand_back(GROUP, TOPIC, *partition);
                }
            }
            Act::FetchError => {
                if let Some(member) = self.alive() {
                    let name = &self.members[member].name;
                    self.broker.report_error(name, "a fetch failed", false);
                }
            }
        }
    }

    fn produce(&self, partition: i32, key: Option<u64>, does: Does) {
        let record = match key {
            Some(key) => TestRecord::key(format!("key-{key}")),
            None => TestRecord::new(),
        };
        let mut value = does.to_string().into_bytes();
        // The plan's words end where the filling begins.
        value.resize(value.len().max(self.plan.settings.payload), b' ');
        let record = record.partition(partition).value(value);
        let (partition, offset) = self.broker.append(TOPIC, record).expect("the topic exists");
        self.course.wrote(partition, offset, key);
    }

    async fn join(&mut self) {
        let member = self.members.len();
        let name = format!("m{member}");
        let tracer = Arc::new(Tracer::new(self.course.clone(), member));
        self.course.join(&name, member);
        let client = self.broker.client().named(&name).traced(tracer.clone());
        let running = self.consumer().start(client).await.expect("a consumer starts");
        self.members.push(Member { name, tracer, running: Some(running) });
    }

    fn consumer(&self) -> Consumer {
        let settings = &self.plan.settings;
        let deliveries = self.deliveries.clone();
        let (course, member) = (self.course.clone(), self.members.len());
        let handler = move |record: Record, context: Context| {
            let (course, deliveries) = (course.clone(), deliveries.clone());
            let (partition, offset) = (record.partition(), record.offset());
            async move {
                handle(record, context, deliveries).await?;
                course.happened(Event::Handled { member, partition, offset });
                Ok(())
            }
        };
        Consumer::new(GROUP)
            .topic(TOPIC, handler)
            .ordering(settings.ordering)
            .null_keys(settings.null_keys)
            .on_failure(settings.on_failure)
            .first_poll_inline(settings.first_poll_inline)
            .max_in_flight(settings.max_in_flight)
            .max_held(settings.max_held)
            .max_finished_beyond(settings.max_finished_beyond)
            .commit_interval(settings.commit_interval)
            .attempt_deadline(settings.attempt_deadline)
            .drain_deadline(settings.drain_deadline)
            .bytes_in_hand(settings.bytes_in_hand().unwrap_or(256 << 20))
    }

    /// The member that has been there the longest.
    fn alive(&self) -> Option<usize> {
        self.members.iter().position(|member| member.running.is_some())
    }

    fn leave(&mut self, member: usize, within: Duration) {
        let Some(running) = self.members[member].running.take() else { return };
        let left = tokio::spawn(async move {
            let by = Instant::now() + within;
            let report = running.shutdown(within).await;
            let late = Instant::now().saturating_duration_since(by);
            Left { late, stats: report.ok().map(|report| report.stats) }
        });
        self.leaving.push((member, left));
    }

    fn crash(&mut self) {
        let Some(member) = self.alive() else { return };
        let Member { name, tracer, running } = &mut self.members[member];
        self.broker.kill(name, Duration::from_secs(6));
        tracer.die();
        drop(running.take());
    }
}

fn faults(what: Commits) -> Vec<CommitFault> {
    match what {
        Commits::Retry(times) => vec![CommitFault::Fail(CommitErrorKind::Retry); times],
        Commits::Fenced => vec![CommitFault::Fail(CommitErrorKind::Fenced)],
        Commits::Late(by) => vec![CommitFault::Late(by)],
        Commits::Unanswered => vec![CommitFault::AnswerLost],
    }
}

async fn handle(record: Record, context: Context, deliveries: Deliveries) -> HandlerResult {
    let place = (record.partition(), record.offset());
    let delivery = {
        let mut deliveries = deliveries.lock();
        let count = deliveries.entry(place).or_default();
        *count += 1;
        *count
    };
    let value = std::str::from_utf8(record.value().unwrap_or_default())?;
    match Does::parse(value.trim_end()).ok_or_else(|| Failure::msg("not a plan's record"))? {
        Does::Pass => {}
        Does::Yield => tokio::task::yield_now().await,
        Does::Sleep(time) => sleep(time).await,
        Does::Fail(times) if delivery <= times => return Err(Failure::msg("as planned")),
        // Without the panic hook's words.
        Does::Panic(times) if delivery <= times => {
            std::panic::resume_unwind(Box::new("as planned"))
        }
        Does::HeedCancel(times) if delivery <= times => context.cancelled().await,
        Does::Hang(times) if delivery <= times => std::future::pending().await,
        Does::Fail(_) | Does::Panic(_) | Does::HeedCancel(_) | Does::Hang(_) => {}
    }
    Ok(())
}
