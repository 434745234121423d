//! Whether a second poll in the intake pays: it saves a task where handlers wait for something that
//! is there a moment later, and is wasted where they wait for longer.

/// A look that finds the attempt ready pays for this many that do not.
const WORTH: u32 = 4;
/// So many vain looks in a row, at most, before looking stops.
const PATIENCE: u32 = 64;
/// After so many attempts that went without, some are tried again.
const PAUSE: u32 = 1_024;
const TRIAL: u32 = 16;

/// Keeps count of how second polls went.
#[derive(Debug)]
pub(super) struct SecondLook {
    credit: u32,
    skipped: u32,
}

impl Default for SecondLook {
    fn default() -> Self {
        Self { credit: PATIENCE, skipped: 0 }
    }
}

impl SecondLook {
    /// Whether the next attempt that pends gets a second poll.
    pub(super) fn is_worth_it(&mut self) -> bool {
        if self.credit > 0 {
            return true;
        }
        self.skipped += 1;
        if self.skipped == PAUSE {
            self.skipped = 0;
            self.credit = TRIAL;
        }
        false
    }

    /// How one went.
    pub(super) fn looked(&mut self, ready: bool) {
        self.credit =
            if ready { (self.credit + WORTH).min(PATIENCE) } else { self.credit.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(second: &mut SecondLook, attempts: u32, ready: impl Fn(u32) -> bool) -> u32 {
        let mut looked = 0;
        for attempt in 0..attempts {
            if second.is_worth_it() {
                looked += 1;
                second.looked(ready(attempt));
            }
        }
        looked
    }

    #[test]
    fn handlers_that_are_ready_a_moment_later_are_always_looked_at() {
        assert_eq!(looks(&mut SecondLook::default(), 10_000, |_| true), 10_000);
        assert_eq!(looks(&mut SecondLook::default(), 10_000, |n| n % 4 == 0), 10_000);
    }

    #[test]
    fn handlers_that_wait_for_long_are_hardly_ever_looked_at() {
        let looked = looks(&mut SecondLook::default(), 10_000, |_| false);
        assert!(looked < 10_000 / 40, "{looked}");
    }

    #[test]
    fn a_change_is_noticed() {
        let mut second = SecondLook::default();
        looks(&mut second, 10_000, |_| false);
        looks(&mut second, 2 * PAUSE, |_| true);
        assert_eq!(looks(&mut second, 100, |_| true), 100);
    }
}
