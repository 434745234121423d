//! The events, and what is made of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde::Deserialize;

const EARTHQUAKES: &str = include_str!("../data/earthquakes.jsonl");

#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) net: String,
    pub(crate) kind: String,
    pub(crate) magnitude: Option<f64>,
    pub(crate) place: Option<String>,
}

/// Produces every event with its network as the key, and returns how many there are.
pub(crate) async fn produce(brokers: &str, topic: &str) -> Result<u64, Box<dyn Error>> {
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("linger.ms", "5").create()?;
    let mut sent = Vec::new();
    for line in EARTHQUAKES.lines() {
        let event: Event = serde_json::from_str(line)?;
        let record = FutureRecord::to(topic).key(&event.net).payload(line);
        sent.push(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    let produced = sent.len() as u64;
    for delivery in sent {
        delivery.await?.map_err(|(error, _)| error)?;
    }
    Ok(produced)
}

/// What the handlers have found so far.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Found>);

#[derive(Clone, Default)]
pub(crate) struct Found {
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) filtered: u64,
    pub(crate) most_at_once: u64,
    pub(crate) work: Duration,
    running: u64,
}

#[derive(Clone, Default)]
pub(crate) struct Network {
    pub(crate) events: u64,
    pub(crate) strongest: Option<(f64, String)>,
}

impl Tally {
    /// Counts a handler as running until the guard is dropped.
    pub(crate) fn begin(&self) -> Busy<'_> {
        let mut found = self.0.lock().unwrap();
        found.running += 1;
        found.most_at_once = found.most_at_once.max(found.running);
        Busy { tally: self, since: Instant::now() }
    }

    pub(crate) fn filter(&self) {
        self.0.lock().unwrap().filtered += 1;
    }

    pub(crate) fn add(&self, event: Event) {
        let mut found = self.0.lock().unwrap();
        let network = found.networks.entry(event.net).or_default();
        network.events += 1;
        if let Some(magnitude) = event.magnitude
            && network.strongest.as_ref().is_none_or(|(strongest, _)| magnitude > *strongest)
        {
            network.strongest = Some((magnitude, event.place.unwrap_or_default()));
        }
    }

    pub(crate) fn found(&self) -> Found {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) struct Busy<'a> {
    tally: &'a Tally,
    since: Instant,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut found = self.tally.0.lock().unwrap();
        found.running -= 1;
        found.work += self.since.elapsed();
    }
}
