//! Memory above the payload for each of 100,000 records held, waiting behind one key or running with
//! a handler whose future is 64 bytes.

use std::fs;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use benches::Fallible;
use benches::topic::Topic;
use benches::workload::{self, VALUE_LEN};
use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, HandlerResult, Ordering, Record};

use crate::{ALLOCATOR, group, until};

const RECORDS: u64 = 100_000;
/// Left in the log, so that the client prefetches as it does in earnest.
const BEHIND: u64 = 20_000;

/// All but one wait behind the one that runs.
pub(crate) async fn waiting(bootstrap: &str) -> Fallible<()> {
    let consumer = Consumer::new(group("waiting")?).key_by(|_: &Record| Some(0));
    measure("waiting", bootstrap, consumer, pending).await
}

/// All run.
pub(crate) async fn running(bootstrap: &str) -> Fallible<()> {
    let consumer =
        Consumer::new(group("running")?).ordering(Ordering::Parallel).max_in_flight(RECORDS);
    measure("running", bootstrap, consumer, || Forever([1; 64])).await
}

/// 64 bytes that are never ready.
struct Forever([u8; 64]);

impl Future for Forever {
    type Output = HandlerResult;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        match self.0[0] {
            0 => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }
}

async fn measure<F>(
    what: &str,
    bootstrap: &str,
    consumer: Consumer,
    future: impl Fn() -> F + Send + Sync + 'static,
) -> Fallible<()>
where
    F: Future<Output = HandlerResult> + Send + 'static,
{
    let topic = {
        let bootstrap = bootstrap.to_owned();
        let fill = move || Topic::fill(&bootstrap, RECORDS + BEHIND, 1);
        tokio::task::spawn_blocking(fill).await??
    };
    let idle = (allocated(), resident()?);
    let consumer = consumer
        .topic(topic.name(), move |_: Record| future())
        .max_held(RECORDS)
        .bytes_in_hand(64 * 1024 * 1024);
    let running = consumer.start(Kafka::brokers(bootstrap)).await?;
    until(|| running.stats().held >= RECORDS - 128).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = running.stats().held as f64;
    let payload = VALUE_LEN as f64 + workload::key(0).len() as f64;
    let ours = (allocated() - idle.0) as f64 / held - payload;
    let process = (resident()? - idle.1) as f64 / held - payload;
    println!("| bytes above the payload, a record {what}: allocated by Rust code | {ours:.0} |");
    println!(
        "| bytes above the payload, a record {what}: resident, with the client and the {BEHIND} \
         records that it has prefetched | {process:.0} |"
    );
    running.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

fn allocated() -> i64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64 + stats.bytes_reallocated as i64
}

fn resident() -> Fallible<i64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<i64>()? * 1024)
}
