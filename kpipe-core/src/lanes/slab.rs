//! The queues of all lanes in one allocation.

use crate::shrink;

/// No slot.
const NIL: u32 = u32::MAX;

/// What waits behind one lane: a list through the slab, first to last.
#[derive(Debug)]
pub(super) struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self { first: NIL, last: NIL };

    /// Something to order queues by that does not depend on their keys.
    pub(super) fn place(&self) -> u32 {
        self.first
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The slots of all queues, and a list of the free ones.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The first free slot; each names the next one.
    free: u32,
    taken: usize,
}

/// For a `T` with a spare bit pattern, as every type that owns something has, the option is free.
#[derive(Debug)]
struct Slot<T> {
    item: Option<T>,
    /// The next slot of the same queue, or of the free list.
    next: u32,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: NIL, taken: 0 }
    }

    /// How many items wait in all queues.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// Appends an item to a queue of this slab.
    #[inline]
    pub(super) fn push(&mut self, queue: &mut Queue, item: T) {
        let slot = self.take_slot(item);
        match queue.last {
            NIL => queue.first = slot,
            last => self.slots[last as usize].next = slot,
        }
        queue.last = slot;
        self.taken += 1;
    }

    /// Takes the first item of a queue of this slab.
    #[inline]
    pub(super) fn pop(&mut self, queue: &mut Queue) -> Option<T> {
        if queue.first == NIL {
            return None;
        }
        let at = queue.first;
        let slot = &mut self.slots[at as usize];
        let item = slot.item.take();
        queue.first = std::mem::replace(&mut slot.next, self.free);
        self.free = at;
        if queue.first == NIL {
            queue.last = NIL;
        }
        self.taken -= 1;
        if self.taken == 0 {
            self.reset();
        }
        item
    }

    #[inline]
    fn take_slot(&mut self, item: T) -> u32 {
        let taken = Slot { item: Some(item), next: NIL };
        if self.free == NIL {
            return self.append(taken);
        }
        let at = self.free;
        let slot = &mut self.slots[at as usize];
        self.free = slot.next;
        *slot = taken;
        at
    }

    #[inline]
    fn append(&mut self, slot: Slot<T>) -> u32 {
        let at = self.slots.len();
        // Records in hand are limited to millions long before.
        assert!(at < NIL as usize, "more than 4 billion records wait in one partition");
        self.slots.push(slot);
        at as u32
    }

    /// With nobody waiting: starts over from the first slot, which keeps the next spell close
    /// together, and gives memory back that this spell did not need by far.
    #[inline]
    fn reset(&mut self) {
        let peak = self.slots.len();
        self.slots.clear();
        self.free = NIL;
        if let Some(capacity) = shrink::target(peak, self.slots.capacity()) {
            self.slots.shrink_to(capacity);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>()
    }
}
