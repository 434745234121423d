//! Bits over an ever-growing index, of which only a moving window is held.

use std::collections::VecDeque;
use std::ops::Range;

use crate::shrink;

/// Bits in a chunk: large enough that a window of a million is some 250 entries to skip, small
/// enough (512 bytes) that a lone straggler does not pin much.
pub(super) const CHUNK: u64 = 4096;

const WORDS: usize = CHUNK as usize / 64;
type Words = [u64; WORDS];

/// The bits from `base` on. What was never set costs nothing, neither do 4,096 bits that are all
/// set; the words exist only in between.
#[derive(Debug)]
pub(super) struct Bitmap {
    /// The index of the first chunk's first bit, a multiple of [`CHUNK`].
    base: u64,
    /// Grows with the highest bit that is set: bits past the last chunk are clear.
    chunks: VecDeque<Chunk>,
    /// The words of the last chunk that filled up or was passed, for the next one that starts: a
    /// partition that moves along at a steady width never allocates.
    spare: Option<Box<Words>>,
    /// Chunks and words looked at by searches: what tests hold against "constant time".
    #[cfg(all(test, not(loom)))]
    pub(super) looked: std::cell::Cell<u64>,
}

#[derive(Debug)]
enum Chunk {
    Empty,
    Part { words: Box<Words>, set: u16 },
    Full,
}

impl Bitmap {
    pub(super) fn new() -> Self {
        Self {
            base: 0,
            chunks: VecDeque::new(),
            spare: None,
            #[cfg(all(test, not(loom)))]
            looked: std::cell::Cell::new(0),
        }
    }

    /// Sets one bit at or above the base; false if it was set.
    #[inline]
    pub(super) fn set(&mut self, index: u64) -> bool {
        let (at, bit) = self.locate(index);
        let mask = 1 << (bit % 64);
        match self.chunks.get_mut(at) {
            Some(Chunk::Part { words, set }) => {
                let word = &mut words[bit / 64];
                if *word & mask != 0 {
                    return false;
                }
                *word |= mask;
                *set += 1;
                if u64::from(*set) == CHUNK {
                    self.fill(at);
                }
                true
            }
            Some(Chunk::Full) => false,
            Some(Chunk::Empty) | None => {
                self.start(at, bit..bit + 1);
                true
            }
        }
    }

    /// Sets a range of bits at or above the base, all of them clear before.
    pub(super) fn set_all(&mut self, range: Range<u64>) {
        for (at, bits) in self.split(range) {
            match self.chunks.get_mut(at) {
                Some(Chunk::Part { words, set }) => {
                    for (word, mask) in masks(&bits) {
                        debug_assert_eq!(words[word] & mask, 0, "set before");
                        words[word] |= mask;
                    }
                    *set += bits.len() as u16;
                    if u64::from(*set) == CHUNK {
                        self.fill(at);
                    }
                }
                Some(Chunk::Full) => debug_assert!(false, "set before"),
                Some(Chunk::Empty) | None => self.start(at, bits),
            }
        }
    }

    /// Whether any bit of a range at or above the base is set.
    pub(super) fn any_set(&self, range: Range<u64>) -> bool {
        self.split(range).any(|(at, bits)| match self.chunks.get(at) {
            Some(Chunk::Part { words, .. }) => masks(&bits).any(|(w, mask)| words[w] & mask != 0),
            Some(Chunk::Full) => true,
            Some(Chunk::Empty) | None => false,
        })
    }

    /// The first clear bit at or above `from`.
    pub(super) fn first_unset(&self, from: u64) -> u64 {
        let end = self.base + self.chunks.len() as u64 * CHUNK;
        self.find(from, false).unwrap_or(end.max(from))
    }

    /// Says that no bit below `index` is needed any more.
    #[inline]
    pub(super) fn forget_below(&mut self, index: u64) {
        if index - self.base >= CHUNK {
            self.drop_chunks((index - self.base) / CHUNK);
        }
    }

