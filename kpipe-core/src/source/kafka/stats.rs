//! What librdkafka's statistics say about the traffic.

use std::collections::HashMap;

use serde::Deserialize;

/// Adds up what was fetched, over partitions and over time.
///
/// librdkafka counts per partition, and begins at 0 again when it forgets a partition and meets it
/// anew.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    seen: HashMap<String, HashMap<i32, Counts>>,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    records: u64,
    bytes: u64,
}

impl Fetched {
    /// Takes in one report.
    ///
    /// # Errors
    /// When the text is not librdkafka's.
    pub(super) fn add(&mut self, json: &[u8]) -> serde_json::Result<()> {
        let report: Report<'_> = serde_json::from_slice(json)?;
        for (topic, Topic { partitions }) in report.topics {
            let seen = match self.seen.get_mut(topic) {
                Some(seen) => seen,
                None => self.seen.entry(topic.to_owned()).or_default(),
            };
            for partition in partitions.into_values().filter(|one| one.partition >= 0) {
                let now = Counts { records: partition.rxmsgs, bytes: partition.rxbytes };
                let before = seen.insert(partition.partition, now).unwrap_or_default();
                self.records += since(before.records, now.records);
                self.bytes += since(before.bytes, now.bytes);
            }
        }
        Ok(())
    }
}

fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

// Everything not named here is skipped without being built.
#[derive(Deserialize)]
struct Report<'a> {
    #[serde(borrow, default)]
    topics: HashMap<&'a str, Topic<'a>>,
}

#[derive(Deserialize)]
struct Topic<'a> {
    #[serde(borrow, default)]
    partitions: HashMap<&'a str, Partition>,
}

#[derive(Deserialize)]
struct Partition {
    partition: i32,
    rxmsgs: u64,
    rxbytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(partitions: &[(i32, u64, u64)]) -> String {
        let partitions: Vec<_> = partitions
            .iter()
            .map(|(id, records, bytes)| {
                format!(
                    r#""{id}":{{"partition":{id},"broker":1,"rxmsgs":{records},"rxbytes":{bytes},"x":[1]}}"#
                )
            })
            .collect();
        format!(
            r#"{{"name":"c","brokers":{{"b/1":{{"rxbytes":9}}}},"topics":{{"t":{{"age":1,"partitions":{{{}}}}}}}}}"#,
            partitions.join(",")
        )
    }

    #[test]
    fn counts_add_up_over_partitions_and_survive_one_that_starts_again() {
        let mut fetched = Fetched::default();
        fetched.add(report(&[(0, 10, 100), (1, 5, 50), (-1, 7, 70)]).as_bytes()).unwrap();
        assert_eq!((fetched.records, fetched.bytes), (15, 150), "-1 is librdkafka's own");
        fetched.add(report(&[(0, 12, 120)]).as_bytes()).unwrap();
        assert_eq!((fetched.records, fetched.bytes), (17, 170), "1 was forgotten, not undone");
        fetched.add(report(&[(0, 12, 120), (1, 2, 20)]).as_bytes()).unwrap();
        assert_eq!((fetched.records, fetched.bytes), (19, 190), "1 began at 0 again");
    }

    #[test]
    fn a_report_without_topics_or_of_another_kind_changes_nothing() {
        let mut fetched = Fetched::default();
        fetched.add(br#"{"name":"c"}"#).unwrap();
        assert!(fetched.add(b"{").is_err());
        assert_eq!(fetched.records, 0);
    }
}
