//! The name of a lane: 64 bits in place of the key's bytes.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// Which lane of its partition a record belongs to.
///
/// It is a hash, so that a lane neither copies nor pins a key. Two keys that collide share a lane:
/// they are handled one after the other, each still in its own order (G2), and nothing else
/// changes. With 10,000 keys in hand that happens once in 10^11 times.
///
/// The seed is drawn once per process, so that a sender cannot pick keys that fall together; the
/// values mean nothing in another process and are not to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey(pub(super) u64);

impl LaneKey {
    /// The one lane of a partition whose records are handled in offset order whatever their keys.
    pub(crate) const WHOLE_PARTITION: Self = Self(0);

    /// The lane of records without a key, where those are to be serial. An empty key is a key.
    pub(crate) const NULL_KEY: Self = Self(1);

    /// The lane of a key, compared by its bytes.
    #[inline]
    pub(crate) fn of(key: &[u8]) -> Self {
        let mut hasher = seeded().build_hasher();
        hasher.write(key);
        Self(hasher.finish())
    }

    /// The lane of a key that the user made of a record. Not the same lane as
    /// [`of`](Self::of) the same bytes: a partition uses the one or the other.
    #[inline]
    pub(crate) fn of_value<K: Hash + ?Sized>(key: &K) -> Self {
        Self(seeded().hash_one(key))
    }
}

/// foldhash in its variant for quality: the map takes the bits as they are, high and low.
#[inline]
fn seeded() -> SeedableRandomState {
    SeedableRandomState::with_seed(0, SharedSeed::global_random())
}

/// Passes a [`LaneKey`] through: it is a hash already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only lane keys are looked up, and each is one u64");
    }
}
