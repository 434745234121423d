//! The log of one partition.

use std::collections::VecDeque;

use kpipe_core::Record;

/// Records by offset, with holes: what a transaction's marker or compaction leaves costs nothing.
#[derive(Debug, Default)]
pub(super) struct Log {
    start: i64,
    end: i64,
    records: VecDeque<Record>,
    /// Where the log was cut, each time; their number is the leader's epoch.
    cuts: Vec<i64>,
}

impl Log {
    /// The first offset that the log has not given up.
    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// The offset of the next record.
    pub(super) fn end(&self) -> i64 {
        self.end
    }

    /// Whether a fetch may ask for this offset.
    pub(super) fn contains(&self, offset: i64) -> bool {
        (self.start..=self.end).contains(&offset)
    }

    /// Counts how often the log lost its end.
    pub(super) fn epoch(&self) -> usize {
        self.cuts.len()
    }

    /// Whether what lay before this offset in an epoch is not all there any more.
    pub(super) fn is_cut_below(&self, offset: i64, epoch: usize) -> bool {
        self.cuts.iter().skip(epoch).any(|cut| *cut < offset)
    }

    pub(super) fn last_offset(&self) -> Option<i64> {
        self.records.back().map(Record::offset)
    }

    pub(super) fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }

    /// Those from this offset on.
    pub(super) fn from(&self, offset: i64) -> impl Iterator<Item = &Record> {
        self.records.range(self.index(offset)..)
    }

    /// The last of those below this offset, at most so many, in their order.
    pub(super) fn before(
        &self,
        offset: i64,
        count: usize,
    ) -> impl DoubleEndedIterator<Item = &Record> {
        let index = self.index(offset);
        self.records.range(index.saturating_sub(count)..index)
    }

    /// Its offset is the log's end.
    pub(super) fn append(&mut self, record: Record) {
        debug_assert_eq!(record.offset(), self.end);
        self.end += 1;
        self.records.push_back(record);
    }

    /// Leaves offsets without a record.
    pub(super) fn skip(&mut self, offsets: i64) {
        self.end = self.end.saturating_add(offsets.max(0));
    }

    /// Removes one record and leaves its offset; false if there is none.
    pub(super) fn remove(&mut self, offset: i64) -> bool {
        let index = self.index(offset);
        let there = self.records.get(index).is_some_and(|record| record.offset() == offset);
        if there {
            self.records.remove(index);
        }
        there
    }

    /// Gives up everything below this offset, at most up to the end.
    pub(super) fn truncate_before(&mut self, offset: i64) {
        self.start = offset.clamp(self.start, self.end);
        let index = self.index(self.start);
        self.records.drain(..index);
    }

    /// Forgets everything from this offset on, at most from the start.
    pub(super) fn cut(&mut self, offset: i64) {
        self.end = offset.clamp(self.start, self.end);
        let index = self.index(self.end);
        self.records.truncate(index);
        self.cuts.push(self.end);
    }

    fn index(&self, offset: i64) -> usize {
        // Without holes the index can be told without a search.
        if let Some(first) = self.records.front() {
            let guess = offset.saturating_sub(first.offset());
            let found = usize::try_from(guess).ok().and_then(|guess| self.records.get(guess));
            if found.is_some_and(|record| record.offset() == offset) {
                return guess as usize;
            }
        }
        self.records.partition_point(|record| record.offset() < offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let mut log = Log::default();
        for skip in [0, 0, 3, 0, 1_000_000_000, 0] {
            log.skip(skip);
            log.append(Record::builder("t", 0, log.end()).build());
        }
        log.skip(1);
        log
    }

    fn offsets<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<i64> {
        records.map(Record::offset).collect()
    }

    #[test]
    fn holes_cost_nothing_and_reading_goes_over_them() {
        let log = log();
        assert_eq!(offsets(log.records()), [0, 1, 5, 6, 1_000_000_007, 1_000_000_008]);
        assert_eq!(log.end(), 1_000_000_010, "the last offset is one without a record");
        assert_eq!(offsets(log.from(2)), [5, 6, 1_000_000_007, 1_000_000_008]);
        assert_eq!(offsets(log.from(6)), [6, 1_000_000_007, 1_000_000_008]);
        assert!(offsets(log.from(2_000_000_000)).is_empty());
        assert_eq!(offsets(log.before(7, 2)), [5, 6]);
        assert_eq!(offsets(log.before(1, 9)), [0]);
    }

    #[test]
    fn both_ends_can_be_cut_off() {
        let mut log = log();
        log.truncate_before(4);
        assert_eq!((log.start(), offsets(log.from(0))[0]), (4, 5));
        log.truncate_before(2);
        assert_eq!(log.start(), 4, "never back");
        assert!(log.remove(6) && !log.remove(6));
        log.cut(1_000_000_008);
        assert_eq!(offsets(log.records()), [5, 1_000_000_007]);
        assert_eq!(log.end(), 1_000_000_008);
        log.truncate_before(i64::MAX);
        assert_eq!((log.start(), log.last_offset()), (1_000_000_008, None));
        assert!(log.contains(1_000_000_008) && !log.contains(1_000_000_009));
        log.append(Record::builder("t", 0, 1_000_000_008).build());
    }
}
