//! What happened to every record: the same few memory operations in each arm's handlers.
//!
//! Everything that belongs to one key lies in one cell of its own cache lines, so that handlers on
//! several threads meet only where they have the same key, and in the count of those running.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::workload::{self, Entry, KEYS};

/// The account of one run.
pub struct Ledger {
    /// None where records are only counted.
    keys: Box<[KeyCell]>,
    partitions: Box<[PartitionCell]>,
    running: Padded<AtomicUsize>,
    peak: AtomicUsize,
    /// Words of the keys' bits that are not full yet; where records are only counted, partitions.
    open: AtomicUsize,
    first_start: OnceLock<Instant>,
    last_end: OnceLock<Instant>,
    finished: Notify,
}

#[repr(align(128))]
struct Padded<T>(T);

#[repr(align(128))]
struct KeyCell {
    running: AtomicU32,
    /// Sequence number after that of the last record that started.
    next: AtomicU32,
    duplicates: AtomicU32,
    order_breaks: AtomicU32,
    overlaps: AtomicU32,
    measured: AtomicU32,
    measured_ns: AtomicU64,
    /// One bit for each record of the key, set when its handler ends; the last word's bits past
    /// `expected` stay clear.
    seen: Box<[AtomicU64]>,
    expected: u64,
}

#[repr(align(128))]
struct PartitionCell {
    handled: AtomicU64,
    expected: u64,
}

/// A handler that has started.
#[derive(Debug)]
pub struct Started {
    entry: Entry,
    /// Set where its time is measured.
    at: Option<Instant>,
}

/// The account at the end of a run; what it does not know is `None`.
#[derive(Debug, Default, PartialEq)]
pub struct Totals {
    /// From the start of the first handler to the end of the last.
    pub steady: Duration,
    /// Handlers that ended.
    pub handled: u64,
    /// Records of which a handler ended.
    pub distinct: Option<u64>,
    /// Handlers that ended for a record that had been handled before.
    pub duplicates: Option<u64>,
    /// Handlers that started after one of a later record of the same key.
    pub order_breaks: Option<u64>,
    /// Handlers that started while another of the same key was running.
    pub key_overlaps: Option<u64>,
    /// The most handlers that were running at once.
    pub peak_in_flight: Option<u64>,
    /// Mean time of the handlers that were measured, in microseconds.
    pub work_us_mean: Option<f64>,
}

impl Ledger {
    /// An account for `records` records over `partitions` partitions, in which nothing is left to
    /// allocate.
    pub fn new(records: u64, partitions: u32, full: bool) -> Self {
        let of_key = |key| workload::records_of_key(key, records);
        let keys = if full { 0..KEYS } else { 0..0 };
        let keys: Box<[_]> = keys.map(|key| KeyCell::new(of_key(key))).collect();
        let count = partitions;
        let mut partitions: Box<[_]> = (0..count).map(|_| PartitionCell::new()).collect();
        for key in 0..KEYS {
            partitions[workload::partition(key, count) as usize].expected += of_key(key);
        }
        let open = if full {
            keys.iter().map(|cell| cell.seen.len()).sum()
        } else {
            partitions.iter().filter(|cell| cell.expected > 0).count()
        };
        Self {
            keys,
            partitions,
            running: Padded(AtomicUsize::new(0)),
            peak: AtomicUsize::new(0),
            open: AtomicUsize::new(open),
            first_start: OnceLock::new(),
            last_end: OnceLock::new(),
            finished: Notify::new(),
        }
    }

    /// A handler starts. `None` where nothing but the count at its end is kept.
    pub fn start(&self, value: &[u8], measured: bool) -> Option<Started> {
        if self.first_start.get().is_none() {
            self.first_start.get_or_init(Instant::now);
        }
        if self.keys.is_empty() {
            return None;
        }
        let Some(entry) = workload::decode(value) else {
            panic!("a record that this program has not written");
        };
        let cell = &self.keys[entry.key as usize];
        if cell.running.fetch_add(1, Relaxed) > 0 {
            cell.overlaps.fetch_add(1, Relaxed);
        }
        if cell.next.swap(entry.seq + 1, Relaxed) > entry.seq {
            cell.order_breaks.fetch_add(1, Relaxed);
        }
        let running = self.running.0.fetch_add(1, Relaxed) + 1;
        if running > self.peak.load(Relaxed) {
            self.peak.fetch_max(running, Relaxed);
        }
        let at = (measured || entry.seq.is_multiple_of(1_024)).then(Instant::now);
        Some(Started { entry, at })
    }

    /// A handler ends.
    pub fn end(&self, partition: i32, started: Option<Started>) {
        let complete = match started {
            Some(started) => self.end_of_key(&started),
            None => {
                let cell = &self.partitions[partition as usize];
                cell.handled.fetch_add(1, Relaxed) + 1 == cell.expected
            }
        };
        if complete && self.open.fetch_sub(1, AcqRel) == 1 {
            self.last_end.get_or_init(Instant::now);
            self.finished.notify_one();
        }
    }

    /// Whether this filled a word of the key's bits.
    fn end_of_key(&self, started: &Started) -> bool {
        let cell = &self.keys[started.entry.key as usize];
        if let Some(at) = started.at {
            cell.measured.fetch_add(1, Relaxed);
            cell.measured_ns.fetch_add(at.elapsed().as_nanos() as u64, Relaxed);
        }
        self.running.0.fetch_sub(1, Relaxed);
        cell.running.fetch_sub(1, Relaxed);
        let bit = 1 << (started.entry.seq % 64);
        let word = (started.entry.seq / 64) as usize;
        let before = cell.seen[word].fetch_or(bit, Relaxed);
        if before & bit != 0 {
            cell.duplicates.fetch_add(1, Relaxed);
            return false;
        }
        before | bit == cell.full(word)
    }

