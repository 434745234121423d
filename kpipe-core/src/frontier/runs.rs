//! What is finished beyond the frontier, for the offset map of a commit (G6).

use std::ops::Range;

use super::Frontier;

impl Frontier {
    /// The offsets that are finished beyond the frontier, as ascending ranges that lie apart: a
    /// range for each run of records finished without an unfinished one among them, gaps included.
    ///
    /// Each step costs the words of the bitmap between two changes, and one look for 4,096 records
    /// all finished or all not: a window of 1,000,000 behind one stuck record is 250 looks.
    pub(crate) fn finished_runs(&self) -> FinishedRuns<'_> {
        FinishedRuns { frontier: self, from: self.head }
    }
}

/// The ranges of [`Frontier::finished_runs`].
#[derive(Debug)]
pub(crate) struct FinishedRuns<'a> {
    frontier: &'a Frontier,
    from: u64,
}

impl Iterator for FinishedRuns<'_> {
    type Item = Range<i64>;

    fn next(&mut self) -> Option<Range<i64>> {
        let Frontier { finished, breaks, .. } = self.frontier;
        let first = finished.find(self.from, true)?;
        let end = finished.first_unset(first);
        self.from = end;
        Some(breaks.offset_of(first)..breaks.offset_of(end - 1) + 1)
    }
}
