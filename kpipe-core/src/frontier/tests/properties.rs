use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Frontier, Naive, Seq, Tracker};

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

fn op() -> impl Strategy<Value = Op> {
    let gap = prop_oneof![6 => Just(0), 3 => 1..4_i64, 1 => 1..2_000_000_000_i64];
    // Sizes around the borders of words and chunks matter, and so do small ones.
    let count = prop_oneof![
        6 => 1..10_u16,
        3 => 60..70_u16,
        2 => 1..400_u16,
        2 => 4_090..4_100_u16,
        1 => 4_000..9_000_u16,
    ];
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
}

impl Both {
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
                let open = |seq: &u64| self.naive.is_unfinished(*seq);
                if let Some(first) = (from..end).find(open) {
                    let count = (first..end).take_while(open).count();
                    self.complete_run(first, count as u64);
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
        let Self { fast, naive } = self;
        assert_eq!(fast.next_offset(), naive.next_offset());
        assert_eq!(fast.next_expected(), naive.next_expected());
        assert_eq!(fast.unfinished(), naive.unfinished());
        assert_eq!(fast.finished_beyond(), naive.finished_beyond());
        assert_eq!(fast.window(), naive.window());
        assert_eq!(fast.oldest_unfinished(), naive.oldest_unfinished());
        assert_eq!(fast.runs(), naive.runs());
        let head = self.head();
        for seq in (head.saturating_sub(2)..=head + naive.window() + 1).step_by(7) {
            assert_eq!(fast.offset_of(Seq(seq)), naive.offset_of(Seq(seq)), "{seq}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is registered and finished in whatever order, the frontier answers as its
    /// definition does.
    #[test]
    fn agrees_with_the_model(start in -3..10_000_i64, ops in vec(op(), 1..40)) {
        let mut both = Both { fast: Frontier::new(start), naive: Naive::new(start) };
        both.compare();
        for op in ops {
            both.run(op);
        }
    }
}
