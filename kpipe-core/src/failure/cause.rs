use std::any::Any;
use std::fmt;
use std::time::Duration;

use super::FailureKind;

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
///
/// `anyhow::Error` and `Box<dyn Error + Send + Sync>` do not implement `Error` either, so `?` alone
/// does not convert them; [`Failure::new`] does, with their causes:
///
/// ```
/// use kpipe_core::{Failure, HandlerResult, Record};
///
/// # fn charge(_: &Record) -> Result<(), Box<dyn std::error::Error + Send + Sync>> { Ok(()) }
/// async fn handle(record: Record) -> HandlerResult {
///     charge(&record).map_err(Failure::new)?; // `charge` may return an `anyhow::Result`
///     Ok(())
/// }
/// ```
pub struct Failure {
    kind: FailureKind,
    error: BoxError,
}

impl Failure {
    /// A failure of any error, `anyhow::Error` and boxed ones included; what caused it is kept. Use
    /// it where `?` does not convert: `.map_err(Failure::new)?`.
    ///
    /// ```
    /// use kpipe_core::Failure;
    ///
    /// let boxed: Box<dyn std::error::Error + Send + Sync> = "card declined".into();
    /// assert_eq!(Failure::new(boxed).to_string(), "card declined");
    /// ```
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind: FailureKind::Handler, error: error.into() }
    }

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
        let boxed: BoxError = Box::new(Outer("x".parse::<i32>().unwrap_err()));
        let failure = Failure::new(boxed);
        assert_eq!(failure.to_string(), "bad amount: invalid digit found in string");
        assert!(failure.error().downcast_ref::<Outer>().is_some());
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
