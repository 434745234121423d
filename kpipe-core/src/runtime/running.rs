//! The start, and the user's handle to what runs.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::control::{Control, Topics};
use super::isolate;
use super::report::Report;
use super::shared::Shared;
use crate::budget::Budget;
use crate::consumer::{Consumer, Settings, Topic};
use crate::error::{Error, ErrorKind};
use crate::observe::Stats;
use crate::source::{Clock, Closed, Connect, Source, Subscription};

/// What a consumer came to; `None` while it runs.
type Outcome = Option<Result<Report, Arc<Error>>>;

/// A consumer that runs. Made by [`Consumer::start`].
///
/// Dropping it begins a shutdown within the default deadline that nobody waits for; it never blocks,
/// inside or outside a runtime (C36).
pub struct Running {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    outcome: watch::Receiver<Outcome>,
}

pub(crate) async fn start(consumer: Consumer, source: Box<dyn Connect>) -> Result<Running, Error> {
    let Consumer { settings, topics } = consumer;
    settings.check()?;
    check_topics(&topics)?;
    let runtime = Handle::try_current().map_err(|error| {
        Error::new(ErrorKind::NoRuntime, "a consumer is started inside a tokio runtime")
            .caused_by(error)
    })?;
    check_timers()?;
    let subscription = Subscription {
        group_id: settings.group_id.clone(),
        topics: topics.iter().map(|topic| topic.name.clone()).collect(),
        start_at: settings.start_at,
        prefetch_bytes: settings.prefetch_bytes(),
        drain_deadline: settings.drain_deadline,
    };
    let source = source.connect(subscription).await?;
    let settings = Arc::new(settings);
    let budget = Arc::new(Budget::new(settings.limits()));
    let shared = Arc::new(Shared::new(budget, Clock::new(source.time())));
    let (done, outcome) = watch::channel(None);
    let running = Running { shared: shared.clone(), settings: settings.clone(), outcome };
    launch(source, topics, settings, shared, runtime, done)?;
    Ok(running)
}

/// Deadlines need timers. tokio tells that a runtime has none by a panic, which is to be seen here
/// and not in an intake.
fn check_timers() -> Result<(), Error> {
    isolate::run(|| drop(sleep(Duration::ZERO))).map_err(|_| {
        let message = "the tokio runtime needs its timers: enable_time() or enable_all()";
        Error::new(ErrorKind::NoRuntime, message)
    })
}

fn check_topics(topics: &[Topic]) -> Result<(), Error> {
    if topics.is_empty() {
        return Err(Error::config("topics", "[]", "at least one topic is needed"));
    }
    let mut seen = HashSet::new();
    for topic in topics {
        check_name(&topic.name)?;
        if !seen.insert(&*topic.name) {
            return Err(Error::config("topic", &topic.name, "may be given only once"));
        }
    }
    Ok(())
}

/// Kafka's own rule. A name that breaks it can never exist, and librdkafka would take one that begins
/// with `^` for a pattern over all topics.
fn check_name(topic: &str) -> Result<(), Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=249).contains(&topic.len()) && topic.chars().all(legal) && !matches!(topic, "." | "..")
    {
        return Ok(());
    }
    let accepted = "must be a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and not \".\" \
                    or \"..\"; patterns are not supported";
    Err(Error::config("topic", format_args!("{topic:?}"), accepted))
}

/// Starts the control loop, on a thread of its own unless the source lives on virtual time.
fn launch(
    source: Box<dyn Source>,
    topics: Vec<Topic>,
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    runtime: Handle,
    done: watch::Sender<Outcome>,
) -> Result<(), Error> {
    let topics: Arc<Topics> =
        Arc::new(topics.into_iter().map(|topic| (topic.name.clone(), topic)).collect());
    if !source.wants_control_thread() {
        let control =
            Control::new(source, topics.clone(), settings, shared.clone(), runtime.clone());
        runtime.spawn(supervise(control, topics, shared, done));
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Client, "the control loop's thread does not start").caused_by(error)
    };
    let own =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
    let control = move || {
        own.block_on(async {
            let control = Control::new(source, topics.clone(), settings, shared.clone(), runtime);
            supervise(control, topics, shared, done).await;
        });
    };
    std::thread::Builder::new().name("kpipe-control".into()).spawn(control).map_err(failed)?;
    Ok(())
}

