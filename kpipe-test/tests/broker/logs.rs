//! Where a partition starts, and what becomes of a position when its log changes.

use std::time::Duration;

use kpipe_core::StartAt;
use kpipe_test::{Broker, Protocol, TestRecord};

use crate::bare::{Bare, GROUP, TOPIC};

fn broker(records: usize) -> Broker {
    let broker = Broker::builder().prefetch_records(4).build();
    broker.create_topic(TOPIC, 1);
    write(&broker, records);
    broker
}

fn write(broker: &Broker, records: usize) {
    for _ in 0..records {
        broker.append(TOPIC, TestRecord::new()).unwrap();
    }
}

async fn started(broker: &Broker, start_at: StartAt) -> Bare {
    let mut member = Bare::join_from(broker.client().named("a"), start_at).await;
    member.follow("assigned [0]").await;
    member
}

#[tokio::test(start_paused = true)]
async fn offsets_without_records_are_gone_over() {
    let broker = broker(2);
    broker.skip(TOPIC, 0, 1);
    write(&broker, 1);
    broker.skip(TOPIC, 0, 1_000_000_000);
    write(&broker, 2);
    broker.skip(TOPIC, 0, 1);
    assert!(broker.compact(TOPIC, 0, 1) && !broker.compact(TOPIC, 0, 1));
    let member = started(&broker, StartAt::Earliest).await;
    assert_eq!(member.take(0, 9), [0, 3, 1_000_000_004, 1_000_000_005]);
    assert_eq!(broker.log_range(TOPIC, 0), Some((0, 1_000_000_007)));
    assert_eq!(broker.last_offset(TOPIC, 0), Some(1_000_000_005));
    let ends = member.source.log_ends(vec![crate::bare::at(0), crate::bare::at(5)]).await;
    assert_eq!(ends, [Some(1_000_000_007), None]);
}

