//! One model for each pair of things that can happen to a partition at once. What the shell does
//! between two calls (see `runtime::intake` and `runtime::epoch`) is done here by hand.

mod budget;
mod commits;
mod intakes;
mod lanes;
mod revokes;
mod whole;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Admitted, Counts, End, Finished, Partition, Runnable};
use crate::lanes::LaneKey;
use crate::loom_support::wait;
use crate::sync;
use crate::wake::Signal;

const LANE: Option<LaneKey> = Some(LaneKey::NULL_KEY);
const NO_LANE: Option<LaneKey> = None;
/// More than any model finishes.
const WIDE: u64 = 100;

/// An epoch whose records are their own offsets, with the two signals that it raises.
struct Epoch {
    partition: Partition<u64>,
    intake: sync::Arc<Signal>,
    control: sync::Arc<Signal>,
}

impl Epoch {
    fn new(window: u64) -> Arc<Self> {
        let intake = sync::Arc::<Signal>::default();
        Self::woken_by(intake, window)
    }

    fn woken_by(intake: sync::Arc<Signal>, window: u64) -> Arc<Self> {
        let control = sync::Arc::<Signal>::default();
        let partition = Partition::new(0, Some(0), window, intake.clone(), control.clone());
        Arc::new(Self { partition, intake, control })
    }

    /// An epoch with records 0 to `count` about to run.
    fn running(count: u64) -> (Arc<Self>, Vec<Runnable<u64>>) {
        let epoch = Self::new(WIDE);
        let batch: Vec<_> = (0..count).map(|offset| (offset, NO_LANE)).collect();
        let (_, runnable) = epoch.admit(&batch);
        (epoch, runnable.into())
    }

    fn admit(&self, batch: &[(u64, Option<LaneKey>)]) -> (Admitted<u64>, VecDeque<Runnable<u64>>) {
        let mut runnable = VecDeque::new();
        let batch = batch.iter().map(|(offset, lane)| (*offset as i64, *lane, *offset));
        let admitted = self.partition.admit(batch, Duration::ZERO, &mut runnable);
        (admitted, runnable)
    }

    fn finish(&self, record: &Runnable<u64>, end: End) -> Finished<u64> {
        self.partition.finish(record.seq, record.lane, end)
    }

    fn pass(&self, record: &Runnable<u64>) -> Option<Runnable<u64>> {
        self.finish(record, End::Passed).next
    }

    /// Waits until nothing runs, as the control loop does; true if it had to.
    fn wait_until_idle(&self) -> bool {
        let mut waited = false;
        while !self.partition.is_idle() {
            waited = true;
            wait(&self.control);
        }
        waited
    }

    fn counts(&self) -> Counts {
        self.partition.view().counts
    }
}

/// G8, at rest.
fn assert_accounted(counts: Counts) {
    let Counts { received, passed, dropped, abandoned, duplicates } = counts;
    assert_eq!(received, passed + dropped + abandoned + duplicates, "{counts:?}");
}