    fn drop_chunks(&mut self, count: u64) {
        self.base += count * CHUNK;
        for _ in 0..count {
            match self.chunks.pop_front() {
                Some(Chunk::Part { words, .. }) => self.spare = Some(words),
                Some(Chunk::Empty | Chunk::Full) => {}
                None => break,
            }
        }
        if let Some(capacity) = shrink::target(self.chunks.len(), self.chunks.capacity()) {
            self.chunks.shrink_to(capacity);
        }
    }

    /// The chunk of a bit, and its place there.
    #[inline]
    fn locate(&self, index: u64) -> (usize, usize) {
        (((index - self.base) / CHUNK) as usize, (index % CHUNK) as usize)
    }

    /// A range of bits as a range in each chunk that it touches.
    fn split(&self, range: Range<u64>) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let (base, mut from) = (self.base, range.start);
        std::iter::from_fn(move || {
            if from >= range.end {
                return None;
            }
            let chunk = from - from % CHUNK;
            let bits = (from - chunk) as usize..(range.end - chunk).min(CHUNK) as usize;
            from = chunk + CHUNK;
            Some((((chunk - base) / CHUNK) as usize, bits))
        })
    }

    /// Sets the first bits of a chunk that has none.
    #[cold]
    fn start(&mut self, at: usize, bits: Range<usize>) {
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || Chunk::Empty);
        }
        if bits.len() as u64 == CHUNK {
            self.chunks[at] = Chunk::Full;
            return;
        }
        let mut words = self.spare.take().unwrap_or_else(|| Box::new([0; WORDS]));
        words.fill(0);
        for (word, mask) in masks(&bits) {
            words[word] = mask;
        }
        self.chunks[at] = Chunk::Part { words, set: bits.len() as u16 };
    }

    #[cold]
    fn fill(&mut self, at: usize) {
        if let Chunk::Part { words, .. } = std::mem::replace(&mut self.chunks[at], Chunk::Full) {
            self.spare = Some(words);
        }
    }

    /// The first bit at or above `from` that is set (or clear) in the chunks held.
    pub(super) fn find(&self, from: u64, set: bool) -> Option<u64> {
        let flip = if set { 0 } else { !0 };
        let (first, mut bit) = self.locate(from);
        for (at, chunk) in self.chunks.range(first.min(self.chunks.len())..).enumerate() {
            let found = match chunk {
                Chunk::Empty => (!set).then_some(bit),
                Chunk::Full => set.then_some(bit),
                Chunk::Part { words, .. } => {
                    let mut word = bit / 64;
                    let mut rest = (words[word] ^ flip) & (!0 << (bit % 64));
                    while rest == 0 && word + 1 < words.len() {
                        word += 1;
                        rest = words[word] ^ flip;
                    }
                    self.look(1 + word - bit / 64);
                    (rest != 0).then(|| word * 64 + rest.trailing_zeros() as usize)
                }
            };
            self.look(1);
            if let Some(bit) = found {
                return Some(self.base + (first + at) as u64 * CHUNK + bit as u64);
            }
            bit = 0;
        }
        None
    }

    #[cfg(all(test, not(loom)))]
    fn look(&self, steps: usize) {
        self.looked.set(self.looked.get() + steps as u64);
    }

    #[cfg(any(not(test), loom))]
    #[inline(always)]
    fn look(&self, _steps: usize) {}

    #[cfg(all(test, not(loom)))]
    pub(super) fn heap_bytes(&self) -> usize {
        let parts = self.chunks.iter().filter(|chunk| matches!(chunk, Chunk::Part { .. })).count();
        let words = parts + usize::from(self.spare.is_some());
        self.chunks.capacity() * size_of::<Chunk>() + words * size_of::<Words>()
    }
}

/// A range of bits in a chunk as words with the bits that lie in it.
#[inline]
fn masks(bits: &Range<usize>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let Range { start, end } = *bits;
    (start / 64..end.div_ceil(64)).map(move |word| {
        let low = start.saturating_sub(word * 64);
        let high = (end - word * 64).min(64);
        (word, (!0 >> (64 - (high - low))) << low)
    })
}