/// C10
#[tokio::test(start_paused = true)]
async fn the_first_member_of_a_group_starts_by_policy() {
    for (policy, start) in [(StartAt::Earliest, 5_000), (StartAt::Latest, 5_003)] {
        let broker = broker(0);
        broker.skip(TOPIC, 0, 5_000);
        broker.truncate_before(TOPIC, 0, 5_000);
        write(&broker, 3);
        let mut member = started(&broker, policy).await;
        assert_eq!(member.starts[&0], (start, false));
        write(&broker, 1);
        assert_eq!(member.take(0, 9).first(), Some(&start));
        assert_eq!(member.event(), None);
    }
    let broker = broker(3);
    let mut member = started(&broker, StartAt::Fail).await;
    let failed = "failed 0: the group has committed nothing; start_at = fail";
    assert_eq!(member.event().as_deref(), Some(failed));
    assert_eq!(member.commit(0, 1).await, Ok(()));
    member.assign(vec![0]).await;
    assert_eq!(member.take(0, 9), [1, 2], "when it is tried again");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_the_log_gave_up_gives_way_to_the_policy() {
    let broker = broker(10);
    broker.alter_committed(GROUP, TOPIC, 0, 2, "").unwrap();
    broker.truncate_before(TOPIC, 0, 5);
    let mut member = started(&broker, StartAt::Earliest).await;
    assert_eq!(member.starts[&0], (5, false));
    let told = member.event().unwrap();
    assert!(told.starts_with("error orders/0: the committed offset 2 is not in the log"), "{told}");
    assert_eq!(member.take(0, 1), [5]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_beyond_the_log_is_found_out_by_the_fetch() {
    for (policy, start) in
        [(StartAt::Earliest, Some(0)), (StartAt::Latest, Some(10)), (StartAt::Fail, None)]
    {
        let broker = broker(10);
        broker.alter_committed(GROUP, TOPIC, 0, 500, "").unwrap();
        let mut member = started(&broker, policy).await;
        assert_eq!(member.starts[&0], (500, true));
        assert_eq!(member.event(), None, "nobody has looked");
        member.arrivals[&0].arrived().await;
        assert!(member.take(0, 9).is_empty());
        assert!(member.take(0, 9).is_empty());
        assert_eq!(member.event().as_deref(), Some("position lost 0"));
        assert_eq!(member.event(), None, "told once");
        member.unassign(vec![0]).await;
        member.assign(vec![0]).await;
        let told = member.event().unwrap();
        match start {
            Some(start) => {
                assert_eq!(member.starts[&0], (start, false));
                assert!(told.contains("the log does not go on at 500"), "{told}");
            }
            None => assert!(told.ends_with("start_at = fail"), "{told}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_prefetched_survives_a_truncation_that_then_costs_the_position() {
    let broker = broker(10);
    let mut member = started(&broker, StartAt::Latest).await;
    member.unassign(vec![0]).await;
    assert_eq!(member.commit(0, 0).await, Ok(()));
    member.assign(vec![0]).await;
    broker.truncate_before(TOPIC, 0, 8);
    assert_eq!(member.take(0, 2), [0, 1]);
    assert_eq!(member.event(), None);
    assert_eq!(member.take(0, 9), [2, 3]);
    assert_eq!(member.event().as_deref(), Some("position lost 0"));
    assert_eq!(broker.records(TOPIC).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_truncation_below_the_position_costs_nothing() {
    let broker = broker(10);
    let mut member = started(&broker, StartAt::Earliest).await;
    assert_eq!(member.take(0, 100).len(), 10);
    broker.skip(TOPIC, 0, 5);
    broker.truncate_before(TOPIC, 0, 15);
    write(&broker, 1);
    assert_eq!((member.take(0, 9), member.event()), (vec![15], None));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_loses_its_end_takes_a_position_beyond_back_to_what_is_committed() {
    for (committed, starts) in [(4, vec![(4, true)]), (9, vec![(9, true), (0, false)])] {
        let broker = broker(10);
        let mut member = started(&broker, StartAt::Earliest).await;
        assert_eq!(member.take(0, 100).len(), 10);
        member.commit(0, committed).await.unwrap();
        broker.cut(TOPIC, 0, 6);
        for start in starts {
            assert!(member.take(0, 9).is_empty());
            assert_eq!(member.event().as_deref(), Some("position lost 0"));
            member.unassign(vec![0]).await;
            member.assign(vec![0]).await;
            assert_eq!(member.starts[&0], start);
        }
        write(&broker, 1);
        assert_eq!(broker.records(TOPIC).pop().unwrap().leader_epoch(), Some(1));
        assert_eq!(member.take(0, 100).last(), Some(&6));
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_cut_and_grew_past_the_position_is_found_out() {
    let broker = broker(10);
    let mut member = started(&broker, StartAt::Earliest).await;
    assert_eq!(member.take(0, 100).len(), 10);
    member.commit(0, 3).await.unwrap();
    broker.go_away(Duration::from_secs(1));
    broker.cut(TOPIC, 0, 6);
    write(&broker, 10);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(member.take(0, 9).is_empty());
    assert_eq!(member.event().as_deref(), Some("position lost 0"));
    broker.cut(TOPIC, 0, 12);
    member.unassign(vec![0]).await;
    member.assign(vec![0]).await;
    assert_eq!(member.take(0, 100), (3..12).collect::<Vec<_>>());
    broker.cut(TOPIC, 0, 12);
    write(&broker, 1);
    assert_eq!((member.take(0, 9), member.event()), (vec![12], None), "nothing was lost");
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_made_again_is_another_one() {
    let broker = broker(10);
    let mut member = started(&broker, StartAt::Earliest).await;
    assert_eq!(member.take(0, 100).len(), 10);
    member.commit(0, 10).await.unwrap();
    assert!(broker.delete_topic(TOPIC) && !broker.delete_topic(TOPIC));
    assert_eq!(broker.partitions(TOPIC), None);
    member.follow("revoked [0]").await;
    broker.create_topic(TOPIC, 2);
    assert_eq!(broker.committed(GROUP, TOPIC, 0), None);
    write(&broker, 4);
    member.follow("assigned [0, 1]").await;
    assert_eq!((member.take(0, 9), member.take(1, 9)), (vec![0, 1], vec![0, 1]), "in turn");
    broker.add_partitions(TOPIC, 1);
    member.follow("revoked [0, 1]").await;
    member.follow("assigned [0, 1, 2]").await;
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_the_coordinator_and_fails_if_that_takes_too_long() {
    for (away, waits) in [(3, 3), (8, 5)] {
        let broker = Broker::builder().protocol(Protocol::Cooperative).build();
        broker.create_topic(TOPIC, 1);
        broker.alter_committed(GROUP, TOPIC, 0, 0, "").unwrap();
        let mut member = Bare::join(broker.client()).await;
        broker.coordinator_away(Duration::from_secs(away));
        let begun = tokio::time::Instant::now();
        member.follow("assigned [0]").await;
        assert_eq!(begun.elapsed(), Duration::from_secs(waits));
        let failed = (away > waits).then_some("failed 0: what the group committed: no answer");
        assert_eq!(member.event().as_deref(), failed);
        assert_eq!(member.starts.contains_key(&0), failed.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_position_that_is_in_the_log_again_after_a_rebalance_is_not_lost() {
    let broker = Broker::builder().protocol(Protocol::Cooperative).build();
    broker.create_topic(TOPIC, 2);
    broker.alter_committed(GROUP, TOPIC, 0, 3, "").unwrap();
    let mut a = Bare::join(broker.client()).await;
    a.follow("assigned [0, 1]").await;
    let _b = Bare::join(broker.client()).await;
    for _ in 0..4 {
        broker.append(TOPIC, TestRecord::new().partition(0)).unwrap();
    }
    a.follow("revoked [1]").await;
    assert_eq!((a.take(0, 9), a.event()), (vec![3], None));
}
