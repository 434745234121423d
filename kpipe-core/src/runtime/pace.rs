//! Whether the next first poll may run in the intake: a handler that computes or blocks before its
//! first await would hold up its partition there.

use std::time::Duration;

use tokio::time::Instant;

/// First polls that took longer than this on end were not those of a handler that awaits.
const SLOW: Duration = Duration::from_millis(1);
/// A clock reading costs as much as a cheap handler, so polls found quick are checked in growing
/// groups up to this many.
const MOST_UNCHECKED: u32 = 16;
/// How many records become tasks at once after a slow poll before one is tried again: doubled each
/// time it is slow again.
const FIRST_DETOUR: u32 = 64;
const LONGEST_DETOUR: u32 = 4_096;

/// Decides, record by record.
#[derive(Debug)]
pub(super) struct Pace {
    enabled: bool,
    /// Records still to become tasks at once.
    detour: u32,
    next_detour: u32,
    /// The detour has just ended.
    returning: bool,
    /// First polls since the last clock reading, and how many there may be.
    unchecked: u32,
    group: u32,
    checked_at: Instant,
}

impl Pace {
    pub(super) fn new(enabled: bool, now: Instant) -> Self {
        Self {
            enabled,
            detour: 0,
            next_detour: FIRST_DETOUR,
            returning: false,
            unchecked: 0,
            group: 1,
            checked_at: now,
        }
    }

    /// A batch begins, or the intake has waited.
    pub(super) fn resume(&mut self, now: Instant) {
        self.unchecked = 0;
        self.checked_at = now;
    }

    /// When the clock was last read: a little before now, by a group of quick polls at most.
    pub(super) fn last_reading(&self) -> Instant {
        self.checked_at
    }

    /// Whether the next record's first poll may run here.
    pub(super) fn inline(&mut self, clock: impl FnOnce() -> Instant) -> bool {
        if !self.enabled {
            return false;
        }
        if self.detour > 0 {
            self.detour -= 1;
            self.returning = self.detour == 0;
            return false;
        }
        if std::mem::take(&mut self.returning) {
            // The records that went elsewhere took their time; it is not this one's.
            self.resume(clock());
        }
        true
    }

    /// A first poll has run here.
    pub(super) fn polled(&mut self, clock: impl FnOnce() -> Instant) {
        self.unchecked += 1;
        if self.unchecked < self.group {
            return;
        }
        let now = clock();
        let took = now.saturating_duration_since(self.checked_at);
        self.resume(now);
        if took > SLOW {
            self.detour = self.next_detour;
            self.next_detour = (self.next_detour * 2).min(LONGEST_DETOUR);
            self.group = 1;
        } else {
            self.group = (self.group * 2).min(MOST_UNCHECKED);
            if self.group == MOST_UNCHECKED {
                self.next_detour = FIRST_DETOUR;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls `records` times at `cost` each; returns how many of them ran inline.
    fn run(pace: &mut Pace, now: &mut Instant, records: u32, cost: Duration) -> u32 {
        let mut inline = 0;
        for _ in 0..records {
            if pace.inline(|| *now) {
                inline += 1;
                *now += cost;
                pace.polled(|| *now);
            }
        }
        inline
    }

    #[test]
    fn quick_handlers_run_inline() {
        let mut now = Instant::now();
        let mut pace = Pace::new(true, now);
        assert_eq!(run(&mut pace, &mut now, 1_000, Duration::from_nanos(200)), 1_000);
    }

    #[test]
    fn a_handler_that_blocks_is_polled_inline_ever_more_rarely() {
        let mut now = Instant::now();
        let mut pace = Pace::new(true, now);
        let slow = Duration::from_millis(10);
        let inline = run(&mut pace, &mut now, 10_000, slow);
        assert!(inline <= 8, "{inline} of 10,000");
    }

    #[test]
    fn one_that_begins_to_block_is_noticed_within_a_group() {
        let mut now = Instant::now();
        let mut pace = Pace::new(true, now);
        run(&mut pace, &mut now, 1_000, Duration::ZERO);
        let inline = run(&mut pace, &mut now, 60, Duration::from_millis(10));
        assert!(inline <= MOST_UNCHECKED, "{inline}");
    }

    #[test]
    fn quick_again_is_inline_again() {
        let mut now = Instant::now();
        let mut pace = Pace::new(true, now);
        run(&mut pace, &mut now, 3, Duration::from_millis(10));
        run(&mut pace, &mut now, 10_000, Duration::ZERO);
        assert_eq!(run(&mut pace, &mut now, 100, Duration::ZERO), 100);
    }

    #[test]
    fn switched_off_nothing_runs_inline() {
        let mut now = Instant::now();
        let mut pace = Pace::new(false, now);
        assert_eq!(run(&mut pace, &mut now, 100, Duration::ZERO), 0);
    }
}
