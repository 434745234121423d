//! A week of real earthquakes through a consumer that keeps the order of each seismic network.
//!
//! `cargo run --release --example quickstart` needs no broker: librdkafka's mock cluster runs inside
//! the process. `-- --brokers localhost:9092` runs the same against Apache Kafka.

mod cluster;
mod events;
mod summary;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kpipe_core::{Consumer, Ordering, Record, Running, kafka::Kafka};

use crate::cluster::Cluster;
use crate::events::{Event, Tally};

/// What the handler waits for with each event, as one would for a database.
const WORK: Duration = Duration::from_millis(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    examples::log_to_stderr();
    let cluster = Cluster::start(brokers()?)?;
    let topic = cluster.create_topic("kpipe-quickstart", 4).await?;
    let produced = events::produce(cluster.brokers(), &topic).await?;
    println!("{produced} events produced to {topic} on {cluster}");

    let tally = Arc::new(Tally::default());
    let kafka = cluster.tune(Kafka::brokers(cluster.brokers()));
    let running = earthquakes(&topic, tally.clone()).start(kafka).await?;
    let took = wait_for(&running, produced).await;
    let report = running.shutdown(Duration::from_secs(10)).await?;
    summary::print(&tally, &report, took);
    Ok(())
}

/// The consumer: several events at once, those of one network one after the other.
fn earthquakes(topic: &str, tally: Arc<Tally>) -> Consumer {
    Consumer::new(format!("{topic}-group"))
        .topic(topic, move |record: Record| {
            let tally = tally.clone();
            async move {
                let busy = tally.begin();
                let event: Event = serde_json::from_slice(record.value().unwrap_or_default())?;
                if event.kind != "earthquake" {
                    tally.filter();
                    return Ok(());
                }
                tokio::time::sleep(WORK).await;
                tally.add(event);
                drop(busy);
                Ok(())
            }
        })
        .ordering(Ordering::Key)
}

/// Prints progress until everything is finished; returns how long the work took.
async fn wait_for(running: &Running, produced: u64) -> Duration {
    let mut first = None;
    loop {
        let stats = running.stats();
        if stats.received > 0 {
            first.get_or_insert_with(Instant::now);
        }
        let took = first.map_or(Duration::ZERO, |at| at.elapsed());
        if stats.passed >= produced || stats.failed > 0 {
            return took;
        }
        let state = if first.is_none() { "joining the group" } else { "consuming" };
        println!("  {state}: {} of {produced} done, {} running", stats.passed, stats.in_flight);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn brokers() -> Result<Option<String>, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => Ok(None),
        (Some("--brokers"), Some(brokers)) => Ok(Some(brokers)),
        _ => Err("usage: quickstart [--brokers HOST:PORT]".into()),
    }
}
