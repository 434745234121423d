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
