mod ages;
mod cases;
mod naive;
mod properties;

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{
    Admitted, Claim, Closing, Counts, Draw, End, Finished, HeldRecord, Partition, Runnable,
};
use crate::frontier::Seq;
use crate::lanes::LaneKey;
use crate::sync::Arc;
use crate::wake::{Reasons, Signal};

/// An epoch whose records are their own offsets.
struct Epoch {
    partition: Partition<i64>,
    intake: Arc<Signal>,
    control: Arc<Signal>,
}

impl Epoch {
    fn new(start: i64, committed: Option<i64>, window: u64) -> Self {
        let (intake, control) = <(Arc<Signal>, Arc<Signal>)>::default();
        let partition = Partition::new(start, committed, window, intake.clone(), control.clone());
        Self { partition, intake, control }
    }

    /// Admits records at these offsets and lanes, `now` milliseconds into the epoch.
    fn admit_at(
        &self,
        now: u64,
        batch: &[(i64, Option<LaneKey>)],
    ) -> (Admitted<i64>, VecDeque<Runnable<i64>>) {
        let mut runnable = VecDeque::new();
        let batch = batch.iter().map(|(offset, lane)| (*offset, *lane, *offset));
        let admitted = self.partition.admit(batch, Duration::from_millis(now), &mut runnable);
        (admitted, runnable)
    }

    /// Admits records without a lane.
    fn admit(&self, offsets: impl IntoIterator<Item = i64>) -> VecDeque<Runnable<i64>> {
        let batch: Vec<_> = offsets.into_iter().map(|offset| (offset, None)).collect();
        self.admit_at(0, &batch).1
    }

    fn finish(&self, record: &Runnable<i64>, end: End) -> Finished<i64> {
        self.partition.finish(record.seq, record.lane, end)
    }

    fn counts(&self) -> Counts {
        self.partition.view().counts
    }
}

/// Takes what was raised.
fn raised(signal: &Signal) -> Reasons {
    match signal.poll_take(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reasons) => reasons,
        Poll::Pending => Reasons::default(),
    }
}

fn lane(number: u64) -> LaneKey {
    LaneKey::of_value(&number)
}

/// G8, at rest.
fn assert_accounted(counts: Counts) {
    let Counts { received, passed, dropped, abandoned, duplicates } = counts;
    assert_eq!(received, passed + dropped + abandoned + duplicates, "{counts:?}");
}