    /// Counts records that no handler sees, all at once.
    pub fn counted(&self, partition: i32, records: u64) {
        self.first_start.get_or_init(Instant::now);
        let cell = &self.partitions[partition as usize];
        let handled = cell.handled.fetch_add(records, Relaxed) + records;
        if handled >= cell.expected
            && handled - records < cell.expected
            && self.open.fetch_sub(1, AcqRel) == 1
        {
            self.last_end.get_or_init(Instant::now);
            self.finished.notify_one();
        }
    }

    /// Ends once every record was handled; for one waiter.
    pub async fn finished(&self) {
        while !self.is_finished() {
            self.finished.notified().await;
        }
    }

    /// Whether every record was handled.
    pub fn is_finished(&self) -> bool {
        self.last_end.get().is_some()
    }

    /// The account so far; final once the run is over.
    pub fn totals(&self) -> Totals {
        let first = self.first_start.get();
        let steady = match (first, self.last_end.get()) {
            (Some(first), Some(last)) => last.duration_since(*first),
            (Some(first), None) => first.elapsed(),
            (None, _) => Duration::ZERO,
        };
        if self.keys.is_empty() {
            let handled = self.partitions.iter().map(|cell| cell.handled.load(Relaxed)).sum();
            return Totals { steady, handled, ..Totals::default() };
        }
        let sum = |part: fn(&KeyCell) -> &AtomicU32| -> u64 {
            self.keys.iter().map(|cell| u64::from(part(cell).load(Relaxed))).sum()
        };
        let words = self.keys.iter().flat_map(|cell| &cell.seen);
        let distinct = words.map(|word| u64::from(word.load(Relaxed).count_ones())).sum();
        let duplicates = sum(|cell| &cell.duplicates);
        let measured = sum(|cell| &cell.measured);
        let measured_ns: u64 = self.keys.iter().map(|cell| cell.measured_ns.load(Relaxed)).sum();
        Totals {
            steady,
            handled: distinct + duplicates,
            distinct: Some(distinct),
            duplicates: Some(duplicates),
            order_breaks: Some(sum(|cell| &cell.order_breaks)),
            key_overlaps: Some(sum(|cell| &cell.overlaps)),
            peak_in_flight: Some(self.peak.load(Relaxed) as u64),
            work_us_mean: (measured > 0).then(|| measured_ns as f64 / measured as f64 / 1_000.0),
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.totals().fmt(f)
    }
}

impl KeyCell {
    fn new(expected: u64) -> Self {
        Self {
            running: AtomicU32::new(0),
            next: AtomicU32::new(0),
            duplicates: AtomicU32::new(0),
            order_breaks: AtomicU32::new(0),
            overlaps: AtomicU32::new(0),
            measured: AtomicU32::new(0),
            measured_ns: AtomicU64::new(0),
            seen: (0..expected.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            expected,
        }
    }

    /// The bits of a word once every record that it stands for was handled.
    fn full(&self, word: usize) -> u64 {
        match self.expected - 64 * word as u64 {
            left @ ..64 => (1 << left) - 1,
            _ => u64::MAX,
        }
    }
}

impl PartitionCell {
    fn new() -> Self {
        Self { handled: AtomicU64::new(0), expected: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::VALUE_LEN;

    fn value(i: u64) -> [u8; VALUE_LEN] {
        let mut value = [0; VALUE_LEN];
        workload::encode(i, &mut value);
        value
    }

    fn handle(ledger: &Ledger, i: u64) {
        let started = ledger.start(&value(i), false);
        ledger.end(workload::partition(i, 8), started);
    }

    #[test]
    fn a_run_in_order_is_finished_at_its_last_record() {
        for full in [true, false] {
            let ledger = Ledger::new(2_500, 8, full);
            for i in 0..2_500 {
                assert!(!ledger.is_finished());
                handle(&ledger, i);
            }
            assert!(ledger.is_finished());
            let totals = ledger.totals();
            assert_eq!(totals.handled, 2_500);
            assert_eq!(totals.distinct, full.then_some(2_500));
            assert_eq!(totals.order_breaks, full.then_some(0));
            assert_eq!(totals.peak_in_flight, full.then_some(1));
        }
    }

    #[test]
    fn duplicates_breaks_and_overlaps_are_told_apart() {
        let ledger = Ledger::new(3_000, 8, true);
        handle(&ledger, 1_005);
        handle(&ledger, 5);
        handle(&ledger, 2_005);
        let first = ledger.start(&value(6), false);
        let second = ledger.start(&value(1_006), false);
        ledger.end(6, second);
        ledger.end(6, first);
        handle(&ledger, 1_006);
        let totals = ledger.totals();
        assert_eq!(totals.handled, 6);
        assert_eq!(totals.distinct, Some(5));
        assert_eq!(totals.duplicates, Some(1));
        assert_eq!(totals.order_breaks, Some(2), "record 5 after 1,005; 1,006 again");
        assert_eq!(totals.key_overlaps, Some(1));
        assert_eq!(totals.peak_in_flight, Some(2));
        assert!(!ledger.is_finished());
    }

    #[test]
    fn records_without_handlers_are_counted_by_partition() {
        let ledger = Ledger::new(1_000, 2, false);
        ledger.counted(0, 500);
        assert!(!ledger.is_finished());
        ledger.counted(1, 500);
        assert!(ledger.is_finished());
        assert_eq!(ledger.totals().handled, 1_000);
    }
}
