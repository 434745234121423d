//! Why a consumer does not start, or ends.

use std::fmt;

/// Why a consumer does not start, or ends. Match on [`kind`](Self::kind); the text is for people.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What an [`Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is out of range or contradicts another; the message names the field, its value and
    /// what is accepted.
    Config,
    /// No broker answered in time.
    Unreachable,
    /// The brokers refused the credentials, or this principal may not do this.
    Unauthorized,
    /// A topic does not exist.
    UnknownTopic,
    /// The client failed in a way that it cannot go on from.
    Client,
    /// There is no tokio runtime to run handlers on, or it has no timers.
    NoRuntime,
}

impl Error {
    /// For a source of one's own ([`Connect`](crate::source::Connect)).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// A setting that is refused: `field = value: accepted`.
    pub(crate) fn config(
        field: &str,
        value: impl fmt::Display,
        accepted: impl fmt::Display,
    ) -> Self {
        Self::new(ErrorKind::Config, format!("{field} = {value}: {accepted}"))
    }

    /// What the error is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
