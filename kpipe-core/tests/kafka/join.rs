//! Joining, reading, and where reading starts.

use kpipe_core::source::StartAt;
use kpipe_core::source::kafka::Kafka;
use kpipe_core::{Timestamp, TopicPartition};

use super::cluster::Cluster;
use super::member::{Member, assert_contiguous, group, subscription};

#[tokio::test(flavor = "multi_thread")]
async fn a_member_reads_every_record_of_every_partition_in_order() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(4).await;
    for partition in 0..4 {
        cluster.fill(&topic, partition, 2_500);
    }
    let mut member = Member::join(cluster, &group(), &topic).await;
    member.until_read(10_000).await;
    for partition in 0..4 {
        assert_contiguous(&member.offsets(partition), 0, 2_500);
    }
    for held in member.held.values() {
        assert_eq!(held.assignment.start, 0, "a number, not a symbol");
        assert!(held.assignment.uncommitted_start);
    }
    assert!(member.source().traffic().last_poll.expect("polled").elapsed().as_secs() < 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_arrives_whole() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(1).await;
    let odd: &[u8] = b"\xff\x00\xfe";
    let headers: &[(&str, Option<&[u8]>)] =
        &[("a", Some(b"1")), ("b", None), ("a", Some(b"")), ("c", Some(odd))];
    cluster.append(&topic, Some(odd), Some(b"value"), headers);
    cluster.append(&topic, None, None, &[]);
    cluster.append(&topic, Some(b""), Some(b""), &[]);
    let big = vec![7; 900_000];
    cluster.append(&topic, Some(b"big"), Some(&big), &[]);
    let many: Vec<(String, Vec<u8>)> = (0..100).map(|i| (format!("h{i}"), vec![0; i])).collect();
    let many: Vec<(&str, Option<&[u8]>)> =
        many.iter().map(|(name, value)| (name.as_str(), Some(&value[..]))).collect();
    cluster.append(&topic, None, Some(b"headers"), &many);

    let mut member = Member::join(cluster, &group(), &topic).await;
    member.until_read(5).await;
    let read = &member.read[&TopicPartition::new(topic.as_str(), 0)];
    assert_eq!((read[0].key(), read[0].value()), (Some(odd), Some(&b"value"[..])));
    let found: Vec<_> =
        read[0].headers().iter().map(|header| (header.name(), header.value())).collect();
    let expected: Vec<_> = headers.iter().map(|(name, value)| ((*name).into(), *value)).collect();
    assert_eq!(found, expected, "order, duplicates, nulls and odd bytes are kept");
    assert!(matches!(read[0].timestamp(), Timestamp::CreateTime(millis) if millis > 0));
    assert_eq!(read[0].leader_epoch(), Some(0));
    assert_eq!(read[0].id().to_string(), format!("{topic}-0-0"));
    assert_eq!((read[1].key(), read[1].value()), (None, None));
    assert!(read[1].headers().is_empty());
    assert_eq!((read[2].key(), read[2].value()), (Some(&b""[..]), Some(&b""[..])));
    assert_eq!(read[3].value(), Some(&big[..]), "larger than one fetch is allowed to be");
    assert_eq!(read[4].headers().len(), 100);
    assert_eq!(read[4].headers().get("h99").expect("there").value(), Some(&[0; 99][..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_member_starts_at_what_was_committed() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(2).await, group());
    cluster.fill(&topic, 0, 100);
    cluster.fill(&topic, 1, 100);
    let mut first = Member::join(cluster, &group, &topic).await;
    first.until_read(200).await;
    let answers = first.commit(&[(&topic, 1, 70), (&topic, 0, 100)]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    first.close(std::time::Duration::from_secs(10)).await;

    let mut second = Member::join(cluster, &group, &topic).await;
    second.until_assigned(2).await;
    let starts: Vec<_> = second.held.values().map(|held| held.assignment.start).collect();
    assert_eq!(starts, [100, 70]);
    assert!(second.held.values().all(|held| !held.assignment.uncommitted_start));
    second.until_read(30).await;
    assert_contiguous(&second.offsets(1), 70, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_begins_at_5000_is_read_from_there() {
    // C10
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(1).await;
    cluster.fill(&topic, 0, 5_100);
    cluster.truncate(&topic, 0, 5_000).await;
    let mut member = Member::join(cluster, &group(), &topic).await;
    member.until_read(100).await;
    assert_contiguous(&member.offsets(0), 5_000, 5_100);
    let held = member.held.values().next().expect("assigned");
    assert_eq!((held.assignment.start, held.assignment.uncommitted_start), (5_000, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_starts_at_the_end_and_says_that_nobody_committed_it() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(1).await;
    cluster.fill(&topic, 0, 50);
    let mut wanted = subscription(&group(), &topic);
    wanted.start_at = StartAt::Latest;
    let mut member = Member::join_with(Kafka::brokers(cluster.address), wanted).await;
    member.until_assigned(1).await;
    let held = member.held.values().next().expect("assigned");
    assert_eq!((held.assignment.start, held.assignment.uncommitted_start), (50, true));
    cluster.fill(&topic, 0, 10);
    member.until_read(10).await;
    assert_contiguous(&member.offsets(0), 50, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_reports_the_partition_and_goes_on_with_the_others() {
    let Some(cluster) = Cluster::get() else { return };
    let (topic, group) = (cluster.topic(2).await, group());
    cluster.fill(&topic, 1, 10);
    let mut first = Member::join(cluster, &group, &topic).await;
    first.until_assigned(2).await;
    assert!(first.commit(&[(&topic, 1, 4)]).await[0].is_ok());
    first.close(std::time::Duration::from_secs(10)).await;

    let mut wanted = subscription(&group, &topic);
    wanted.start_at = StartAt::Fail;
    let mut member = Member::join_with(Kafka::brokers(cluster.address), wanted).await;
    member.until_read(6).await;
    member.until("the report", |me| me.saw("Failed")).await;
    assert_contiguous(&member.offsets(1), 4, 10);
    assert_eq!(member.partitions(), [1]);
    assert!(member.saw("the group has committed nothing"), "{:?}", member.events);
    // Once there is a committed offset it can be assigned again, without a rebalance.
    assert!(member.commit(&[(&topic, 0, 0)]).await[0].is_ok());
    member.assign(vec![TopicPartition::new(topic.as_str(), 0)]).await;
    cluster.fill(&topic, 0, 5);
    member.until_read(11).await;
    assert_contiguous(&member.offsets(0), 0, 5);
    assert_contiguous(&member.offsets(1), 4, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ends_of_the_logs_are_asked_of_the_broker() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(3).await;
    cluster.fill(&topic, 0, 10);
    cluster.fill(&topic, 2, 30);
    let mut member = Member::join(cluster, &group(), &topic).await;
    member.until_assigned(3).await;
    cluster.fill(&topic, 2, 5);
    let mut asked: Vec<_> =
        [2, 0, 1].map(|partition| TopicPartition::new(topic.as_str(), partition)).to_vec();
    let ends = member.source().log_ends(asked.clone()).await;
    assert_eq!(ends, [Some(35), Some(10), Some(0)]);
    asked.push(TopicPartition::new(topic.as_str(), 77));
    let ends = member.source().log_ends(asked).await;
    assert_eq!(ends[..3], [Some(35), Some(10), Some(0)], "one that is not there harms no other");
    assert_eq!(ends[3], None);
}