/// Runs the control loop and tells its outcome. When a shutdown's time is over the loop goes on to its
/// end, but what there is by then is told (G10).
///
/// The handlers go last: what a user's drop does keeps nobody from the outcome.
async fn supervise(
    control: Control,
    topics: Arc<Topics>,
    shared: Arc<Shared>,
    done: watch::Sender<Outcome>,
) {
    let mut control = std::pin::pin!(control.run());
    let outcome = tokio::select! {
        biased;
        outcome = &mut control => outcome,
        () = shared.late() => {
            done.send_replace(Some(Ok(Report::of(&shared, Closed::InBackground))));
            drop(control.await);
            isolate::discard(topics);
            return;
        }
    };
    done.send_replace(Some(outcome.map_err(Arc::new)));
    isolate::discard(topics);
}

impl Running {
    /// What the consumer looks like now. Cheap enough to be called every second.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// A view of the consumer that can be cloned and kept where this handle is not, such as in a
    /// task that publishes the statistics while [`until`](Self::until) waits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use kpipe_core::Running;
    /// # async fn run(running: Running, stop: impl Future<Output = ()>) -> Result<(), kpipe_core::Error> {
    /// let monitor = running.monitor();
    /// tokio::spawn(async move {
    ///     while !monitor.has_ended() {
    ///         let stats = monitor.stats();
    ///         println!("{} in flight, {} failed, lag {:?}", stats.in_flight, stats.failed, stats.lag());
    ///         tokio::time::sleep(Duration::from_secs(10)).await;
    ///     }
    /// });
    /// let report = running.until(stop).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn monitor(&self) -> Monitor {
        Monitor { shared: self.shared.clone(), outcome: self.outcome.clone() }
    }

    /// Runs until `stop` is ready, then shuts down within
    /// [`shutdown_deadline`](Consumer::shutdown_deadline); or until the membership is over.
    ///
    /// `stop` is a future like any other: if handlers block every worker thread of the runtime,
    /// nobody polls it, and tokio's own signals (`tokio::signal::ctrl_c`) are not noticed either. Run
    /// code that blocks with `tokio::task::spawn_blocking`. A service that cannot rely on that waits
    /// for its signal on a thread outside the runtime and calls [`shutdown`](Self::shutdown) there,
    /// which needs no worker (`futures::executor::block_on` will do).
    ///
    /// # Errors
    /// [`ErrorKind::Client`] if the client failed in a way that it cannot go on from.
    ///
    /// # Cancel safety
    /// Dropping the future drops the consumer, see [`Running`].
    pub async fn until(self, stop: impl Future<Output = ()>) -> Result<Report, Error> {
        let mut outcome = self.outcome.clone();
        tokio::select! {
            _ = outcome.wait_for(Option::is_some) => {}
            () = stop => {}
        }
        let deadline = self.settings.shutdown_deadline;
        self.shutdown(deadline).await
    }

    /// Stops intake, drains, commits and leaves the group, in that order, within `deadline` (G10).
    /// Attempts that are not finished when four fifths of it are over (or all but 3 s) are
    /// cancelled and reported as abandoned; their records are delivered again. May be awaited on any
    /// thread, in a runtime or not.
    ///
    /// # Errors
    /// [`ErrorKind::Client`] if the membership had already ended with an error.
    ///
    /// # Cancel safety
    /// Once polled, the shutdown goes on whether or not it is waited for.
    pub async fn shutdown(mut self, deadline: Duration) -> Result<Report, Error> {
        self.shared.stop(after(self.shared.clock.now(), deadline));
        match self.outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(report))) => Ok(report.clone()),
            Ok(Some(Err(error))) => {
                Err(Error::new(error.kind(), error.to_string()).caused_by(error.clone()))
            }
            Ok(None) | Err(_) => {
                Err(Error::new(ErrorKind::Client, "the control loop ended without a report"))
            }
        }
    }
}

/// A view of a consumer that can be cloned and kept anywhere; made by [`Running::monitor`]. It neither
/// keeps the consumer running nor stops it.
#[derive(Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
    outcome: watch::Receiver<Outcome>,
}

impl Monitor {
    /// What the consumer looks like now, or looked like at its end. Cheap enough to be called every
    /// second.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Whether the consumer has ended: shut down, or out of the group for good. Why is the result of
    /// [`Running::until`] or [`Running::shutdown`].
    pub fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some() || self.outcome.has_changed().is_err()
    }

    /// Waits until [`has_ended`](Self::has_ended). Cancel safe.
    pub async fn ended(&self) {
        // An error means that the control loop is gone without a word: ended as well.
        let _ = self.outcome.clone().wait_for(Option::is_some).await;
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("ended", &self.has_ended()).finish_non_exhaustive()
    }
}

/// The time `deadline` from now. Past all clocks is some decades on.
fn after(now: Instant, deadline: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    now + deadline.min(FAR)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop(self.shared.clock.now() + self.settings.shutdown_deadline);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("group_id", &self.settings.group_id).finish_non_exhaustive()
    }
}
