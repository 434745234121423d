//! Random numbers that are the same for the same seed, on every machine.

/// A generator (splitmix64): one word of state, good enough to draw schedules from and cheap to make.
#[derive(Clone, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `n`; 0 if `n` is 0. The bias is below n / 2^64.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with this probability, 0 to 1.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // 53 bits: as many as a float holds.
        ((self.next_u64() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        // The first words of splitmix64 for the seed 0, by its reference implementation.
        let mut seed = Seed::new(0);
        assert_eq!(seed.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(seed.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn what_is_drawn_is_in_range_and_even() {
        let mut seed = Seed::new(3);
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[seed.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(seed.below(0), 0);
        let hits = (0..10_000).filter(|_| seed.chance(0.25)).count();
        assert!((2_350..2_650).contains(&hits), "{hits}");
        assert!(!seed.chance(0.0) && seed.chance(1.0));
    }
}
