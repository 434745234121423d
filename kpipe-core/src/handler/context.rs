use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// What a handler may want to know of the attempt that it runs in. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    scope: Arc<Scope>,
    attempt: u32,
    deadline: Option<Instant>,
}

/// What all attempts of one assignment of one partition have in common.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) group_id: Arc<str>,
    /// Cancelled when the partition's attempts are to end: one token for all of them, because a
    /// token each costs more than a whole record does.
    pub(crate) cancelled: CancellationToken,
}

impl Context {
    pub(crate) fn new(scope: Arc<Scope>, attempt: u32, deadline: Option<Instant>) -> Self {
        Self { scope, attempt, deadline }
    }

    /// A context that belongs to no consumer, to call a handler from a unit test: attempt 1, no
    /// deadline, never cancelled, and the group `detached`.
    ///
    /// ```
    /// use kpipe_core::{Context, HandlerResult, Record};
    ///
    /// async fn charge(record: Record, context: Context) -> HandlerResult {
    ///     assert!(context.attempt() > 1 || record.value().is_some());
    ///     Ok(())
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let record = Record::builder("payments", 0, 7).value("10").build();
    /// charge(record.clone(), Context::detached()).await?;
    /// charge(record, Context::detached().with_attempt(3)).await?;
    /// # Ok::<(), kpipe_core::Failure>(())
    /// # }).unwrap();
    /// ```
    pub fn detached() -> Self {
        let scope = Scope { group_id: "detached".into(), cancelled: CancellationToken::new() };
        Self::new(Arc::new(scope), 1, None)
    }

    /// The same context as of another attempt, counted from 1.
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The same context with another deadline. It is what [`deadline`](Self::deadline) returns and
    /// ends nothing.
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Which attempt at the record this is in this process, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When the attempt is ended if it has not ended by itself (G3); `None` if deadlines are off.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The consumer group's id.
    pub fn group_id(&self) -> &str {
        &self.scope.group_id
    }

    /// Whether the attempt's result will no longer count: its partition was taken away and the time
    /// to drain is over, or the consumer's time to shut down is.
    pub fn is_cancelled(&self) -> bool {
        self.scope.cancelled.is_cancelled()
    }

    /// Waits until [`is_cancelled`](Self::is_cancelled). The attempt's future is polled once more
    /// after that and then dropped. Cancel safe.
    pub async fn cancelled(&self) {
        self.scope.cancelled.cancelled().await;
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("attempt", &self.attempt)
            .field("deadline", &self.deadline)
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
