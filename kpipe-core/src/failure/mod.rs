//! What went wrong with a record, and what follows.

use std::any::Any;
use std::fmt;
use std::time::Duration;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why an attempt failed: any error, by `?`.
///
/// Like other catch-all error types it does not implement [`std::error::Error`] itself, so that
/// every type that does converts into it.
///
/// ```
/// use kpipe_core::Failure;
///
/// fn parse(text: &str) -> Result<u32, Failure> {
///     Ok(text.trim().parse()?)
/// }
/// assert!(parse("x").is_err());
/// assert_eq!(Failure::msg("card declined").to_string(), "card declined");
/// ```
pub struct Failure {
    kind: FailureKind,
    error: BoxError,
}

/// What kind of thing an attempt failed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The handler returned an error.
    Handler,
    /// The handler panicked (G9).
    Panic,
    /// The attempt did not end before its deadline (G3).
    Deadline,
}

impl Failure {
    /// A failure with nothing but a text.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Handler, error: message.to_string().into() }
    }

    /// What kind of thing the attempt failed of.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The error that the handler returned, or the text of a panic or deadline.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.error
    }

    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a payload that is not text".to_owned());
        Self { kind: FailureKind::Panic, error: format!("panicked: {text}").into() }
    }

    pub(crate) fn deadline(after: Duration) -> Self {
        let error = format!("not finished within the attempt deadline of {after:?}").into();
        Self { kind: FailureKind::Deadline, error }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { kind: FailureKind::Handler, error: Box::new(error) }
    }
}

/// Shows the error and what it was caused by.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("kind", &self.kind).field("error", &self.error).finish()
    }
}

/// What becomes of a record whose attempt failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum OnFailure {
    /// It stays: nothing at or beyond it is committed, the records behind it in its order wait, and
    /// it shows in the statistics until the partition moves or the consumer restarts, which
    /// delivers it again. The default, because nothing is lost by it (G1).
    #[default]
    Hold,
    /// It counts as dropped, is logged as an error, and the partition moves on. Chosen by name
    /// because the record is then gone.
    Drop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_causes() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bad amount")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let failure = Failure::from(Outer("x".parse::<i32>().unwrap_err()));
        assert_eq!(failure.to_string(), "bad amount: invalid digit found in string");
        assert!(failure.error().downcast_ref::<Outer>().is_some());
        assert_eq!(failure.kind(), FailureKind::Handler);
    }

    #[test]
    fn debug_shows_the_kind_and_the_error() {
        let failure = Failure::deadline(Duration::from_secs(7));
        assert_eq!(failure.kind(), FailureKind::Deadline);
        let shown = format!("{failure:?}");
        assert!(shown.contains("Deadline") && shown.contains("7s"), "{shown}");
    }

    #[test]
    fn a_panic_keeps_its_text() {
        for (payload, text) in [
            (Box::new("plain") as Box<dyn Any + Send>, "panicked: plain"),
            (Box::new("owned".to_owned()), "panicked: owned"),
            (Box::new(7), "panicked: a payload that is not text"),
        ] {
            let failure = Failure::panicked(&*payload);
            assert_eq!(failure.to_string(), text);
            assert_eq!(failure.kind(), FailureKind::Panic);
        }
    }
}
