//! The broker under test: its address and its topics.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

const SOON: Duration = Duration::from_secs(10);

/// A broker that answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub(crate) address: &'static str,
}

impl Cluster {
    /// `None`, with the reason printed, where there is no broker and none can be started.
    pub(crate) fn get() -> Option<Self> {
        static ADDRESS: OnceLock<Result<String, String>> = OnceLock::new();
        match ADDRESS.get_or_init(find) {
            Ok(address) => Some(Self { address }),
            Err(reason) => {
                let required = std::env::var("KPIPE_REQUIRE_KAFKA").is_ok_and(|set| set == "1");
                assert!(!required, "KPIPE_REQUIRE_KAFKA=1, but {reason}");
                eprintln!("skipped: {reason}");
                None
            }
        }
    }

    /// A new topic with a name of its own.
    pub(crate) async fn topic(self, partitions: i32) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("t-{}-{number}", std::process::id());
        self.create(&name, partitions).await;
        name
    }

    pub(crate) async fn create(self, name: &str, partitions: i32) {
        // A topic of this name that was deleted a moment ago may still be there.
        loop {
            let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
            let created = self.admin().create_topics(&[topic], &options()).await;
            match created.expect("an answer")[0] {
                Ok(_) => break,
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, code)) => panic!("creating {name}: {code}"),
            }
        }
        self.await_topic(name, partitions);
    }

    pub(crate) async fn delete(self, name: &str) {
        let deleted = self.admin().delete_topics(&[name], &options()).await.expect("an answer");
        deleted[0].as_ref().expect("deleted");
    }

    /// Deletes the records below the offset.
    pub(crate) async fn truncate(self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
        self.admin().delete_records(&list, &options()).await.expect("deleted");
    }

    pub(crate) fn producer(self) -> BaseProducer {
        ClientConfig::new()
            .set("bootstrap.servers", self.address)
            .set("linger.ms", "1")
            .create()
            .expect("a producer")
    }

    fn admin(self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new()
            .set("bootstrap.servers", self.address)
            .create()
            .expect("an admin client")
    }

    /// Until the broker leads all partitions.
    fn await_topic(self, name: &str, partitions: i32) {
        let producer = self.producer();
        loop {
            let metadata = producer.client().fetch_metadata(Some(name), SOON).expect("metadata");
            let topic = &metadata.topics()[0];
            let led = topic.partitions().iter().filter(|one| one.leader() >= 0).count();
            if topic.error().is_none() && led == partitions as usize {
                return;
            }
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(SOON)).operation_timeout(Some(SOON))
}

fn find() -> Result<String, String> {
    if std::env::var("KPIPE_SKIP_KAFKA").is_ok_and(|set| set == "1") {
        return Err("KPIPE_SKIP_KAFKA=1".into());
    }
    if let Ok(address) = std::env::var("KPIPE_KAFKA") {
        return Ok(address);
    }
    for program in ["java", "mvn"] {
        let mut version = Command::new(program);
        version.arg("-version").stdout(Stdio::null()).stderr(Stdio::null());
        if !version.status().is_ok_and(|status| status.success()) {
            return Err(format!("there is neither KPIPE_KAFKA nor `{program}` to start a broker"));
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kafka");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka");
    let started = Command::new(&script)
        .arg("start")
        // Members of the new protocol hear of a rebalance by their heartbeat, each 5 s by default.
        .args(["--config", "group.consumer.min.heartbeat.interval.ms=100"])
        .args(["--config", "group.consumer.heartbeat.interval.ms=300"])
        .env("KPIPE_KAFKA_DIR", &place)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("scripts/kafka: {error}"))?;
    if !started.status.success() {
        return Err("scripts/kafka did not start a broker".into());
    }
    // The test harness has no end to hook into; this shell outlives it and ends the broker.
    let watch = "while kill -0 \"$1\" 2>/dev/null; do sleep 1; done; exec \"$0\" stop";
    Command::new("sh")
        .args(["-c", watch])
        .arg(&script)
        .arg(std::process::id().to_string())
        .env("KPIPE_KAFKA_DIR", &place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("sh: {error}"))?;
    let output = String::from_utf8_lossy(&started.stdout).into_owned();
    output.lines().last().map(str::to_owned).ok_or_else(|| "no address".into())
}
