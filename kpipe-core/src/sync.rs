//! The one place that chooses between the real primitives and loom's.
//!
//! Everything that more than one thread can touch imports from here, so that a loom build checks
//! the code that ships and not a copy of it.

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

#[cfg(not(loom))]
pub(crate) use std::sync::Arc;

#[cfg(loom)]
pub(crate) use loom::sync::Arc;

#[cfg(loom)]
pub(crate) use self::checked::Mutex;

#[cfg(loom)]
mod checked {
    /// loom's mutex with parking_lot's surface: locking returns the guard itself.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            // parking_lot does not poison either; a panic under a lock fails the model anyway.
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}
