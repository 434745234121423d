//! The runtime's own time: deadlines, intervals, and what waits for them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use pin_project_lite::pin_project;
use tokio::time::Instant;

/// A clock that a source brings along, for a test kit that moves it. Everything that the runtime
/// itself waits for (attempt deadlines, commit interval, drains, shutdown) goes by it; handlers do not
/// see it but for [`Context::deadline`](crate::Context::deadline).
pub trait Time: Send + Sync + 'static {
    /// The time now. Never goes back.
    fn now(&self) -> Instant;

    /// Ends once `now` is `at` or later. Cancel safe; not bound to one task.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;
}

/// The clock that a consumer goes by: tokio's, or its source's.
#[derive(Clone, Default)]
pub(crate) struct Clock(Option<Arc<dyn Time>>);

impl Clock {
    pub(crate) fn new(time: Option<Arc<dyn Time>>) -> Self {
        Self(time)
    }

    /// Whether a source moves it.
    pub(crate) fn is_driven(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(time) => time.now(),
        }
    }

    /// The time when tokio's clock showed `reading`, just before.
    #[inline]
    pub(crate) fn at(&self, reading: Instant) -> Instant {
        match &self.0 {
            None => reading,
            Some(time) => time.now(),
        }
    }

    pub(crate) fn sleep_until(&self, at: Instant) -> Sleep {
        match &self.0 {
            None => Sleep::Tokio { sleep: tokio::time::sleep_until(at) },
            Some(time) => Sleep::Driven { sleep: time.sleep_until(at) },
        }
    }

    /// The output of `future`, or `None` if it takes longer than `at_most`.
    pub(crate) async fn timeout<F: Future>(
        &self,
        at_most: Duration,
        future: F,
    ) -> Option<F::Output> {
        let sleep = self.sleep_until(self.now() + at_most);
        tokio::select! {
            biased;
            output = future => Some(output),
            () = sleep => None,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock(driven)" } else { "Clock(tokio)" })
    }
}

pin_project! {
    /// Ends at its time. Nothing is allocated by tokio's clock.
    #[project = SleepProjection]
    pub(crate) enum Sleep {
        Tokio { #[pin] sleep: tokio::time::Sleep },
        Driven { sleep: BoxFuture<'static, ()> },
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.project() {
            SleepProjection::Tokio { sleep } => sleep.poll(cx),
            SleepProjection::Driven { sleep } => sleep.as_mut().poll(cx),
        }
    }
}

/// Comes due again and again, each time a period after it was last seen to be due.
pub(crate) struct Every {
    clock: Clock,
    period: Duration,
    due: Pin<Box<Sleep>>,
}

impl Every {
    pub(crate) fn new(clock: Clock, period: Duration) -> Self {
        let due = Box::pin(clock.sleep_until(clock.now() + period));
        Self { clock, period, due }
    }

    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.due.as_mut().poll(cx).map(|()| {
            self.due.set(self.clock.sleep_until(self.clock.now() + self.period));
        })
    }

    #[cfg(test)]
    async fn due(&mut self) {
        std::future::poll_fn(|cx| self.poll_due(cx)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_period_counts_from_when_it_was_seen() {
        let begun = Instant::now();
        let mut every = Every::new(Clock::default(), Duration::from_secs(5));
        every.due().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        tokio::time::sleep(Duration::from_secs(8)).await;
        every.due().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(13), "late, and not made up for");
        every.due().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(18));
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_given_up() {
        let clock = Clock::default();
        assert_eq!(clock.timeout(Duration::from_secs(1), async { 7 }).await, Some(7));
        let never = clock.timeout(Duration::from_secs(1), std::future::pending::<()>());
        assert_eq!(never.await, None);
    }
}
