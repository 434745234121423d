//! C17: the broker is away for longer than a session and comes back.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kpipe_core::kafka::Kafka;
use kpipe_core::{Consumer, Record};

use super::super::cluster::Cluster;
use super::super::member::group;
use super::{Ledger, committed, start_with, until_within};

/// A broker of the test's own, since it is killed.
struct Broker {
    script: PathBuf,
    place: PathBuf,
}

impl Broker {
    fn new() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kafka");
        let name = format!("kpipe-outage-{}", std::process::id());
        Self { script, place: std::env::temp_dir().join(name) }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.script)
            .args(arguments)
            .env("KPIPE_KAFKA_DIR", &self.place)
            .stderr(Stdio::inherit())
            .output()
            .expect("scripts/kafka runs");
        assert!(output.status.success(), "scripts/kafka {arguments:?}");
        String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let mut stop = Command::new(&self.script);
        stop.arg("stop").env("KPIPE_KAFKA_DIR", &self.place).stdout(Stdio::null());
        let _ = stop.status();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c17_a_broker_that_was_away_past_the_session_is_consumed_from_again() {
    if Cluster::get().is_none() {
        return;
    }
    let broker = Broker::new();
    let address = broker.run(&["start"]);
    let cluster = Cluster { address: Box::leak(address.into_boxed_str()) };
    let topic = cluster.topic(2).await;
    cluster.fill(&topic, 0, 500);
    cluster.fill(&topic, 1, 500);

    let (ledger, group) = (Ledger::default(), group());
    let noting = ledger.clone();
    let consumer = Consumer::new(group.clone())
        .topic(topic.as_str(), move |record: Record| {
            let ledger = noting.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                ledger.note(&record);
                Ok(())
            }
        })
        .max_in_flight(50)
        .commit_interval(Duration::from_millis(100));
    let kafka = Kafka::brokers(cluster.address)
        .option("session.timeout.ms", "6000")
        .option("max.poll.interval.ms", "20000");
    let running = start_with(consumer, kafka).await;
    until_within(Duration::from_secs(20), "it gets on", || ledger.distinct() > 100).await;

    broker.run(&["kill"]);
    tokio::time::sleep(Duration::from_secs(8)).await;
    broker.run(&["restart"]);
    cluster.fill(&topic, 0, 500);
    cluster.fill(&topic, 1, 500);
    until_within(Duration::from_secs(60), "all is handled", || ledger.distinct() == 2_000).await;
    let report = running.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!(committed(cluster, &group, &topic, 2), [1_000; 2], "{report}");
}
