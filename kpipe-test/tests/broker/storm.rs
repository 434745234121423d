//! Whatever happens to a group, it settles: each partition with one member, which gets its records and
//! may commit.

use std::time::Duration;

use futures::FutureExt;
use kpipe_test::{Broker, Protocol, TestRecord, What};

use crate::bare::{Bare, GROUP, TOPIC};

const SECOND: Duration = Duration::from_secs(1);

/// Draws numbers (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % n as u64) as usize
    }
}

struct Storm {
    draw: Draw,
    broker: Broker,
    members: Vec<(String, Bare)>,
    joined: usize,
    partitions: i32,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let protocols = [Protocol::Eager, Protocol::Cooperative, Protocol::Incremental];
        let broker = Broker::builder()
            .protocol(protocols[draw.below(3)])
            .heartbeat([Duration::ZERO, SECOND][draw.below(2)])
            .first_rebalance_delay([Duration::ZERO, SECOND][draw.below(2)])
            .rebalance_timeout(20 * SECOND)
            .session_timeout(10 * SECOND)
            .build();
        let partitions = 1 + draw.below(8) as i32;
        broker.create_topic(TOPIC, partitions);
        Self { draw, broker, members: Vec::new(), joined: 0, partitions }
    }

    async fn step(&mut self) {
        let partition = self.draw.below(self.partitions as usize) as i32;
        let during = SECOND * self.draw.below(15) as u32;
        if self.members.is_empty() {
            return self.join().await;
        }
        let few = self.members.len() < 4;
        let at = self.draw.below(self.members.len());
        let (name, member) = &mut self.members[at];
        match self.draw.below(25) {
            0 => {
                self.broker.expel(name);
            }
            1 => {
                self.broker.cut_off(name, during);
            }
            2 => self.broker.coordinator_away(during),
            3 => self.broker.go_away(during),
            4 => self.broker.rebalance_now(GROUP),
            5 => {
                self.broker.move_partition(TOPIC, partition, name);
            }
            6 => {
                self.broker.hand_back(GROUP, TOPIC, partition);
            }
            7 => {
                self.broker.kill(name, during);
                self.members.swap_remove(at);
            }
            8 => {
                let (_, gone) = self.members.swap_remove(at);
                gone.leave().await;
            }
            9 => {
                self.broker.truncate_before(TOPIC, partition, during.as_secs() as i64);
            }
            10 | 11 if few => self.join().await,
            12..15 => tokio::time::advance(during / 5).await,
            15..18 => {
                self.broker.append(TOPIC, TestRecord::new().partition(partition)).unwrap();
            }
            24 => self.broker.cut(TOPIC, partition, during.as_secs() as i64),
            18 => drop(member.commit(partition, 0).now_or_never()),
            19 => drop(member.take(partition, 3)),
            // A member that is slow to do what the group asks leaves it for later.
            _ => drop(member.serve().await),
        }
    }

    async fn join(&mut self) {
        self.joined += 1;
        let name = format!("m{}", self.joined);
        let member = Bare::join(self.broker.client().named(&name)).await;
        self.members.push((name, member));
    }

    async fn settle(&mut self) {
        self.broker.calm();
        if self.members.is_empty() {
            self.join().await;
        }
        self.serve_all().await;
        self.broker.take_history();
        for _ in 0..30 {
            tokio::time::advance(2 * SECOND).await;
            self.serve_all().await;
        }
        // The dead are, when their sessions are over.
        for seen in self.broker.take_history() {
            if let What::Expelled { member } = seen.what {
                let lives = self.members.iter().any(|(name, _)| **name == *member);
                assert!(!lives, "{member} did all that it was asked to and was expelled");
            }
        }
    }

    async fn serve_all(&mut self) {
        let mut served = true;
        while served {
            served = false;
            for (_, member) in &mut self.members {
                served |= member.serve().await;
            }
        }
    }

    async fn check(&mut self, seed: u64) {
        let names = self.broker.members(GROUP);
        assert_eq!(names.len(), self.members.len(), "seed {seed}: {names:?}");
        assert!(!self.broker.is_rebalancing(GROUP), "seed {seed}");
        for partition in 0..self.partitions {
            let owner = self.broker.owner(GROUP, TOPIC, partition);
            let (_, offset) =
                self.broker.append(TOPIC, TestRecord::new().partition(partition)).unwrap();
            for (name, member) in &mut self.members {
                // A lost position shows only now: what follows it may begin again.
                let mut last = member.take(partition, 1_000);
                while member.serve().await {
                    let taken = member.take(partition, 1_000);
                    last = if taken.is_empty() { last } else { taken };
                }
                assert!(last.is_sorted(), "seed {seed}: {name} took {last:?}");
                let is_owner = owner.as_ref() == Some(name);
                let expected = is_owner.then_some(&offset);
                assert_eq!(last.last(), expected, "seed {seed}: {name}, {partition}, {owner:?}");
            }
        }
        for (name, member) in &self.members {
            let kept = self.broker.assignment(name).len();
            let share = self.partitions as usize / self.members.len();
            assert!(kept >= share, "seed {seed}: {name} has {kept}");
            assert_eq!(member.commit(0, 5).await, Ok(()), "seed {seed}: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_settles_after_whatever_happened() {
    for seed in 0..400 {
        let mut storm = Storm::new(seed);
        for _ in 0..150 {
            storm.step().await;
        }
        storm.settle().await;
        storm.broker.let_assignor_decide(GROUP);
        storm.settle().await;
        storm.check(seed).await;
    }
}
