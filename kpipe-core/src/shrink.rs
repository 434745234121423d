//! When a collection gives memory back after a spell in which it held much more.

/// Below this many entries memory is kept as it is.
const KEEP: usize = 64;

/// The capacity to shrink to, or `None` to leave things alone.
///
/// The margin of 8 pays for each move with several times as many removals, so that a collection
/// which fills and empties all the time does not copy all the time.
#[inline]
pub(crate) fn target(len: usize, capacity: usize) -> Option<usize> {
    let target = (len * 2).max(KEEP);
    (len < capacity / 8 && target < capacity).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn a_collection_at_an_eighth_of_its_capacity_is_left_alone() {
        assert_eq!(target(128, 1024), None);
        assert_eq!(target(127, 1024), Some(254));
    }

    #[test]
    fn little_is_never_worth_a_move() {
        assert_eq!(target(0, 64), None);
        assert_eq!(target(0, 65), Some(64));
        assert_eq!(target(31, 1024), Some(64));
        assert_eq!(target(33, 1024), Some(66));
    }
}
