//! What can happen to a consumer while its handlers are at work.

use std::time::Duration;

use super::{MEMBER, TestStream};
use crate::broker::Broker;
use crate::witness::What;

/// Something that happens to the consumer; see [`TestStream::chaos_after`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chaos {
    /// The group rebalances, and everything stays where it is.
    Rebalance,
    /// A partition is revoked and given back to the same consumer.
    HandBack {
        /// Its topic.
        topic: String,
        /// Its number.
        partition: i32,
    },
    /// Every partition is revoked and given back.
    HandBackAll,
    /// The last records of a partition are delivered a second time.
    DeliverTwice {
        /// Its topic.
        topic: String,
        /// Its number.
        partition: i32,
        /// How many records.
        records: usize,
    },
    /// The group goes on without the consumer, which learns that it lost its partitions, and joins again.
    Expel,
    /// The broker is away for so long, on the kit's clock.
    LoseBroker(Duration),
}

impl TestStream {
    /// Lets something happen once this many attempts have begun since the stream was made, from 1: in the
    /// middle of what the runtime does then. Several may be scripted.
    ///
    /// ```
    /// use kpipe_core::{Consumer, Record};
    /// use kpipe_test::{Chaos, TestRecord, TestStream};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let consumer = Consumer::new("billing").topic("payments", |_: Record| async {
    ///     tokio::task::yield_now().await;
    ///     Ok(())
    /// });
    /// let mut stream = TestStream::new(consumer);
    /// for payment in 0..100 {
    ///     stream.send("payments", TestRecord::key(format!("card-{}", payment % 7)));
    /// }
    /// stream.chaos_after(20, Chaos::HandBackAll);
    /// stream.chaos_after(60, Chaos::Expel);
    /// let run = stream.flush().await;
    /// run.assert_at_least_once();
    /// run.assert_in_order_per_key();
    /// run.assert_nothing_began_after_its_revoke();
    /// # }
    /// ```
    pub fn chaos_after(&mut self, attempts: usize, chaos: Chaos) {
        let mut left = attempts.max(1);
        let point = move |what: &What| {
            let began = matches!(what, What::Began { .. });
            left -= usize::from(began && left > 0);
            began && left == 0
        };
        let (broker, group) = (self.broker.clone(), self.group.clone());
        self.witness.at(point, move || match chaos {
            Chaos::Rebalance => broker.rebalance_now(&group),
            Chaos::HandBack { topic, partition } => {
                broker.hand_back(&group, &topic, partition);
            }
            Chaos::HandBackAll => hand_back_all(&broker, &group),
            Chaos::DeliverTwice { topic, partition, records } => {
                broker.deliver_again(&topic, partition, records);
            }
            Chaos::Expel => {
                broker.expel(MEMBER);
            }
            Chaos::LoseBroker(during) => broker.go_away(during),
        });
    }
}

/// Has the consumer give back everything that it has, and gives it to it again.
pub(crate) fn hand_back_all(broker: &Broker, group: &str) {
    for place in broker.assignment(MEMBER) {
        broker.hand_back(group, &place.topic, place.partition);
    }
}
