//! The commit frontier of one partition epoch: which offset may be committed while records finish
//! in any order (G1), and which records beyond it are finished already (G6).
//!
//! # Why by registration sequence
//!
//! Offsets have gaps: transaction markers, aborted transactions and compaction take some away, now
//! and then by the million. A structure over offsets would pay for offsets that never held a record
//! and could wait for one that never comes. So each record gets the next [`Seq`] when it is
//! registered, "finished" is a bit per sequence, and where the offsets jump one [`breaks`] entry
//! translates from there on. A jump of 10^9 costs the same entry as a jump of 2.
//!
//! # Why implicit below the head
//!
//! The head is the first unfinished sequence. Everything below it is finished by definition, so a
//! record that finishes in order only moves the head: no bit is set, no chunk is allocated, and a
//! partition whose handlers are quick never touches the [`bitmap`]. A bit is set only for a record
//! that overtook another; the head skips those bits a word or a chunk at a time, each of them once
//! in its life, which makes a completion constant time, amortised.
//!
//! # What an offset beyond the frontier claims
//!
//! `Frontier::finished_runs` says "from here to there, nothing is left to do". A gap between two
//! finished neighbours belongs to their run: the committed offset passes gaps in the same way, and
//! a log full of transaction markers would otherwise break the runs into single records.
//!
//! It is a state machine: no clock, no lock, no I/O. The owner keeps it under the mutex of its
//! partition epoch, so that a commit reads offset and runs from one instant (R14).

mod bitmap;
mod breaks;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(any(test, feature = "rooms"))]
mod runs;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cmp::Ordering;

use self::bitmap::Bitmap;
use self::breaks::Breaks;

/// The place of a record in the order of registration of its partition epoch, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seq(u64);

impl Seq {
    /// The sequence `count` registrations later. Records registered in one go have consecutive
    /// sequences, whatever their offsets.
    #[inline]
    pub(crate) fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

/// Which records of a partition are registered, which are finished, and what follows for a commit.
///
/// Memory: nothing for what is finished in order, one bit for each record finished out of order
/// (from the first unfinished one on), 16 bytes for each gap among them.
#[derive(Debug)]
pub(crate) struct Frontier {
    /// The first unfinished sequence; `next` when there is none. All below is finished.
    head: u64,
    /// The sequence the next registration gets.
    next: u64,
    /// How many sequences above `head` are finished: the bits set in `finished` from `head` on.
    beyond: u64,
    next_expected: i64,
    finished: Bitmap,
    breaks: Breaks,
}

impl Frontier {
    /// A frontier that expects `start` first and accepts nothing below it.
    pub(crate) fn new(start: i64) -> Self {
        Self {
            head: 0,
            next: 0,
            beyond: 0,
            next_expected: start,
            finished: Bitmap::new(),
            breaks: Breaks::new(start),
        }
    }

    /// Takes in the record at `offset`, before anything else may see it. `None` means it was
    /// registered before, or lies below the start: a duplicate, not to be handled. Offsets are below
    /// `i64::MAX`, because the end of a log is an offset too.
    ///
    /// A gap before the record is no event of its own: with nothing unfinished,
    /// [`next_offset`](Self::next_offset) moves over it with the registration.
    #[inline]
    pub(crate) fn register(&mut self, offset: i64) -> Option<Seq> {
        match offset.cmp(&self.next_expected) {
            Ordering::Equal => {}
            Ordering::Greater => self.breaks.add(self.next, offset, self.head),
            Ordering::Less => return None,
        }
        let seq = Seq(self.next);
        self.next += 1;
        self.next_expected = offset + 1;
        Some(seq)
    }

    /// Marks one record finished; true if [`next_offset`](Self::next_offset) moved.
    ///
    /// A sequence that is unknown or finished already is the caller's bug: it fails a debug build
    /// and changes nothing in a release build, where a wrong commit would be the worse answer.
    #[inline]
    pub(crate) fn complete(&mut self, seq: Seq) -> bool {
        let moved = self.try_complete(seq);
        debug_assert!(moved.is_some(), "{seq:?} completed twice or never registered: {self:?}");
        moved.unwrap_or(false)
    }

    /// Marks `count` records finished, from `first` on in the order of registration; true if
    /// [`next_offset`](Self::next_offset) moved. All or none: see [`complete`](Self::complete) for
    /// what happens when one of them is unknown or finished already.
    #[inline]
    pub(crate) fn complete_run(&mut self, first: Seq, count: u64) -> bool {
        let moved = self.try_complete_run(first, count);
        debug_assert!(
            moved.is_some(),
            "{count} from {first:?} completed twice or never registered: {self:?}"
        );
        moved.unwrap_or(false)
    }

    #[inline]
    fn try_complete(&mut self, Seq(seq): Seq) -> Option<bool> {
        if seq < self.head || seq >= self.next {
            return None;
        }
        if seq == self.head {
            self.advance(seq + 1);
            return Some(true);
        }
        self.finished.set(seq).then(|| {
            self.beyond += 1;
            false
        })
    }

    fn try_complete_run(&mut self, Seq(first): Seq, count: u64) -> Option<bool> {
        let end = first.checked_add(count)?;
        if first < self.head || end > self.next {
            return None;
        }
        if self.finished.any_set(first..end) {
            return None;
        }
        if count == 0 {
            return Some(false);
        }
        if first == self.head {
            self.advance(end);
            return Some(true);
        }
        self.finished.set_all(first..end);
        self.beyond += count;
        Some(false)
    }

    /// Moves the head to `head`, then over what finished before its turn.
    #[inline]
    fn advance(&mut self, mut head: u64) {
        if self.beyond > 0 {
            let end = self.finished.first_unset(head);
            self.beyond -= end - head;
            head = end;
        }
        self.head = head;
        self.finished.forget_below(head);
        self.breaks.pass(head);
    }

    /// The offset to commit: that of the first unfinished record; one past the last registered
    /// record when all are finished; the start while nothing was registered.
    #[inline]
    pub(crate) fn next_offset(&self) -> i64 {
        // With all finished, `head` stands for the record after the last one.
        self.breaks.head_offset(self.head)
    }

    /// The lowest offset that [`register`](Self::register) accepts.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn next_expected(&self) -> i64 {
        self.next_expected
    }

    /// How many registered records are not finished.
    #[inline]
    pub(crate) fn unfinished(&self) -> u64 {
        self.window() - self.beyond
    }

    /// How many records are finished behind the first unfinished one: what a crash would redo
    /// without the offset map.
    #[inline]
    pub(crate) fn finished_beyond(&self) -> u64 {
        self.beyond
    }

    /// How many records lie between the first unfinished and the last registered one, both
    /// included.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        self.next - self.head
    }

    /// The record that holds the frontier, and its offset.
    #[inline]
    pub(crate) fn oldest_unfinished(&self) -> Option<(Seq, i64)> {
        (self.head < self.next).then(|| (Seq(self.head), self.next_offset()))
    }

    /// The offset of a record in the window; `None` below the head and for what was never
    /// registered. Takes a binary search over the gaps in the window.
    pub(crate) fn offset_of(&self, Seq(seq): Seq) -> Option<i64> {
        (self.head..self.next).contains(&seq).then(|| self.breaks.offset_of(seq))
    }
}
