//! What the frontier costs, counted and not timed: bytes on the heap, words looked at.

use super::{Frontier, Seq, Tracker, register_all};

const WINDOW: u64 = 1_000_000;

/// One record stuck, a million registered behind it.
fn stuck_head() -> Frontier {
    let mut frontier = Frontier::new(0);
    register_all(&mut frontier, 0..=WINDOW as i64);
    frontier
}

/// Visits every number below `WINDOW` once, far from the one before.
fn scattered() -> impl Iterator<Item = u64> {
    // The step shares no factor with 10^6.
    (0..WINDOW).map(|at| at * 617_203 % WINDOW)
}

#[test]
fn c6_a_gap_of_a_billion_costs_no_memory() {
    let mut frontier = Frontier::new(0);
    let mut offset = 0;
    for _ in 0..1_000 {
        let seq = frontier.register(offset).expect("a new offset");
        assert!(frontier.complete(seq));
        offset += 1_000_000_000;
    }
    let seqs = register_all(&mut frontier, [offset, offset + 1_000_000_000]);
    assert!(!frontier.complete(seqs[1]));
    assert!(frontier.complete(seqs[0]));
    assert_eq!(frontier.next_offset(), offset + 1_000_000_001);
    assert!(frontier.heap_bytes() < 2_048, "{}", frontier.heap_bytes());
}

#[test]
fn in_order_nothing_is_ever_allocated() {
    let mut frontier = Frontier::new(0);
    for offset in 0..10_000_000 {
        let seq = frontier.register(offset).expect("a new offset");
        frontier.complete(seq);
    }
    assert_eq!((frontier.next_offset(), frontier.heap_bytes()), (10_000_000, 0));
}

/// 10^7 records that finish in batches, the second half of each before the first.
#[test]
fn a_steady_window_reuses_its_memory() {
    let mut frontier = Frontier::new(0);
    let mut settled = 0;
    for batch in 0..1_000 {
        let first = register_all(&mut frontier, batch * 10_000..(batch + 1) * 10_000)[0];
        assert!(!frontier.complete_run(first.plus(5_000), 5_000));
        assert!(frontier.complete_run(first, 5_000));
        if batch == 10 {
            settled = frontier.heap_bytes();
        }
    }
    assert_eq!(frontier.next_offset(), 10_000_000);
    assert!(frontier.heap_bytes() <= settled.max(2_048), "{}", frontier.heap_bytes());
}

#[test]
fn c24_finished_records_behind_a_stuck_one_cost_bits() {
    let mut frontier = stuck_head();
    let mut peak = 0;
    for (done, seq) in scattered().enumerate() {
        assert!(!frontier.complete(Seq(seq + 1)));
        if done % 10_000 == 0 {
            peak = peak.max(frontier.heap_bytes());
        }
    }
    assert_eq!((frontier.next_offset(), frontier.finished_beyond()), (0, WINDOW));
    let bits = WINDOW as usize / 8;
    assert!((bits..bits + bits / 8).contains(&peak), "{peak}");
    // All finished is a handful of marks.
    assert!(frontier.heap_bytes() < 8_192, "{}", frontier.heap_bytes());

    assert!(frontier.complete(Seq(0)));
    assert_eq!((frontier.next_offset(), frontier.window()), (WINDOW as i64 + 1, 0));
    assert!(frontier.heap_bytes() < 4_096, "{}", frontier.heap_bytes());
}

#[test]
fn c24_completing_is_constant_time() {
    let mut frontier = stuck_head();
    for seq in scattered() {
        frontier.complete(Seq(seq + 1));
        assert_eq!(frontier.looked(), 0, "nothing to search while the head is stuck");
    }
    frontier.complete(Seq(0));
    assert!(frontier.looked() < 500, "the head passes whole chunks");

    // In scattered order from the first record on, the head passes each word once.
    let mut frontier = stuck_head();
    for seq in scattered() {
        frontier.complete(Seq(seq));
    }
    assert_eq!(frontier.next_offset(), WINDOW as i64);
    let looked = frontier.looked();
    assert!(looked < WINDOW / 10, "{looked}");
}

/// Bits left over from an earlier overtaking are not searched again.
#[test]
fn in_order_nothing_is_searched() {
    let mut frontier = Frontier::new(0);
    let seqs = register_all(&mut frontier, 0..3_000);
    frontier.complete(seqs[1_000]);
    frontier.complete_run(seqs[0], 1_000);
    assert_eq!(frontier.looked(), 2, "the head passed a bit: a chunk, and a word of it");
    for seq in &seqs[1_001..] {
        assert!(frontier.complete(*seq));
    }
    assert_eq!((frontier.next_offset(), frontier.looked()), (3_000, 0));
}

#[test]
fn c24_the_runs_cost_the_holes_and_not_the_window() {
    for holes in [1, 100, 1_000, 10_000] {
        let mut frontier = stuck_head();
        let step = WINDOW / holes;
        for hole in 0..holes {
            assert!(!frontier.complete_run(Seq(hole * step + 1), step - 1));
        }
        assert_eq!(frontier.finished_runs().count() as u64, holes);
        let chunks = WINDOW / 4096 + 1;
        let words = 64 * holes.min(chunks);
        // Each hole ends one look and begins another; a chunk without a hole is one look.
        let (looked, most) = (frontier.looked(), 2 * chunks + words + 4 * holes);
        assert!(looked <= most, "{holes} holes: {looked} looks, at most {most}");
    }
}

/// A log in which every second offset is gone, as with a transaction for each record.
#[test]
fn a_log_riddled_with_gaps_costs_an_entry_a_gap_while_in_the_window() {
    let mut frontier = Frontier::new(0);
    let seqs = register_all(&mut frontier, (0..100_000).map(|record| record * 2));
    let held = frontier.heap_bytes();
    assert!((16 * 99_999..=2 * 16 * 100_000).contains(&held), "{held}");
    assert!(!frontier.complete_run(seqs[1], 99_999));
    assert_eq!(frontier.runs(), [(2, 199_999)]);
    assert_eq!(frontier.offset_of(seqs[70_000]), Some(140_000));
    assert!(frontier.complete(seqs[0]));
    assert!(frontier.heap_bytes() < 4_096, "{}", frontier.heap_bytes());
}
