//! How much librdkafka may fetch ahead, derived from the byte budget (G4).
//!
//! With a queue for each partition librdkafka's limits count for each partition. They are fixed when
//! the client is made, while an assignment can grow to all partitions of all topics; so the budget
//! is shared out over all of them.

/// What librdkafka needs for a message beside its payload, in bytes: measured for small ones.
const OVERHEAD: u64 = 366;
/// A small record on the wire, in bytes. A fetch brings about as many of them as may be queued, so
/// that the overhead of what overshoots stays within bounds too.
const SMALL: u64 = 64;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The most that is fetched ahead for a partition, however large the budget: in messages,
pub(super) const MOST_QUEUED: u64 = 100_000;
/// and in KiB of payload.
pub(super) const MOST_QUEUED_KIB: u64 = 64 * KIB;

/// Limits for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// `queued.max.messages.kbytes`: payload.
    pub(super) queued_kib: u64,
    /// `queued.min.messages`: the fetch pauses above it.
    pub(super) queued_messages: u64,
    /// `fetch.message.max.bytes`: by how much the two above are overshot. A record that is larger
    /// arrives all the same.
    pub(super) fetch_bytes: u64,
    /// `fetch.wait.max.ms`: one fetch at a time is open to a broker, so a partition over its limit
    /// is not asked for again while the idle ones wait this long.
    pub(super) fetch_wait_ms: u64,
}

impl Limits {
    /// Shares `budget` bytes out. Half of a share is for payload and half for overhead, so that
    /// records of any size stay within it. Below 64 KiB of payload and 128 messages a partition, fetching
    /// would crawl; there the number of partitions wins over the budget.
    pub(super) fn derive(budget: u64, partitions: u64) -> Self {
        let half = budget / partitions.max(1) / 2;
        let payload = half.clamp(64 * KIB, MOST_QUEUED_KIB * KIB);
        let queued_messages = (half / OVERHEAD).clamp(128, MOST_QUEUED);
        Self {
            queued_kib: payload / KIB,
            queued_messages,
            fetch_bytes: (payload / 2).min(queued_messages * SMALL).clamp(64 * KIB, MIB),
            fetch_wait_ms: if queued_messages >= 10_000 { 100 } else { 50 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_size_stay_within_the_budget() {
        for budget in [32 * MIB, 128 * MIB, 1024 * MIB] {
            for partitions in [1, 8, 64, 200] {
                let limits = Limits::derive(budget, partitions);
                for size in [0, 50, 366, 1_000, 100_000] {
                    let by_payload = limits.queued_kib * KIB / size.max(1);
                    let held = by_payload.min(limits.queued_messages);
                    let bytes = held * (size + OVERHEAD) * partitions;
                    assert!(bytes <= budget, "{budget} over {partitions} of {size} B: {bytes}");
                }
            }
        }
    }

    #[test]
    fn limits_stay_where_fetching_works_and_where_librdkafka_accepts_them() {
        let least = Limits::derive(0, 100_000);
        assert_eq!((least.queued_kib, least.queued_messages, least.fetch_bytes), (64, 128, 65_536));
        assert_eq!(least.fetch_wait_ms, 50);
        let most = Limits::derive(u64::MAX, 0);
        assert_eq!((most.queued_kib, most.queued_messages), (65_536, 100_000));
        assert_eq!((most.fetch_bytes, most.fetch_wait_ms), (MIB, 100));
    }

    #[test]
    fn one_fetch_of_small_records_overshoots_by_no_more_than_a_share() {
        for partitions in [1, 8, 64, 200] {
            let limits = Limits::derive(128 * MIB, partitions);
            let overshoot = limits.fetch_bytes / SMALL * OVERHEAD;
            assert!(overshoot <= 128 * MIB / partitions, "{partitions}: {overshoot}");
        }
    }
}
