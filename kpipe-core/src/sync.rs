//! The one place that chooses between the real primitives and loom's.
//!
//! Everything that more than one thread can touch imports from here, so that a loom build checks
//! the code that ships and not a copy of it.

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

#[cfg(all(not(loom), any(feature = "kafka", test)))]
pub(crate) use self::real::Condvar;

#[cfg(not(loom))]
pub(crate) use std::sync::Arc;

#[cfg(loom)]
pub(crate) use loom::sync::Arc;

#[cfg(loom)]
pub(crate) use self::checked::{Condvar, Mutex};

#[cfg(all(not(loom), any(feature = "kafka", test)))]
mod real {
    use parking_lot::MutexGuard;

    /// parking_lot's condition variable with loom's surface: waiting hands the guard back.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

#[cfg(loom)]
mod checked {
    use loom::sync::MutexGuard;

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

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            // parking_lot does not poison either; a panic under a lock fails the model anyway.
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    /// loom's condition variable, likewise.
    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}
