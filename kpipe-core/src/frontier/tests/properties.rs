use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Frontier, Naive, Seq, Tracker};
use crate::property::{cases, sequences};

/// One call, with places given as fractions of what is registered when it is made.
#[derive(Clone, Debug)]
enum Op {
    /// A gap, then this many contiguous records.
    Register { gap: i64, count: u16 },
    /// An offset that was registered, or lies below the start.
    Duplicate { back: i64 },
    /// Records one by one from a place on, upwards or downwards, skipping what is refused.
    Complete { at: Index, count: u16, down: bool },
    /// A run from a place on, of any length: refused when one in it is finished or unknown.
    Run { at: Index, count: u16 },
    /// The longest run of unfinished records from the first one at or above a place.
    Fitting { at: Index },
    /// The head, as it finishes when records finish in order.
    Head { count: u16 },
    /// Any sequence at all.
    Wild { seq: u64, count: u64 },
}

/// Sizes around the borders of words and chunks matter, and so do small ones.
fn small() -> BoxedStrategy<u16> {
    prop_oneof![
        160 => 1..10_u16,
        60 => 60..70_u16,
        20 => 1..400_u16,
        1 => 4_090..4_100_u16,
    ]
    .boxed()
}

fn large() -> BoxedStrategy<u16> {
    prop_oneof![
        6 => 1..10_u16,
        3 => 60..70_u16,
        2 => 1..400_u16,
        2 => 4_090..4_100_u16,
        1 => 4_000..9_000_u16,
    ]
    .boxed()
}

fn op(count: BoxedStrategy<u16>) -> impl Strategy<Value = Op> {
    let gap = prop_oneof![6 => Just(0), 3 => 1..4_i64, 1 => 1..2_000_000_000_i64];
    let wild = prop_oneof![0..20_000_u64, any::<u64>()];
    prop_oneof![
        8 => (gap, count.clone()).prop_map(|(gap, count)| Op::Register { gap, count }),
        1 => (1..100_i64).prop_map(|back| Op::Duplicate { back }),
        6 => (any::<Index>(), count.clone(), any::<bool>())
            .prop_map(|(at, count, down)| Op::Complete { at, count, down }),
        3 => (any::<Index>(), count.clone()).prop_map(|(at, count)| Op::Run { at, count }),
        3 => any::<Index>().prop_map(|at| Op::Fitting { at }),
        3 => count.prop_map(|count| Op::Head { count }),
        1 => (wild.clone(), wild).prop_map(|(seq, count)| Op::Wild { seq, count }),
    ]
}

/// The frontier and the model, fed the same and compared.
struct Both {
    fast: Frontier,
    naive: Naive,
    /// Operations since the whole window was compared.
    since: u64,
}

impl Both {
    fn new(start: i64) -> Self {
        Self { fast: Frontier::new(start), naive: Naive::new(start), since: 0 }
    }

    fn run(&mut self, op: Op) {
        let end = self.naive.window() + self.head();
        match op {
            Op::Register { gap, count } => {
                let from = self.naive.next_expected() + gap;
                for offset in from..from + i64::from(count) {
                    self.both(|fast| fast.register(offset), |naive| naive.register(offset));
                }
            }
            Op::Duplicate { back } => {
                let offset = self.naive.next_expected() - back;
                self.both(|fast| fast.register(offset), |naive| naive.register(offset));
            }
            Op::Complete { at, count, down } => {
                let from = at.index(end as usize + 1) as u64;
                for step in 0..u64::from(count) {
                    let seq = if down { from.saturating_sub(step) } else { from + step };
                    if step % 2 == 0 {
                        self.complete(seq);
                    }
                    self.complete_run(seq, 1);
                    self.complete(seq);
                }
            }
            Op::Run { at, count } => {
                self.complete_run(at.index(end as usize + 1) as u64, count.into());
            }
            Op::Fitting { at } => {
                let from = at.index(end as usize + 1) as u64;
                if let Some((first, count)) = self.naive.unfinished_from(from) {
                    self.complete_run(first, count);
                }
            }
            Op::Head { count } => {
                for _ in 0..count {
                    self.complete(self.head());
                }
            }
            Op::Wild { seq, count } => {
                self.complete(seq);
                self.complete_run(seq, count);
            }
        }
        self.compare();
        // A large window now and then, or it would take most of the time.
        self.since += 1;
        if self.since > self.naive.window() / 256 {
            self.compare_windows();
        }
    }

    fn head(&self) -> u64 {
        self.naive.head()
    }

    fn both<R: PartialEq + std::fmt::Debug>(
        &mut self,
        fast: impl FnOnce(&mut Frontier) -> R,
        naive: impl FnOnce(&mut Naive) -> R,
    ) {
        assert_eq!(fast(&mut self.fast), naive(&mut self.naive));
    }

    fn complete(&mut self, seq: u64) {
        self.both(|fast| fast.try_complete(Seq(seq)), |naive| naive.try_complete(Seq(seq)));
    }

    fn complete_run(&mut self, first: u64, count: u64) {
        self.both(
            |fast| fast.try_complete_run(Seq(first), count),
            |naive| naive.try_complete_run(Seq(first), count),
        );
    }

    fn compare(&self) {
        let Self { fast, naive, .. } = self;
        assert_eq!(fast.next_offset(), naive.next_offset());
        assert_eq!(fast.next_expected(), naive.next_expected());
        assert_eq!(fast.unfinished(), naive.unfinished());
        assert_eq!(fast.finished_beyond(), naive.finished_beyond());
        assert_eq!(fast.window(), naive.window());
        assert_eq!(fast.oldest_unfinished(), naive.oldest_unfinished());
    }

    fn compare_windows(&mut self) {
        self.since = 0;
        let Self { fast, naive, .. } = self;
        assert_eq!(fast.runs(), naive.runs());
        let (head, window) = (naive.head(), naive.window());
        let step = 1 + window / 50;
        for seq in (head.saturating_sub(2)..=head + window + 1).step_by(step as usize) {
            assert_eq!(fast.offset_of(Seq(seq)), naive.offset_of(Seq(seq)), "{seq}");
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever is registered and finished in whatever order, the frontier answers as its
    /// definition does.
    #[test]
    fn agrees_with_the_model(
        start in -3..10_000_i64,
        ops in prop_oneof![3 => sequences(|| op(small())), 1 => vec(op(large()), 1..40)],
    ) {
        let mut both = Both::new(start);
        both.compare();
        for op in ops {
            both.run(op);
        }
        both.compare_windows();
    }
}
