//! How commits are judged and answered, as bare members see it.

use std::time::Duration;

use futures::FutureExt;
use kpipe_core::source::CommitErrorKind::{Fenced, Permanent, Retry};
use kpipe_core::source::CommitOffset;
use kpipe_test::{Broker, CommitFault, Protocol, Seen, What};

use crate::bare::{Bare, GROUP, TOPIC, at};

const SECOND: Duration = Duration::from_secs(1);

fn broker(protocol: Protocol) -> Broker {
    let broker = Broker::builder().protocol(protocol).build();
    broker.create_topic(TOPIC, 2);
    broker
}

async fn only(broker: &Broker) -> Bare {
    let mut member = Bare::join(broker.client().named("a")).await;
    member.follow("assigned [0, 1]").await;
    member
}

/// C9
#[tokio::test(start_paused = true)]
async fn a_commit_that_arrives_after_its_partition_went_to_another_moves_nothing() {
    for (protocol, answer) in
        [(Protocol::Eager, Fenced), (Protocol::Cooperative, Fenced), (Protocol::Incremental, Retry)]
    {
        let broker = broker(protocol);
        let mut a = only(&broker).await;
        broker.on_commits("a", [CommitFault::Late(5 * SECOND)]);
        let mut late = Box::pin(a.commit(1, 3));
        assert_eq!(late.as_mut().now_or_never(), None);
        let mut b = Bare::join(broker.client().named("b")).await;
        drop(late);
        let revoked = if protocol == Protocol::Eager { "revoked [0, 1]" } else { "revoked [1]" };
        a.follow(revoked).await;
        b.follow("assigned [1]").await;
        assert_eq!(b.commit(1, 10).await, Ok(()));
        tokio::time::advance(5 * SECOND).await;
        assert_eq!(broker.committed(GROUP, TOPIC, 1), Some(10), "{protocol:?}");
        let refused =
            |seen: &Seen| matches!(seen.what, What::CommitRefused { kind, .. } if kind == answer);
        assert!(broker.history().iter().any(refused), "{protocol:?}");
        assert_eq!(a.commit(0, 1).await, Ok(()), "in the generation that is on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_may_commit_what_it_does_not_own_in_its_own_generation() {
    let broker = broker(Protocol::Cooperative);
    let mut a = only(&broker).await;
    let _b = Bare::join(broker.client().named("b")).await;
    a.follow("revoked [1]").await;
    assert_eq!(a.commit(1, 3).await, Ok(()), "as Kafka lets it");
    assert_eq!(broker.committed(GROUP, TOPIC, 1), Some(3));
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_to_a_commit_what_it_says() {
    let broker = broker(Protocol::Eager);
    let a = only(&broker).await;
    let committed = || broker.committed(GROUP, TOPIC, 0);
    for kind in [Retry, Fenced, Permanent] {
        broker.on_commits("a", [CommitFault::Fail(kind)]);
        assert_eq!((a.commit(0, 1).await, committed()), (Err(kind), None));
    }
    broker.on_commits("a", [CommitFault::AnswerLost]);
    assert_eq!((a.commit(0, 2).await, committed()), (Err(Retry), Some(2)));
    for (fault, next, stored) in [(CommitFault::Unanswered, 3, 3), (CommitFault::Lost, 4, 3)] {
        broker.on_commits("a", [fault]);
        let mut answer = Box::pin(a.commit(0, next));
        let waited = tokio::time::timeout(3_600 * SECOND, &mut answer).await;
        assert!(waited.is_err(), "{fault:?}");
        broker.release_answers();
        assert_eq!(answer.await, Err(Retry), "{fault:?}");
        assert_eq!(committed(), Some(stored), "{fault:?}");
    }

    let begun = tokio::time::Instant::now();
    broker.on_commits("a", [CommitFault::AnswerLate(SECOND), CommitFault::Late(SECOND)]);
    {
        let mut answer = Box::pin(a.commit(0, 5));
        assert_eq!((answer.as_mut().now_or_never(), committed()), (None, Some(5)));
        assert_eq!(answer.await, Ok(()));
    }
    {
        let mut answer = Box::pin(a.commit(0, 6));
        assert_eq!((answer.as_mut().now_or_never(), committed()), (None, Some(5)));
        assert_eq!((answer.await, committed()), (Ok(()), Some(6)));
    }
    assert_eq!(begun.elapsed(), 2 * SECOND);

    broker.on_commits("a", [CommitFault::AnswerHeld]);
    let mut answer = Box::pin(a.commit(0, 7));
    assert_eq!((answer.as_mut().now_or_never(), committed()), (None, Some(7)));
    assert_eq!(broker.answers_held(), 1);
    broker.release_answers();
    assert_eq!(answer.await, Ok(()));
    assert_eq!(a.commit(0, 8).await, Ok(()), "the script is through");
}

#[tokio::test(start_paused = true)]
async fn a_commit_on_its_way_arrives_whoever_waits_for_it() {
    let broker = broker(Protocol::Eager);
    let a = only(&broker).await;
    broker.on_commits("a", [CommitFault::Late(SECOND), CommitFault::Late(2 * SECOND)]);
    assert_eq!(a.commit(0, 5).now_or_never(), None);
    tokio::time::advance(SECOND).await;
    assert_eq!(broker.committed(GROUP, TOPIC, 0), Some(5));
    let mut late = Box::pin(a.commit(0, 6));
    assert_eq!(late.as_mut().now_or_never(), None);
    broker.kill("a", 30 * SECOND);
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(broker.committed(GROUP, TOPIC, 0), Some(6), "sent before it died");
    assert_eq!(a.commit(0, 7).now_or_never(), None, "nothing comes of the dead");
    assert_eq!(late.now_or_never(), None, "and they are told nothing");
    assert_eq!(broker.committed(GROUP, TOPIC, 0), Some(6));
}

#[tokio::test(start_paused = true)]
async fn each_partition_is_answered_for_itself() {
    let broker = broker(Protocol::Eager);
    let a = only(&broker).await;
    let offsets = [0, 7, 1].map(|partition| CommitOffset { partition: at(partition), next: 4 });
    let answers = a.source.commit(offsets.to_vec()).await;
    let kinds: Vec<_> =
        answers.into_iter().map(|answer| answer.map_err(|error| error.kind)).collect();
    assert_eq!(kinds, [Ok(()), Err(Retry), Ok(())]);
    assert_eq!(a.source.commit(Vec::new()).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn offsets_are_set_by_hand_with_metadata_up_to_its_limit() {
    let broker = broker(Protocol::Eager);
    broker.alter_committed(GROUP, TOPIC, 0, 9, vec![7; 4_096]).unwrap();
    assert_eq!(broker.committed(GROUP, TOPIC, 0), Some(9));
    assert_eq!(broker.committed_metadata(GROUP, TOPIC, 0).unwrap().len(), 4_096);
    let refused = broker.alter_committed(GROUP, TOPIC, 0, 10, vec![7; 4_097]).unwrap_err();
    assert!(refused.to_string().contains("4097"), "{refused}");
    assert!(broker.alter_committed(GROUP, TOPIC, 2, 0, "").is_err());
    assert_eq!(broker.committed(GROUP, TOPIC, 0), Some(9));
    let a = only(&broker).await;
    assert_eq!(a.starts[&0], (9, true));
    let refused = broker.alter_committed(GROUP, TOPIC, 0, 8, "").unwrap_err();
    assert!(refused.to_string().contains("has members"), "{refused}");
    broker.forget_committed(GROUP, TOPIC, 0);
    assert_eq!(broker.committed(GROUP, TOPIC, 0), None);
}
