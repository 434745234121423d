use super::FailureKind;
use crate::record::KeyHead;

/// What is remembered of a record that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) kind: FailureKind,
    pub(crate) key: KeyHead,
    pub(crate) error: String,
}

#[cfg(test)]
impl From<&str> for Box<Failed> {
    fn from(error: &str) -> Self {
        let error = error.to_owned();
        Self::new(Failed { kind: FailureKind::Handler, key: KeyHead::of(None), error })
    }
}
