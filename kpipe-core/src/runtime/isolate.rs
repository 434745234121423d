//! Where user code is run, shown and dropped: whatever it does, the caller goes on (G9).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::Failure;

/// Runs user code. A panic is a failure like any other.
pub(super) fn run<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
        let failure = Failure::panicked(&*payload);
        discard(payload);
        failure
    })
}

/// Drops what is the user's.
pub(super) fn discard<T>(value: T) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) else { return };
    tracing::error!(target: "kpipe", "what is a handler's, or the handler, panicked when it was dropped");
    // A payload is the user's as well. One that panics in its turn is leaked, with what it holds.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// The text of a failure, which the user's own error writes.
pub(super) fn text_of(failure: Failure) -> String {
    let text = run(|| failure.to_string());
    discard(failure);
    text.unwrap_or_else(|panic| format!("an error that could not be shown: {panic}"))
}
