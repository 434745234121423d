//! Who gets which partition when, as bare members see it.

use std::time::Duration;

use kpipe_core::source::CommitErrorKind::{Fenced, Retry};
use kpipe_core::source::Event;
use kpipe_test::{Broker, Protocol};

use crate::bare::{Bare, GROUP, TOPIC};

fn broker(protocol: Protocol) -> Broker {
    let broker = Broker::builder().protocol(protocol).build();
    broker.create_topic(TOPIC, 6);
    broker
}

#[tokio::test(start_paused = true)]
async fn an_eager_group_gives_back_everything_before_anything_is_dealt_out() {
    let broker = broker(Protocol::Eager);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    let mut b = Bare::join(broker.client().named("b")).await;
    assert_eq!(b.event(), None, "waits for a");
    assert!(broker.is_rebalancing(GROUP));
    assert_eq!(a.event().as_deref(), Some("revoked [0, 1, 2, 3, 4, 5]"));
    assert_eq!(a.commit(0, 7).await, Ok(()), "the old generation counts until the new one");
    a.unassign(vec![0, 1, 2, 3, 4, 5]).await;
    a.follow("assigned [0, 1, 2]").await;
    b.follow("assigned [3, 4, 5]").await;
    let mut c = Bare::join(broker.client().named("c")).await;
    a.follow("revoked [0, 1, 2]").await;
    assert_eq!(c.event(), None, "waits for b");
    b.follow("revoked [3, 4, 5]").await;
    for (member, expected) in
        [(&mut a, "assigned [0, 1]"), (&mut b, "assigned [2, 3]"), (&mut c, "assigned [4, 5]")]
    {
        member.follow(expected).await;
    }
    assert_eq!(broker.generation(GROUP), 3);
    b.leave().await;
    a.follow("revoked [0, 1]").await;
    c.follow("revoked [4, 5]").await;
    a.follow("assigned [0, 1, 2]").await;
    c.follow("assigned [3, 4, 5]").await;
    assert_eq!(broker.members(GROUP), ["a", "c"]);
    assert_eq!(a.starts[&0], (7, true));
    assert_eq!(a.starts[&2], (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_cooperative_group_moves_only_what_it_must_and_only_once_all_have_given_back() {
    let broker = broker(Protocol::Cooperative);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    let mut b = Bare::join(broker.client().named("b")).await;
    a.follow("revoked [3, 4, 5]").await;
    b.follow("assigned [3, 4, 5]").await;
    let mut c = Bare::join(broker.client().named("c")).await;
    a.follow("revoked [2]").await;
    assert_eq!((a.event(), c.event()), (None, None), "waits for b");
    b.follow("revoked [5]").await;
    c.follow("assigned [2, 5]").await;
    assert_eq!((a.event(), b.event()), (None, None), "they keep the rest");
}

#[tokio::test(start_paused = true)]
async fn an_incremental_group_hands_on_each_partition_as_it_comes_back() {
    let broker = broker(Protocol::Incremental);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    let mut b = Bare::join(broker.client().named("b")).await;
    a.follow("revoked [3, 4, 5]").await;
    b.follow("assigned [3, 4, 5]").await;
    let mut c = Bare::join(broker.client().named("c")).await;
    a.follow("revoked [2]").await;
    c.follow("assigned [2]").await;
    assert!(broker.is_rebalancing(GROUP));
    b.follow("revoked [5]").await;
    c.follow("assigned [5]").await;
    assert!(!broker.is_rebalancing(GROUP));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_give_back_in_time_is_expelled_fenced_and_joins_again() {
    for protocol in [Protocol::Eager, Protocol::Incremental] {
        let broker = broker(protocol);
        let client = |name| broker.client().named(name).rebalance_timeout(Duration::from_secs(10));
        let mut a = Bare::join(client("a")).await;
        a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
        assert_eq!(a.commit(0, 1).await, Ok(()));
        let mut b = Bare::join(client("b")).await;
        assert!(a.event().unwrap().starts_with("revoked"), "and does nothing");
        tokio::time::advance(Duration::from_secs(11)).await;
        b.follow("assigned [0, 1, 2, 3, 4, 5]").await;
        assert_eq!(b.commit(0, 2).await, Ok(()));
        assert_eq!(a.commit(0, 3).await, Err(Fenced), "{protocol:?}");
        assert_eq!(broker.committed(GROUP, TOPIC, 0), Some(2));
        assert_eq!(broker.members(GROUP), ["b"]);
        assert_eq!(a.event(), None, "one thing at a time");
        if protocol == Protocol::Eager {
            a.unassign(vec![0, 1, 2, 3, 4, 5]).await;
        } else {
            a.unassign(vec![3, 4, 5]).await;
            a.follow("lost [0, 1, 2]").await;
        }
        assert_eq!(broker.members(GROUP), ["a", "b"], "joins again once it has let go");
        assert!(b.event().unwrap().starts_with("revoked"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cooperative_group_waits_for_what_it_asked_back_from_the_next_rebalance_on() {
    let broker = broker(Protocol::Cooperative);
    let client = |name| broker.client().named(name).rebalance_timeout(Duration::from_secs(10));
    let mut a = Bare::join(client("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    let mut b = Bare::join(client("b")).await;
    assert_eq!(a.event().as_deref(), Some("revoked [3, 4, 5]"), "and does nothing");
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!((b.event(), broker.members(GROUP).len()), (None, 2), "nobody counts the time");
    let mut c = Bare::join(client("c")).await;
    tokio::time::advance(Duration::from_secs(11)).await;
    b.follow("assigned [0, 2, 4]").await;
    c.follow("assigned [1, 3, 5]").await;
    assert_eq!(a.commit(0, 3).await, Err(Fenced));
    assert_eq!(broker.members(GROUP), ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn an_expelled_member_loses_everything_and_joins_again_by_itself() {
    let broker = broker(Protocol::Cooperative);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    assert!(broker.expel("a"));
    assert_eq!(a.commit(0, 3).await, Err(Fenced));
    a.follow("lost [0, 1, 2, 3, 4, 5]").await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    assert_eq!(a.commit(0, 3).await, Ok(()));
    assert!(!broker.expel("nobody"));
}

#[tokio::test(start_paused = true)]
async fn a_member_hears_with_its_next_heartbeat_or_the_answer_to_a_commit() {
    let broker = Broker::builder().heartbeat(Duration::from_secs(3)).build();
    broker.create_topic(TOPIC, 6);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    broker.expel("a");
    let mut b = Bare::join(broker.client().named("b")).await;
    b.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    assert_eq!(a.event(), None);
    tokio::time::advance(Duration::from_secs(3)).await;
    a.follow("lost [0, 1, 2, 3, 4, 5]").await;
    tokio::time::advance(Duration::from_secs(3)).await;
    b.follow("revoked [0, 1, 2, 3, 4, 5]").await;
    a.follow("assigned [0, 1, 2]").await;
    broker.expel("a");
    assert_eq!(a.event(), None);
    assert_eq!(a.commit(0, 3).await, Err(Fenced));
    a.follow("lost [0, 1, 2]").await;
}

#[tokio::test(start_paused = true)]
async fn partitions_go_where_the_test_says() {
    let broker = broker(Protocol::Cooperative);
    let mut a = Bare::join(broker.client().named("a")).await;
    let mut b = Bare::join(broker.client().named("b")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    a.follow("revoked [3, 4, 5]").await;
    b.follow("assigned [3, 4, 5]").await;
    assert!(broker.move_partition(TOPIC, 0, "b"));
    a.follow("revoked [0]").await;
    b.follow("assigned [0]").await;
    assert_eq!(broker.owner(GROUP, TOPIC, 0).as_deref(), Some("b"));
    assert_eq!(broker.assignment("a").len(), 2);
    assert!(broker.hand_back(GROUP, TOPIC, 1));
    a.follow("revoked [1]").await;
    a.follow("assigned [1]").await;
    broker.let_assignor_decide(GROUP);
    b.follow("revoked [5]").await;
    a.follow("assigned [5]").await;
    assert!(!broker.move_partition(TOPIC, 9, "b") && !broker.move_partition(TOPIC, 0, "nobody"));
}

#[tokio::test(start_paused = true)]
async fn a_killed_member_leaves_its_partitions_when_its_session_is_over() {
    let broker = broker(Protocol::Eager);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    broker.append(TOPIC, kpipe_test::TestRecord::new().partition(0)).unwrap();
    assert!(broker.kill("a", Duration::from_secs(30)));
    assert!(!broker.kill("a", Duration::ZERO), "only once");
    assert!(a.take(0, 9).is_empty());
    drop(a);
    let mut b = Bare::join(broker.client().named("b")).await;
    tokio::time::advance(Duration::from_secs(29)).await;
    assert_eq!(b.event(), None);
    tokio::time::advance(Duration::from_secs(1)).await;
    b.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    assert_eq!(b.take(0, 9), [0]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_a_session_costs_the_partitions_and_they_come_back() {
    for whole in [true, false] {
        let broker = broker(Protocol::Cooperative);
        let mut a = Bare::join(broker.client().named("a")).await;
        a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
        let away =
            |during| if whole { broker.go_away(during) } else { broker.coordinator_away(during) };
        away(Duration::from_secs(30));
        assert_eq!(a.commit(0, 1).await, Err(Retry));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!((a.event(), a.commit(0, 1).await), (None, Ok(())));
        away(Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(46)).await;
        a.follow("lost [0, 1, 2, 3, 4, 5]").await;
        assert_eq!(a.event(), None);
        tokio::time::advance(Duration::from_secs(14)).await;
        a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
        assert_eq!(a.starts[&0], (1, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_is_a_zombie_while_others_go_on() {
    let broker = broker(Protocol::Incremental);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    let mut b = Bare::join(broker.client().named("b")).await;
    assert!(broker.cut_off("a", Duration::from_secs(100)));
    a.event();
    tokio::time::advance(Duration::from_secs(46)).await;
    b.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    assert_eq!(a.commit(0, 1).await, Err(Retry), "it reaches nobody");
    assert_eq!(a.event(), None, "one thing at a time");
    a.unassign(vec![3, 4, 5]).await;
    a.follow("lost [0, 1, 2]").await;
    assert_eq!(broker.members(GROUP), ["b"]);
    broker.come_back();
    b.follow("revoked [3, 4, 5]").await;
    a.follow("assigned [3, 4, 5]").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_out_of_reach_counts_once_it_can_be_said() {
    for protocol in [Protocol::Eager, Protocol::Cooperative, Protocol::Incremental] {
        let broker = broker(protocol);
        let mut a = Bare::join(broker.client().named("a")).await;
        a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
        let mut b = Bare::join(broker.client().named("b")).await;
        broker.cut_off("a", Duration::from_secs(5));
        a.serve().await;
        assert_eq!(b.event(), None, "{protocol:?}");
        let event = tokio::time::timeout(Duration::from_secs(6), b.source.next_event()).await;
        assert!(matches!(event, Ok(Event::Assigned(partitions)) if partitions.len() == 3));
        assert_eq!(broker.assignment("b").len(), 3, "{protocol:?}");
        assert!(!broker.is_rebalancing(GROUP), "{protocol:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_event_is_woken_for_what_comes_due_meanwhile() {
    let broker = broker(Protocol::Eager);
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1, 2, 3, 4, 5]").await;
    let begun = tokio::time::Instant::now();
    let (event, ()) = tokio::join!(a.source.next_event(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        broker.go_away(Duration::from_secs(100));
    });
    assert!(matches!(event, Event::Lost(partitions) if partitions.len() == 6));
    assert_eq!(begun.elapsed(), Duration::from_secs(46));
}
