//! Processor time with 64 partitions in which nothing moves.

use std::future::pending;
use std::time::{Duration, Instant};

use benches::Fallible;
use benches::topic::Topic;
use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, Ordering, Record, Running};
use nix::sys::resource::{UsageWho, getrusage};

use crate::{group, until};

const PARTITIONS: u32 = 64;
const SETTLE: Duration = Duration::from_secs(5);
const MEASURE: Duration = Duration::from_secs(20);

/// All partitions are empty.
pub(crate) async fn empty(bootstrap: &str) -> Fallible<()> {
    let topic = blocking(bootstrap, 0).await?;
    let consumer = Consumer::new(group("empty")?).topic(topic.name(), |_: Record| async { Ok(()) });
    let running = consumer.start(Kafka::brokers(bootstrap)).await?;
    until(|| running.stats().partitions.len() == PARTITIONS as usize).await?;
    let share = measure().await?;
    println!("| one core, {PARTITIONS} empty partitions | {share:.2}% |");
    end(running).await
}

/// Every partition has records to give, and the budget is taken.
pub(crate) async fn held_back(bootstrap: &str) -> Fallible<()> {
    let topic = blocking(bootstrap, 640_000).await?;
    let consumer = Consumer::new(group("held")?)
        .topic(topic.name(), |_: Record| pending())
        .ordering(Ordering::Parallel)
        .max_in_flight(1_000)
        .max_held(1_000);
    let running = consumer.start(Kafka::brokers(bootstrap)).await?;
    until(|| running.stats().partitions.len() == PARTITIONS as usize).await?;
    until(|| running.stats().held >= 990).await?;
    let share = measure().await?;
    println!("| one core, {PARTITIONS} partitions held back | {share:.2}% |");
    end(running).await
}

async fn blocking(bootstrap: &str, records: u64) -> Fallible<Topic> {
    let bootstrap = bootstrap.to_owned();
    tokio::task::spawn_blocking(move || Topic::fill(&bootstrap, records, PARTITIONS)).await?
}

/// The share of one core that this process uses, in percent.
async fn measure() -> Fallible<f64> {
    tokio::time::sleep(SETTLE).await;
    let (before, begun) = (cpu_seconds()?, Instant::now());
    tokio::time::sleep(MEASURE).await;
    Ok((cpu_seconds()? - before) / begun.elapsed().as_secs_f64() * 100.0)
}

fn cpu_seconds() -> Fallible<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

async fn end(running: Running) -> Fallible<()> {
    running.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
