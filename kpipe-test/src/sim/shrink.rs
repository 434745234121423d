//! Making a schedule that violates something short enough to be read.

use super::check::Violation;
use super::plan::Plan;
use super::world::play;

/// The shortest schedule found that violates the same promise.
pub(super) fn shrink(plan: Plan, mut tries: usize) -> Option<(Plan, Violation)> {
    let mut violation = play(&plan).violation?;
    let mut best = plan;
    // Halves first, then smaller and smaller pieces.
    let mut piece = best.acts.len().div_ceil(2);
    while piece > 0 && tries > 0 {
        let mut from = 0;
        while from < best.acts.len() && tries > 0 {
            tries -= 1;
            let mut shorter = best.clone();
            let to = (from + piece).min(shorter.acts.len());
            shorter.acts.drain(from..to);
            match play(&shorter).violation {
                Some(still) if still.promise == violation.promise => {
                    best = shorter;
                    violation = still;
                }
                _ => from = to,
            }
        }
        piece /= 2;
    }
    Some((best, violation))
}
