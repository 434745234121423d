//! Assignments, releases and closes that go wrong or take their time, and faults drawn from a seed.

use std::time::Duration;

use futures::FutureExt;
use kpipe_core::source::Closed;
use kpipe_test::{AssignFault, Broker, Chances, Protocol, TestRecord};
use tokio::time::Instant;

use crate::bare::{Bare, GROUP, TOPIC, at};

const SECOND: Duration = Duration::from_secs(1);

fn broker() -> Broker {
    let broker = Broker::builder().protocol(Protocol::Cooperative).build();
    broker.create_topic(TOPIC, 2);
    broker
}

#[tokio::test(start_paused = true)]
async fn an_assignment_is_slow_or_fails() {
    let broker = broker();
    broker.on_assigns("a", [AssignFault::Slow(2 * SECOND), AssignFault::Fail]);
    let mut a = Bare::join(broker.client().named("a")).await;
    let begun = Instant::now();
    a.follow("assigned [0, 1]").await;
    assert_eq!((begun.elapsed(), a.starts.len()), (2 * SECOND, 2));
    a.assign(vec![1]).await;
    assert_eq!(a.event().as_deref(), Some("failed 1: scripted"));
    a.assign(vec![1]).await;
    assert_eq!(a.event(), None);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_back_meanwhile_is_not_started() {
    let broker = broker();
    broker.on_assigns("a", [AssignFault::Slow(2 * SECOND)]);
    let mut a = Bare::join(broker.client().named("a")).await;
    assert_eq!(a.event().as_deref(), Some("assigned [0, 1]"));
    let (broker, joined) = (broker.clone(), broker.clone());
    let join = async {
        tokio::time::sleep(SECOND).await;
        Bare::join(joined.client().named("b")).await
    };
    let ((), mut b) = tokio::join!(a.assign(vec![0, 1]), join);
    assert_eq!(a.starts.keys().collect::<Vec<_>>(), [&0]);
    a.follow("revoked [1]").await;
    b.follow("assigned [1]").await;
    assert_eq!(broker.owner(GROUP, TOPIC, 1).as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_release_yields_nothing_and_is_carried_out_even_if_nobody_waits() {
    for waits in [true, false] {
        let broker = broker();
        broker.append(TOPIC, TestRecord::new().partition(1)).unwrap();
        let mut a = Bare::join(broker.client().named("a")).await;
        a.follow("assigned [0, 1]").await;
        let mut b = Bare::join(broker.client().named("b")).await;
        assert_eq!(a.event().as_deref(), Some("revoked [1]"));
        broker.slow_releases("a", [3 * SECOND]);
        let begun = Instant::now();
        let mut release = a.source.unassign(vec![at(1)]);
        assert!((&mut release).now_or_never().is_none());
        assert_eq!(b.event(), None);
        if waits {
            release.await;
            assert_eq!(begun.elapsed(), 3 * SECOND);
        } else {
            drop(release);
        }
        assert!(a.take(1, 9).is_empty());
        b.follow("assigned [1]").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_takes_its_time_in_the_background() {
    for (takes, within, closed, after) in [
        (0, 5, Closed::Completely, 0),
        (3, 5, Closed::Completely, 3),
        (8, 5, Closed::InBackground, 5),
    ] {
        let broker = broker();
        let mut a = Bare::join(broker.client().named("a")).await;
        a.follow("assigned [0, 1]").await;
        broker.slow_close("a", takes * SECOND);
        let begun = Instant::now();
        assert_eq!(a.source.close(within * SECOND).await, closed);
        assert_eq!(begun.elapsed(), after * SECOND);
        assert_eq!(broker.members(GROUP).is_empty(), closed == Closed::Completely);
        tokio::time::advance((takes - after) * SECOND).await;
        assert!(broker.members(GROUP).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_the_group_does_not_hear_ends_with_the_session() {
    let broker = broker();
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1]").await;
    broker.coordinator_away(10 * SECOND);
    assert_eq!(a.source.close(2 * SECOND).await, Closed::InBackground);
    tokio::time::advance(40 * SECOND).await;
    assert_eq!(broker.members(GROUP), ["a"]);
    tokio::time::advance(5 * SECOND).await;
    assert!(broker.members(GROUP).is_empty());
    let b = Bare::join(broker.client().named("b")).await;
    drop(b);
    assert!(broker.members(GROUP).is_empty(), "a client that is dropped leaves");
}

#[tokio::test(start_paused = true)]
async fn errors_reach_the_runtime_as_the_test_says() {
    let broker = broker();
    let mut a = Bare::join(broker.client().named("a")).await;
    a.follow("assigned [0, 1]").await;
    assert!(broker.report_error("a", "a fetch failed", false));
    assert!(broker.report_error("a", "over", true));
    assert!(!broker.report_error("nobody", "over", true));
    assert_eq!(a.event().as_deref(), Some("error a fetch failed"));
    assert_eq!(a.event().as_deref(), Some("fatal over"));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_draws_the_same_faults_until_all_is_calm() {
    async fn answers(seed: u64) -> (Vec<bool>, Broker) {
        let broker = broker();
        let mut a = Bare::join(broker.client().named("a")).await;
        a.follow("assigned [0, 1]").await;
        let mut chances = Chances::default();
        chances.commit_retry = 0.2;
        chances.commit_late = 0.2;
        chances.commit_answer_late = 0.2;
        chances.commit_answer_lost = 0.2;
        broker.draw_faults(seed, chances);
        let mut answers = Vec::new();
        for next in 0..50 {
            answers.push(a.commit(0, next).await.is_ok());
        }
        broker.calm();
        for next in 0..50 {
            assert_eq!(a.commit(0, next).now_or_never(), Some(Ok(())));
        }
        (answers, broker)
    }
    let (first, broker) = answers(1).await;
    let (again, same) = answers(1).await;
    assert_eq!(first, again);
    let what = |broker: &Broker| {
        broker.take_history().into_iter().map(|seen| seen.what).collect::<Vec<_>>()
    };
    let seen = what(&broker);
    assert!(seen.len() > 200);
    assert_eq!(seen, what(&same));
    assert_ne!(first, answers(2).await.0);
    let failed = first.iter().filter(|ok| !**ok).count();
    assert!((5..35).contains(&failed), "{failed}");
    assert!(broker.history().is_empty() && broker.steps() >= seen.len());
}
