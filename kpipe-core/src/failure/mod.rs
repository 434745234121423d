//! What went wrong with a record, and what follows.

#[cfg(not(loom))]
mod cause;
mod failed;
#[cfg(not(loom))]
mod policy;

#[cfg(not(loom))]
pub use self::cause::Failure;
pub(crate) use self::failed::Failed;
#[cfg(not(loom))]
pub use self::policy::OnFailure;

/// What kind of thing an attempt failed of; see [`FailedRecord::kind`](crate::FailedRecord::kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The handler returned an error.
    Handler,
    /// The handler, or the function given to `key_by`, panicked (G9).
    Panic,
    /// The attempt did not end before its deadline (G3).
    Deadline,
}

impl FailureKind {
    /// As it stands in log lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Panic => "panic",
            Self::Deadline => "deadline",
        }
    }
}
