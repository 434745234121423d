//! Where the events go: a mock cluster inside this process, or brokers that already run.

use std::error::Error;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use kpipe_core::kafka::Kafka;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

pub(crate) enum Cluster {
    Mock(MockCluster<'static, DefaultProducerContext>, String),
    Brokers(String),
}

impl Cluster {
    pub(crate) fn start(brokers: Option<String>) -> Result<Self, Box<dyn Error>> {
        let Some(brokers) = brokers else {
            let mock = MockCluster::new(1)?;
            let brokers = mock.bootstrap_servers();
            return Ok(Self::Mock(mock, brokers));
        };
        Ok(Self::Brokers(brokers))
    }

    pub(crate) fn brokers(&self) -> &str {
        match self {
            Self::Mock(_, brokers) | Self::Brokers(brokers) => brokers,
        }
    }

    /// Creates a topic of its own for this run, so that the program can be run again.
    pub(crate) async fn create_topic(
        &self,
        prefix: &str,
        partitions: i32,
    ) -> Result<String, Box<dyn Error>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let topic = format!("{prefix}-{now}");
        match self {
            Self::Mock(mock, _) => mock.create_topic(&topic, partitions, 1)?,
            Self::Brokers(brokers) => {
                let admin: AdminClient<_> =
                    ClientConfig::new().set("bootstrap.servers", brokers).create()?;
                let new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(1));
                for created in admin.create_topics([&new], &AdminOptions::new()).await? {
                    created.map_err(|(topic, code)| format!("{topic} not created: {code}"))?;
                }
            }
        }
        Ok(topic)
    }

    /// The mock cluster answers a fetch only when its wait is over, new records or not.
    pub(crate) fn tune(&self, kafka: Kafka) -> Kafka {
        match self {
            Self::Mock(..) => kafka.option("fetch.wait.max.ms", "10"),
            Self::Brokers(_) => kafka,
        }
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mock(..) => f.write_str("a mock cluster in this process"),
            Self::Brokers(brokers) => f.write_str(brokers),
        }
    }
}
