//! From registration sequences to offsets, with an entry only where the offsets jump.

use std::collections::VecDeque;

use crate::shrink;

/// From sequence `seq` on, the offset is `offset + (sequence - seq)`, until the next break.
#[derive(Clone, Copy, Debug)]
struct Break {
    seq: u64,
    offset: i64,
}

impl Break {
    #[inline]
    fn offset_of(self, seq: u64) -> i64 {
        // The distance is a number of records that lie at distinct offsets: it fits.
        self.offset + (seq - self.seq) as i64
    }
}

/// The breaks from the head of the window on.
///
/// The one that rules the head is held inline: a log without gaps never allocates, and the offset
/// to commit is one addition.
#[derive(Debug)]
pub(super) struct Breaks {
    head: Break,
    /// Those above the head, ascending.
    later: VecDeque<Break>,
}

impl Breaks {
    pub(super) fn new(start: i64) -> Self {
        Self { head: Break { seq: 0, offset: start }, later: VecDeque::new() }
    }

    /// Notes that `seq`, above all sequences so far, lies at `offset`; `head` is the window's head.
    pub(super) fn add(&mut self, seq: u64, offset: i64, head: u64) {
        self.later.push_back(Break { seq, offset });
        // With nothing unfinished, this break rules the head at once.
        self.pass(head);
    }

    /// Drops what only concerns sequences below `head`.
    #[inline]
    pub(super) fn pass(&mut self, head: u64) {
        if self.later.front().is_some_and(|next| next.seq <= head) {
            self.drop_passed(head);
        }
    }

    fn drop_passed(&mut self, head: u64) {
        while let Some(&next) = self.later.front()
            && next.seq <= head
        {
            self.head = next;
            self.later.pop_front();
        }
        if let Some(capacity) = shrink::target(self.later.len(), self.later.capacity()) {
            self.later.shrink_to(capacity);
        }
    }

    /// The offset of the window's head, or of the record to come when the window is empty.
    #[inline]
    pub(super) fn head_offset(&self, head: u64) -> i64 {
        self.head.offset_of(head)
    }

    /// The offset of any sequence from the window's head on.
    pub(super) fn offset_of(&self, seq: u64) -> i64 {
        let above = self.later.partition_point(|next| next.seq <= seq);
        let ruling = above.checked_sub(1).map_or(self.head, |at| self.later[at]);
        ruling.offset_of(seq)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn heap_bytes(&self) -> usize {
        self.later.capacity() * size_of::<Break>()
    }
}
