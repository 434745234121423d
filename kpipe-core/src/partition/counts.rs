use std::ops::AddAssign;

/// What became of the records of an epoch, or of several. At rest (G8)
/// `received = passed + dropped + abandoned + duplicates`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) passed: u64,
    pub(crate) dropped: u64,
    pub(crate) abandoned: u64,
    pub(crate) duplicates: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.passed += other.passed;
        self.dropped += other.dropped;
        self.abandoned += other.abandoned;
        self.duplicates += other.duplicates;
    }
}
