//! The topic that every run reads, filled once, and what a group has committed in it.

use std::process::id;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};

use crate::Fallible;
use crate::workload::{self, VALUE_LEN};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A topic with every record in place.
#[derive(Debug)]
pub struct Topic {
    address: String,
    name: String,
    partitions: u32,
}

impl Topic {
    /// Creates a topic of a name of its own and fills it.
    pub fn fill(address: &str, records: u64, partitions: u32) -> Fallible<Self> {
        let started = Instant::now();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let name = format!("kpipe-bench-{records}-{partitions}-{since_epoch}-{}", id());
        let topic = Self { address: address.to_owned(), name, partitions };
        topic.create()?;
        topic.produce(records)?;
        let ends = topic.log_ends()?;
        if ends != records {
            return Err(format!("{}: {ends} records in place of {records}", topic.name).into());
        }
        eprintln!("{}: {records} records in {:.1?}", topic.name, started.elapsed());
        Ok(topic)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn create(&self) -> Fallible<()> {
        let admin: AdminClient<_> = self.config().create()?;
        let topic = NewTopic::new(&self.name, self.partitions as i32, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        for result in futures_now(admin.create_topics([&topic], &options))?? {
            result.map_err(|(name, error)| format!("{name}: not created: {error}"))?;
        }
        Ok(())
    }

    /// Writes the records in their order; the producer is idempotent, so that a retry keeps it.
    fn produce(&self, records: u64) -> Fallible<()> {
        let producer: BaseProducer<Failures> = self
            .config()
            .set("enable.idempotence", "true")
            .set("linger.ms", "20")
            .create_with_context(Failures::default())?;
        let mut value = [0; VALUE_LEN];
        for i in 0..records {
            workload::encode(i, &mut value);
            let key = workload::key(i);
            let mut record = BaseRecord::to(&self.name)
                .partition(workload::partition(i, self.partitions))
                .key(&key)
                .payload(&value);
            while let Err((error, back)) = producer.send(record) {
                if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                    return Err(error.into());
                }
                producer.poll(Duration::from_millis(10));
                record = back;
            }
        }
        producer.flush(Duration::from_secs(120))?;
        match producer.context().failed.load(Relaxed) {
            0 => Ok(()),
            failed => Err(format!("{failed} records were not written").into()),
        }
    }

    fn log_ends(&self) -> Fallible<u64> {
        let client: BaseConsumer = self.config().create()?;
        let mut sum = 0;
        for partition in 0..self.partitions as i32 {
            let (low, high) = self.watermarks(&client, partition)?;
            sum += (high - low) as u64;
        }
        Ok(sum)
    }

    /// A partition of a topic made a moment ago may not have its leader yet.
    fn watermarks(&self, client: &BaseConsumer, partition: i32) -> Fallible<(i64, i64)> {
        let begun = Instant::now();
        loop {
            match client.fetch_watermarks(&self.name, partition, TIMEOUT) {
                Ok(watermarks) => return Ok(watermarks),
                Err(error) if begun.elapsed() > TIMEOUT => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The sum of what the group has committed, asked by a client that is not one of its members.
    pub fn committed_sum(&self, group: &str) -> Fallible<i64> {
        let client: BaseConsumer = self.config().set("group.id", group).create()?;
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_range(&self.name, 0, self.partitions as i32 - 1);
        let committed = client.committed_offsets(partitions, TIMEOUT)?;
        let mut sum = 0;
        for partition in committed.elements() {
            partition.error()?;
            if let Offset::Offset(offset) = partition.offset() {
                sum += offset;
            }
        }
        Ok(sum)
    }

    /// Deletes the topic, where that can be done.
    pub fn delete(&self) -> Fallible<()> {
        let admin: AdminClient<_> = self.config().create()?;
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        for result in futures_now(admin.delete_topics(&[&self.name], &options))?? {
            result.map_err(|(name, error)| format!("{name}: not deleted: {error}"))?;
        }
        Ok(())
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address);
        config
    }
}

/// Admin calls are answered on the client's own thread; all that is needed is to wait.
fn futures_now<F: Future>(future: F) -> Fallible<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?.block_on(future))
}

#[derive(Default)]
struct Failures {
    failed: AtomicU64,
}

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.failed.fetch_add(1, Relaxed);
        }
    }
}
