//! What a record is, and where it goes.

use kpipe_core::{Record, Timestamp};

use crate::cluster::{Cluster, NewRecord, Refusal};
use crate::member::join;
use crate::unique;

pub(crate) async fn a_record_arrives_whole(cluster: impl Cluster) {
    let topic = cluster.topic(1).await;
    let odd = || Some(b"\xff\x00\xfe".to_vec());
    let headers =
        vec![("a", Some(b"1".to_vec())), ("b", None), ("a", Some(Vec::new())), ("c", odd())];
    let sent = [
        NewRecord { key: odd(), value: odd(), headers, ..NewRecord::default() },
        NewRecord::default(),
        NewRecord { value: Some(Vec::new()), ..NewRecord::default() }.key(""),
        NewRecord::default().key("gone"),
        NewRecord::of("no key"),
    ];
    for record in &sent {
        cluster.produce(&topic, record.clone().to(0)).await.expect("written");
    }
    let mut member = join(&cluster, &unique("g"), &[&topic]).await;
    member.until_read(sent.len()).await;
    let read = member.read.values().next().expect("read");
    assert_eq!(read.len(), sent.len());
    for (record, sent) in read.iter().zip(&sent) {
        assert_eq!(record.key(), sent.key.as_deref());
        assert_eq!(record.value(), sent.value.as_deref());
        let headers = record.headers().iter();
        let found: Vec<_> =
            headers.map(|header| (header.name().into_owned(), header.value())).collect();
        let expected = sent.headers.iter();
        let expected: Vec<_> =
            expected.map(|(name, value)| ((*name).to_owned(), value.as_deref())).collect();
        assert_eq!(found, expected, "order, duplicates, nulls and odd bytes are kept");
        assert_eq!((record.topic(), record.leader_epoch()), (topic.as_str(), Some(0)));
    }
}

pub(crate) async fn times_are_those_of_the_producer(cluster: impl Cluster) {
    let topic = cluster.topic(1).await;
    // Out of order and far apart.
    let times = [1_700_000_000_000, 1_600_000_000_123, 1_700_000_000_001];
    for time in times {
        let record = NewRecord { timestamp: Some(time), ..NewRecord::of("value") };
        cluster.produce(&topic, record.to(0)).await.expect("written");
    }
    let mut member = join(&cluster, &unique("g"), &[&topic]).await;
    member.until_read(times.len()).await;
    let read = member.read.values().next().expect("read");
    let found: Vec<_> = read.iter().map(Record::timestamp).collect();
    assert_eq!(found, times.map(Timestamp::CreateTime));
}

pub(crate) async fn offsets_count_within_a_partition(cluster: impl Cluster) {
    let topic = cluster.topic(3).await;
    for (partition, offset) in [(0, 0), (2, 0), (0, 1), (0, 2), (2, 1)] {
        let written = cluster.produce(&topic, NewRecord::of("value").to(partition)).await;
        assert_eq!(written, Ok((partition, offset)));
    }
    let mut member = join(&cluster, &unique("g"), &[&topic]).await;
    member.until_read(5).await;
    assert_eq!(member.offsets(0), [0, 1, 2]);
    assert_eq!(member.offsets(1), [] as [i64; 0]);
    assert_eq!(member.offsets(2), [0, 1]);
    assert_eq!(cluster.log_range(&topic, 0).await, (0, 3));
    assert_eq!(cluster.log_range(&topic, 1).await, (0, 0));
}

pub(crate) async fn a_key_always_goes_to_the_same_partition(cluster: impl Cluster) {
    let topic = cluster.topic(7).await;
    // As the Java client's default partitioner (murmur2) has it.
    let expected = [("", 2), ("a", 5), ("order-1", 4), ("order-2", 1), ("é", 4), ("4000-0002", 6)];
    for (key, partition) in expected {
        let of = || NewRecord::of("value").key(key);
        let (found, _) = cluster.produce(&topic, of()).await.expect("written");
        let (again, _) = cluster.produce(&topic, of()).await.expect("written");
        assert_eq!((found, again), (partition, partition), "{key:?}");
    }
}

pub(crate) async fn what_the_broker_does_not_take_is_refused(cluster: impl Cluster) {
    let topic = cluster.topic(1).await;
    let sized = |bytes| NewRecord { value: Some(vec![7; bytes]), ..NewRecord::default() }.to(0);
    assert_eq!(cluster.produce(&topic, sized(1_000_000)).await, Ok((0, 0)));
    assert_eq!(cluster.produce(&topic, sized(1_100_000)).await, Err(Refusal::TooLarge));
    let lost = cluster.produce(&topic, NewRecord::of("value").to(1)).await;
    assert_eq!(lost, Err(Refusal::UnknownTopic), "no such partition");
    let lost = cluster.produce("no-such-topic", NewRecord::of("value").to(0)).await;
    assert_eq!(lost, Err(Refusal::UnknownTopic));
    assert_eq!(cluster.produce(&topic, sized(1)).await, Ok((0, 1)), "and it goes on");
}
