//! The handler that every consumer here is given.

use crate::ledger::Ledger;
use crate::work::Work;

/// Reads a record, does the run's work, and signs for it.
#[derive(Debug)]
pub struct Handler<W> {
    /// Where it signs.
    pub ledger: Ledger,
    /// What it does.
    pub work: W,
}

impl<W: Work> Handler<W> {
    /// Handles a record.
    pub async fn handle(&self, partition: i32, value: Option<&[u8]>) {
        let started = self.ledger.start(value.unwrap_or_default(), W::MEASURED);
        self.work.wait().await;
        self.ledger.end(partition, started);
    }
}
