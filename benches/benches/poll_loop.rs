//! KPipe against the loops that people write, over records in memory and, with `KPIPE_KAFKA`, over
//! a broker. The time is that from the first handler's start to the last one's end.
//!
//! In memory a plain loop pays nothing for its records, so what is compared there is what a consumer
//! adds to a handler; over a broker, what a service would see.

use std::env;
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use benches::arms::{self, Arm, Run, RunSpec};
use benches::handler::Handler;
use benches::ledger::Ledger;
use benches::memory::Memory;
use benches::topic::Topic;
use benches::work::{Nothing, PendOnce, ShortWait, Work};
use criterion::{Criterion, SamplingMode, Throughput};
use futures::{StreamExt, stream};
use kpipe_core::{Consumer, Ordering, Record};
use tokio::runtime::{Builder, Runtime};

const PARTITIONS: u32 = 8;
const MAX_IN_FLIGHT: usize = 1_000;
const SHUTDOWN: Duration = Duration::from_secs(30);

/// A consumer of records in memory.
#[derive(Clone, Copy)]
enum Loop {
    /// Each record awaited in place.
    Inline,
    BufferUnordered,
    KPipe(Ordering),
}

const LOOPS: [(&str, Loop); 4] = [
    ("inline", Loop::Inline),
    ("buffer_unordered", Loop::BufferUnordered),
    ("parallel", Loop::KPipe(Ordering::Parallel)),
    ("key", Loop::KPipe(Ordering::Key)),
];

fn in_memory(c: &mut Criterion) {
    let runtime = runtime();
    compare(c, &runtime, "memory/ready", &Nothing, 100_000);
    compare(c, &runtime, "memory/pend once", &PendOnce, 100_000);
    // For the process, like the timer behind it.
    let wait: &ShortWait = Box::leak(Box::new(ShortWait::new(Duration::from_millis(1))));
    compare(c, &runtime, "memory/1 ms", wait, 20_000);
}

fn compare<W: Work>(
    c: &mut Criterion,
    runtime: &Runtime,
    name: &str,
    work: &'static W,
    records: u64,
) {
    let many = Memory::fill("numbers", records, PARTITIONS);
    // One at a time, waits add up: fewer records tell as much.
    let few = Memory::fill("numbers", records / 100, PARTITIONS);
    let mut group = c.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat);
    for (name, consumer) in LOOPS {
        let slow = W::MEASURED && matches!(consumer, Loop::Inline);
        let (memory, records) = if slow { (&few, records / 100) } else { (&many, records) };
        group.throughput(Throughput::Elements(records));
        group.bench_function(name, |b| {
            b.iter_custom(|iterations| {
                let once = || consume(runtime, consumer, memory, work, records);
                (0..iterations).map(|_| once()).sum()
            });
        });
    }
    group.finish();
}

fn consume<W: Work>(
    runtime: &Runtime,
    consumer: Loop,
    memory: &Memory,
    work: &'static W,
    records: u64,
) -> Duration {
    let ledger = Ledger::new(records, PARTITIONS, false);
    // For the process: handlers then hold a plain reference, in every loop alike. It is small, as
    // records are only counted.
    let handler: &'static Handler<&'static W> = Box::leak(Box::new(Handler { ledger, work }));
    let memory = memory.clone();
    let task = async move {
        match consumer {
            Loop::Inline => {
                for record in memory.records() {
                    handler.handle(record.partition(), record.value()).await;
                }
            }
            Loop::BufferUnordered => {
                let one = |record: Record| async move {
                    handler.handle(record.partition(), record.value()).await;
                };
                let records = stream::iter(memory.records()).map(one);
                records.buffer_unordered(MAX_IN_FLIGHT).for_each(ready).await;
            }
            Loop::KPipe(ordering) => {
                let running = Consumer::new("benches")
                    .topic(memory.topic(), move |record: Record| async move {
                        handler.handle(record.partition(), record.value()).await;
                        Ok(())
                    })
                    .ordering(ordering)
                    .max_in_flight(MAX_IN_FLIGHT as u64)
                    .start(memory.clone())
                    .await
                    .expect("the settings are right");
                handler.ledger.finished().await;
                running.shutdown(SHUTDOWN).await.expect("a source in memory does not fail");
            }
        }
    };
    runtime.block_on(runtime.spawn(task)).expect("no consumer panics");
    assert!(handler.ledger.is_finished(), "every record was handled");
    handler.ledger.totals().steady
}

fn over_a_broker(c: &mut Criterion) {
    const RECORDS: u64 = 200_000;
    let Ok(address) = env::var("KPIPE_KAFKA") else {
        println!("broker: skipped, KPIPE_KAFKA=HOST:PORT is not set");
        return;
    };
    let runtime = runtime();
    let topic = Topic::fill(&address, RECORDS, PARTITIONS).expect("the broker takes a topic");
    let runs = AtomicU64::new(0);
    let mut group = c.benchmark_group("broker/ready");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10)
        .throughput(Throughput::Elements(RECORDS));
    for arm in [Arm::StreamTuned, Arm::BufferUnordered, Arm::Parallel, Arm::Key] {
        let once = || {
            let spec = RunSpec {
                arm,
                bootstrap: address.clone(),
                topic: topic.name().to_owned(),
                group: format!("{}-{}", topic.name(), runs.fetch_add(1, Relaxed)),
                records: RECORDS,
                partitions: PARTITIONS,
                max_in_flight: MAX_IN_FLIGHT,
                max_held: None,
                set: Vec::new(),
            };
            let ledger = Ledger::new(RECORDS, PARTITIONS, false);
            let run: &'static Run<Nothing> =
                Box::leak(Box::new(Run { spec, handler: Handler { ledger, work: Nothing } }));
            runtime.block_on(arms::run(run)).expect("the broker stays");
            run.handler.ledger.totals().steady
        };
        group.bench_function(arm.to_string(), |b| {
            b.iter_custom(|iterations| (0..iterations).map(|_| once()).sum());
        });
    }
    group.finish();
    topic.delete().expect("the broker stays");
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().expect("threads start")
}

fn main() {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    in_memory(&mut criterion);
    over_a_broker(&mut criterion);
    criterion.final_summary();
}
