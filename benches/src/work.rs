//! What a handler does besides reading its record. Each kind is a type of its own, so that a handler
//! that does nothing does not carry the future of one that sleeps.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::timer::Timer;

/// From here on handlers sleep on tokio's timer; below, its millisecond tick is too coarse.
pub const TOKIO_FROM: Duration = Duration::from_millis(5);

/// What a handler waits for.
pub trait Work: Send + Sync {
    /// Whether every handler's time is measured, or one in 1,024: two readings of the clock are a
    /// good part of a handler that does nothing.
    const MEASURED: bool;

    /// One record's share.
    fn wait(&self) -> impl Future<Output = ()> + Send;
}

impl<W: Work> Work for &W {
    const MEASURED: bool = W::MEASURED;

    fn wait(&self) -> impl Future<Output = ()> + Send {
        W::wait(self)
    }
}

/// Nothing: ready at the first poll.
#[derive(Debug)]
pub struct Nothing;

impl Work for Nothing {
    const MEASURED: bool = false;

    fn wait(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// Pending once, woken at once.
#[derive(Debug)]
pub struct PendOnce;

impl Work for PendOnce {
    const MEASURED: bool = false;

    fn wait(&self) -> impl Future<Output = ()> + Send {
        Once { polled: false }
    }
}

struct Once {
    polled: bool,
}

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.polled {
            return Poll::Ready(());
        }
        self.polled = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A wait below [`TOKIO_FROM`].
#[derive(Debug)]
pub struct ShortWait {
    timer: Timer,
    work: Duration,
}

impl ShortWait {
    /// Starts the timer that they all share.
    pub fn new(work: Duration) -> Self {
        Self { timer: Timer::start(), work }
    }
}

impl Work for ShortWait {
    const MEASURED: bool = true;

    fn wait(&self) -> impl Future<Output = ()> + Send {
        self.timer.sleep(self.work)
    }
}

/// A wait from [`TOKIO_FROM`] up.
#[derive(Debug)]
pub struct Sleep(pub Duration);

impl Work for Sleep {
    const MEASURED: bool = true;

    fn wait(&self) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(self.0)
    }
}
