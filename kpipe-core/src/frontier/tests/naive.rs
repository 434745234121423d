use std::collections::BTreeSet;

use super::{Seq, Tracker};

/// The frontier by its definition: every offset by sequence, and the set of the unfinished.
#[derive(Debug)]
pub(super) struct Naive {
    start: i64,
    offsets: Vec<i64>,
    unfinished: BTreeSet<u64>,
}

impl Naive {
    fn end(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// The first of the longest run of unfinished records from the first one at or above `from` on,
    /// and how many they are.
    pub(super) fn unfinished_from(&self, from: u64) -> Option<(u64, u64)> {
        let first = *self.unfinished.range(from..).next()?;
        let run = self.unfinished.range(first..).zip(first..).take_while(|(seq, at)| *seq == at);
        Some((first, run.count() as u64))
    }

    pub(super) fn head(&self) -> u64 {
        self.unfinished.first().copied().unwrap_or(self.end())
    }

    fn offset(&self, seq: u64) -> i64 {
        self.offsets[seq as usize]
    }
}

impl Tracker for Naive {
    fn new(start: i64) -> Self {
        Self { start, offsets: Vec::new(), unfinished: BTreeSet::new() }
    }

    fn register(&mut self, offset: i64) -> Option<Seq> {
        if offset < self.next_expected() {
            return None;
        }
        let seq = self.end();
        self.offsets.push(offset);
        self.unfinished.insert(seq);
        Some(Seq(seq))
    }

    fn try_complete(&mut self, seq: Seq) -> Option<bool> {
        self.try_complete_run(seq, 1)
    }

    fn try_complete_run(&mut self, Seq(first): Seq, count: u64) -> Option<bool> {
        if !(first..=self.end()).contains(&first.checked_add(count)?)
            || first < self.head()
            || !(first..first + count).all(|seq| self.unfinished.contains(&seq))
        {
            return None;
        }
        let before = self.next_offset();
        for seq in first..first + count {
            self.unfinished.remove(&seq);
        }
        Some(self.next_offset() > before)
    }

    fn next_offset(&self) -> i64 {
        match self.unfinished.first() {
            Some(seq) => self.offset(*seq),
            None => self.next_expected(),
        }
    }

    fn next_expected(&self) -> i64 {
        self.offsets.last().map_or(self.start, |last| last + 1)
    }

    fn unfinished(&self) -> u64 {
        self.unfinished.len() as u64
    }

    fn finished_beyond(&self) -> u64 {
        self.window() - self.unfinished()
    }

    fn window(&self) -> u64 {
        self.end() - self.head()
    }

    fn oldest_unfinished(&self) -> Option<(Seq, i64)> {
        self.unfinished.first().map(|seq| (Seq(*seq), self.offset(*seq)))
    }

    fn offset_of(&self, Seq(seq): Seq) -> Option<i64> {
        (self.head()..self.end()).contains(&seq).then(|| self.offset(seq))
    }

    fn runs(&self) -> Vec<(i64, i64)> {
        // Between each unfinished record and the next one, or the end, all are finished.
        let next = self.unfinished.iter().skip(1).copied().chain([self.end()]);
        let between = self.unfinished.iter().map(|seq| seq + 1).zip(next);
        let finished = between.filter(|(first, end)| first < end);
        finished.map(|(first, end)| (self.offset(first), self.offset(end - 1) + 1)).collect()
    }
}
