//! Records for the broker under test.

use std::time::Duration;

use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders, ToBytes};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;

use super::cluster::Cluster;

const SOON: Duration = Duration::from_secs(10);

impl Cluster {
    /// Appends records whose value is their number in this call, from 0.
    pub(crate) fn fill(self, topic: &str, partition: i32, records: u32) {
        let producer = self.producer();
        for number in 0..records {
            let (key, value) = (format!("k{}", number % 7), format!("{number:08}"));
            let record = BaseRecord::to(topic).partition(partition).key(&key).payload(&value);
            send(&producer, record);
        }
        producer.flush(SOON).expect("all delivered");
    }

    /// Appends one record with everything that a record can have, or nothing.
    pub(crate) fn append(
        self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) {
        let producer = self.producer();
        let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(0);
        record.key = key;
        record.payload = value;
        if !headers.is_empty() {
            let mut all = OwnedHeaders::new();
            for (key, value) in headers {
                all = all.insert(Header { key, value: *value });
            }
            record = record.headers(all);
        }
        send(&producer, record);
        producer.flush(SOON).expect("delivered");
    }
}

fn send<K: ToBytes + ?Sized, V: ToBytes + ?Sized>(
    producer: &BaseProducer,
    mut record: BaseRecord<'_, K, V>,
) {
    loop {
        match producer.send(record) {
            Ok(()) => break,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                producer.poll(Duration::from_millis(10));
            }
            Err((error, _)) => panic!("producing: {error}"),
        }
    }
}
