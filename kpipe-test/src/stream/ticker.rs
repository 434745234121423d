//! Real time for a test whose runtime may have none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

/// How often it ticks.
const TICK: Duration = Duration::from_micros(500);

/// Ticks on a thread of its own. tokio's timers cannot be used to look at handlers that wait: under a
/// paused runtime that is idle they come due at once, and pass the time of the handlers' own.
pub(super) struct Ticker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tick: Notify,
    over: AtomicBool,
}

impl Ticker {
    pub(super) fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let ticking = shared.clone();
        thread::spawn(move || {
            while !ticking.over.load(Relaxed) {
                thread::sleep(TICK);
                ticking.tick.notify_one();
            }
        });
        Self { shared }
    }

    /// Waits for the next tick. Cancel safe.
    pub(super) async fn tick(&self) {
        self.shared.tick.notified().await;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
    }
}
