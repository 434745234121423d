//! Where a pipeline under test sends to.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use kpipe_core::Failure;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Keeps what is sent to it; clones share what they keep, so one goes to the service and one stays with
/// the test.
///
/// It can be told to fail, to be slow, to hold everything back or to refuse, as the real one would on a
/// bad day. `send` returns only what really was kept: an error means that the value is not there.
///
/// ```
/// use kpipe_core::{Consumer, Record};
/// use kpipe_test::{CapturingSink, TestRecord, TestStream};
///
/// fn upper(sink: CapturingSink<String>) -> Consumer {
///     Consumer::new("upper").topic("names", move |record: Record| {
///         let sink = sink.clone();
///         async move {
///             let name = std::str::from_utf8(record.value().unwrap_or_default())?;
///             sink.send(name.to_uppercase()).await?;
///             Ok(())
///         }
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let sink = CapturingSink::new();
/// let mut stream = TestStream::new(upper(sink.clone()));
/// stream.send("names", TestRecord::new().value("ada"));
/// stream.flush().await.assert_all_finished();
/// sink.assert_eq(&["ADA".to_owned()]);
/// # }
/// ```
pub struct CapturingSink<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    state: Mutex<State<T>>,
    released: Notify,
}

struct State<T> {
    kept: Vec<T>,
    /// What the next sends come to, before they work again.
    failures: VecDeque<String>,
    refusal: Option<String>,
    delay: Duration,
    holding: bool,
    sends: usize,
}

impl<T> CapturingSink<T> {
    /// One that keeps everything at once.
    pub fn new() -> Self {
        let state = State {
            kept: Vec::new(),
            failures: VecDeque::new(),
            refusal: None,
            delay: Duration::ZERO,
            holding: false,
            sends: 0,
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), released: Notify::new() }) }
    }

    /// Lets the next `times` sends fail, as a service that is away for a moment.
    #[must_use]
    pub fn failing(self, times: usize, error: impl Into<String>) -> Self {
        let error = error.into();
        let failures = std::iter::repeat_n(error, times);
        self.inner.state.lock().failures.extend(failures);
        self
    }

    /// Lets every send fail for good, as a service that does not accept the value.
    #[must_use]
    pub fn refusing(self, error: impl Into<String>) -> Self {
        self.inner.state.lock().refusal = Some(error.into());
        self
    }

    /// Lets every send take `delay` of tokio's time: under a paused runtime it passes at once.
    #[must_use]
    pub fn slow(self, delay: Duration) -> Self {
        self.inner.state.lock().delay = delay;
        self
    }

    /// Lets sends wait until [`release`](Self::release).
    #[must_use]
    pub fn holding(self) -> Self {
        self.inner.state.lock().holding = true;
        self
    }

    /// Lets go what is held back, and holds nothing back any more.
    pub fn release(&self) {
        self.inner.state.lock().holding = false;
        self.inner.released.notify_waiters();
    }

    /// Keeps `value` once it is this sink's turn to.
    ///
    /// # Errors
    /// What [`failing`](Self::failing) or [`refusing`](Self::refusing) asked for; the value is not kept.
    ///
    /// # Cancel safety
    /// A send that is dropped before it returns has kept nothing.
    pub async fn send(&self, value: T) -> Result<(), Failure> {
        let (delay, outcome) = {
            let mut state = self.inner.state.lock();
            state.sends += 1;
            let failure = state.failures.pop_front().or_else(|| state.refusal.clone());
            (state.delay, failure)
        };
        loop {
            let released = self.inner.released.notified();
            if !self.inner.state.lock().holding {
                break;
            }
            released.await;
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        match outcome {
            Some(error) => Err(Failure::msg(error)),
            None => {
                self.inner.state.lock().kept.push(value);
                Ok(())
            }
        }
    }

    /// How many sends there were, failed ones included.
    pub fn sends(&self) -> usize {
        self.inner.state.lock().sends
    }

    /// How many values it keeps.
    pub fn len(&self) -> usize {
        self.inner.state.lock().kept.len()
    }

    /// Whether it keeps none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> CapturingSink<T> {
    /// What it keeps, in the order in which it came.
    pub fn kept(&self) -> Vec<T> {
        self.inner.state.lock().kept.clone()
    }
}

impl<T: Debug + PartialEq> CapturingSink<T> {
    /// Asserts that exactly these came, in this order.
    ///
    /// # Panics
    /// If not, with the first difference.
    #[track_caller]
    pub fn assert_eq(&self, expected: &[T]) {
        let state = self.inner.state.lock();
        if let Some(difference) = difference(&state.kept, expected) {
            panic!("the sink has not got what was expected: {difference}");
        }
    }

    /// Asserts that exactly these came, in whatever order.
    ///
    /// # Panics
    /// If not, with what is missing and what is too many.
    #[track_caller]
    pub fn assert_same(&self, expected: &[T]) {
        let state = self.inner.state.lock();
        let mut extra: Vec<&T> = state.kept.iter().collect();
        let mut missing = Vec::new();
        for value in expected {
            match extra.iter().position(|kept| *kept == value) {
                Some(at) => drop(extra.swap_remove(at)),
                None => missing.push(value),
            }
        }
        assert!(
            missing.is_empty() && extra.is_empty(),
            "the sink has not got what was expected: missing {missing:?}, and too many: {extra:?}"
        );
    }
}

fn difference<T: Debug + PartialEq>(kept: &[T], expected: &[T]) -> Option<String> {
    let at = kept.iter().zip(expected).position(|(kept, expected)| kept != expected);
    let at =
        at.or_else(|| (kept.len() != expected.len()).then(|| kept.len().min(expected.len())))?;
    let shown = |values: &[T]| match values.get(at) {
        Some(value) => format!("{value:?}"),
        None => format!("nothing more, after {}", values.len()),
    };
    Some(format!("at {at}, expected {}, got {}", shown(expected), shown(kept)))
}

impl<T> Clone for CapturingSink<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T> Default for CapturingSink<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Debug> Debug for CapturingSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturingSink")
            .field("kept", &self.inner.state.lock().kept)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_fails_as_often_as_asked_and_keeps_nothing_then() {
        let sink = CapturingSink::new().failing(2, "away");
        assert!(sink.send(1).await.is_err());
        assert!(sink.send(2).await.is_err());
        sink.send(3).await.unwrap();
        sink.assert_eq(&[3]);
        assert_eq!(sink.sends(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_one_takes_its_time_and_a_dropped_send_keeps_nothing() {
        let sink = CapturingSink::new().slow(Duration::from_secs(60));
        let begun = tokio::time::Instant::now();
        sink.send("a").await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(60));
        assert!(sink.send("b").now_or_never().is_none());
        sink.assert_eq(&["a"]);
    }

    #[tokio::test]
    async fn what_is_held_back_comes_with_the_release() {
        let sink = CapturingSink::new().holding();
        let mut send = Box::pin(sink.send(7));
        assert!((&mut send).now_or_never().is_none());
        assert!(sink.is_empty());
        sink.release();
        send.await.unwrap();
        sink.assert_same(&[7]);
    }

    #[test]
    fn differences_name_the_place_and_both_values() {
        assert_eq!(difference(&[1, 2], &[1, 2]), None);
        let at = |kept: &[i32], expected: &[i32]| difference(kept, expected).unwrap();
        assert_eq!(at(&[1, 3], &[1, 2]), "at 1, expected 2, got 3");
        assert_eq!(at(&[1], &[1, 2]), "at 1, expected 2, got nothing more, after 1");
        assert_eq!(at(&[1, 2], &[1]), "at 1, expected nothing more, after 1, got 2");
    }
}
