//! Members that are not heard of any more.

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::{Cluster, Process};
use crate::service::{Ledger, noting, shut_down, start, until, until_asked};
use crate::unique;

pub(crate) async fn a_dead_process_loses_its_partitions_with_its_session(cluster: impl Cluster) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    let process = busy_process(&cluster, &group, &topic).await;
    process.die();
    let died = Instant::now();
    let ledger = Ledger::default();
    let heir = start(&cluster, noting(&group, &topic, &ledger, Duration::ZERO)).await;
    let mut at_death = Vec::new();
    for partition in 0..2 {
        at_death.push(cluster.committed(&group, &topic, partition).await.expect("committed"));
    }
    until("the heir has all", || heir.stats().partitions.len() == 2).await;
    // Nobody said that it left. The session counts from what was last heard of it.
    assert!(died.elapsed() > Duration::from_secs(4), "{:?}", died.elapsed());
    until("the rest is handled", || {
        ledger.len() as i64 == at_death.iter().map(|next| 2_000 - next).sum::<i64>()
    })
    .await;
    shut_down(heir).await;
    for (partition, next) in (0..).zip(at_death) {
        assert!(ledger.offsets(partition).into_iter().eq(next..2_000), "from {next} on");
        assert_eq!(cluster.committed(&group, &topic, partition).await, Some(2_000));
    }
}

pub(crate) async fn who_comes_back_after_its_session_changes_nothing_and_joins_again(
    cluster: impl Cluster,
) {
    let (topic, group) = (cluster.topic(2).await, unique("g"));
    let process = busy_process(&cluster, &group, &topic).await;
    process.freeze();
    let ledger = Ledger::default();
    let heir = start(&cluster, noting(&group, &topic, &ledger, Duration::ZERO)).await;
    until("the heir has all", || heir.stats().partitions.len() == 2).await;
    let all_committed = async || {
        let mut all = true;
        for partition in 0..2 {
            all &= cluster.committed(&group, &topic, partition).await == Some(2_000);
        }
        all
    };
    until_asked("everything is committed", all_committed).await;
    process.thaw();
    // It goes on in the middle of what it had, and has positions of its own to commit.
    until("they share", || heir.stats().partitions.len() == 1).await;
    assert!(all_committed().await, "what was handled twice is not committed anew");
    for partition in 0..2 {
        cluster.fill(&topic, partition, 10).await;
    }
    until_asked("both go on", async || {
        let mut all = true;
        for partition in 0..2 {
            all &= cluster.committed(&group, &topic, partition).await == Some(2_010);
        }
        all
    })
    .await;
    process.die();
    shut_down(heir).await;
}

/// A process that has everything, 2,000 records in each of two partitions, and has committed some.
async fn busy_process<C: Cluster>(cluster: &C, group: &str, topic: &str) -> C::Process {
    for partition in 0..2 {
        cluster.fill(topic, partition, 2_000).await;
    }
    let process = cluster.process(group, topic).await;
    until_asked("it gets on", async || {
        let mut all = true;
        for partition in 0..2 {
            all &= cluster.committed(group, topic, partition).await >= Some(20);
        }
        all
    })
    .await;
    process
}
