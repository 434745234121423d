//! Carrying out assignments: where to start, the queue of each partition, and giving it back.
//!
//! Everything here blocks on the brokers or on librdkafka's main thread and runs on a thread of its
//! own, one call at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{LOG_TARGET, Notice, Shared, list_of};
use super::ffi::Client;
use super::starts::{self, Start};
use crate::record::TopicPartition;
use crate::source::{Arrivals, Assignment, Event, SourceError, StartAt};
use crate::sync::Mutex;

/// How long finding the starts may take. The group waits meanwhile; a partition whose start is not
/// found in this time is reported and can be assigned again.
const START_WITHIN: Duration = Duration::from_secs(5);

/// Carries out what the group wants.
pub(super) struct Assigner {
    client: Arc<Client>,
    shared: Arc<Shared>,
    start_at: StartAt,
    /// One call at a time: each looks at what is fetched and changes it.
    turn: Mutex<()>,
}

impl Assigner {
    pub(super) fn new(client: Arc<Client>, shared: Arc<Shared>, start_at: StartAt) -> Self {
        Self { client, shared, start_at, turn: Mutex::new(()) }
    }

    /// Starts the fetch of those that are still this member's. Answers the open assignment, if there
    /// is one, even when nothing is left to start.
    pub(super) fn assign(&self, wanted: Vec<(TopicPartition, Arrivals)>) -> Vec<Assignment> {
        let _turn = self.turn.lock();
        let (answers, wanted, again) = {
            let mut group = self.shared.group.lock();
            if group.closing {
                return Vec::new();
            }
            let answers = group.take_assign().is_some();
            let mut wanted = wanted;
            wanted.retain(|(place, _)| group.owns(place));
            let fetched = |(place, _): &&(TopicPartition, Arrivals)| group.fetched.contains(place);
            let again: Vec<_> = wanted.iter().filter(fetched).map(|(p, _)| p.clone()).collect();
            (answers, wanted, again)
        };
        self.stop(again);
        let places: Vec<_> = wanted.iter().map(|(place, _)| place.clone()).collect();
        let mut starts = self.starts(&places);
        let mut assignments = Vec::new();
        for (place, arrivals) in wanted {
            // `starts` has reported those that it left out.
            let Some(start) = starts.remove(&place) else { continue };
            match self.client.split(&place, start.offset, arrivals.clone()) {
                Some(split) => {
                    let assignment = Assignment {
                        partition: place,
                        start: start.offset,
                        uncommitted_start: !start.committed,
                        queue: Box::new(split),
                    };
                    assignments.push((assignment, arrivals));
                }
                None => self.failed(place, "librdkafka has no queue for this partition".into()),
            }
        }
        if assignments.is_empty() && !answers {
            return Vec::new();
        }
        if let Err(error) = self.start(&assignments) {
            for (assignment, _) in assignments {
                self.client.silence(&assignment.partition);
                self.failed(assignment.partition, format!("could not be assigned: {error}"));
            }
            return Vec::new();
        }
        let started = assignments.into_iter().map(|(assignment, arrivals)| {
            // Whatever came before the callback was there is not signalled by it.
            arrivals.notify();
            assignment
        });
        started.collect()
    }

    /// Takes the queues away and gives the partitions back; answers a revoke once all of its
    /// partitions have been given back.
    pub(super) fn unassign(&self, partitions: Vec<TopicPartition>) {
        let _turn = self.turn.lock();
        for place in &partitions {
            self.client.silence(place);
        }
        let (revoke, rest) = self.shared.group.lock().unassigned(partitions);
        if let Some(revoke) = revoke {
            self.answer_revoke(revoke.partitions.into_iter().collect());
        }
        self.stop(rest);
    }

    /// Keeps everyone else out for good; for the close.
    pub(super) fn last_turn(&self) -> impl Drop + '_ {
        self.turn.lock()
    }

    fn answer_revoke(&self, partitions: Vec<TopicPartition>) {
        let consumer = self.client.consumer();
        let (cooperative, fetched, empty) = {
            let mut group = self.shared.group.lock();
            let mut fetched = partitions;
            fetched.retain(|place| group.fetched.remove(place));
            group.reset.retain(|place| !fetched.contains(place));
            (group.cooperative, fetched, group.fetched.is_empty())
        };
        let answered = if cooperative {
            consumer.incremental_unassign(&list_of(&fetched))
        } else if empty {
            consumer.unassign()
        } else {
            // An eager revoke names everything. Were something left, a whole list is the only way.
            self.assign_whole(&[])
        };
        if let Err(error) = answered {
            tracing::warn!(target: LOG_TARGET, "giving partitions back: {error}");
        }
        for place in &fetched {
            self.client.purge(place);
        }
    }

    /// Stops the fetch of partitions that stay this member's. Left to the next assign while a revoke
    /// is open: librdkafka would take the call for the answer to it.
    fn stop(&self, mut partitions: Vec<TopicPartition>) {
        let cooperative = {
            let mut group = self.shared.group.lock();
            if group.is_revoking() {
                return;
            }
            partitions.retain(|place| group.fetched.remove(place));
            group.cooperative
        };
        if partitions.is_empty() {
            return;
        }
        for place in &partitions {
            self.client.silence(place);
        }
        let stopped = if cooperative {
            self.client.consumer().incremental_unassign(&list_of(&partitions))
        } else {
            self.assign_whole(&[])
        };
        if let Err(error) = stopped {
            tracing::warn!(target: LOG_TARGET, "stopping partitions: {error}");
        }
        for place in &partitions {
            self.client.purge(place);
        }
    }

    fn start(&self, assignments: &[(Assignment, Arrivals)]) -> KafkaResult<()> {
        let new: Vec<_> =
            assignments.iter().map(|(one, _)| (one.partition.clone(), one.start)).collect();
        let cooperative = self.shared.group.lock().cooperative;
        if cooperative {
            self.client.consumer().incremental_assign(&starting_at(&new)?)?;
        } else {
            self.assign_whole(&new)?;
        }
        let mut group = self.shared.group.lock();
        for (place, _) in new {
            group.reset.remove(&place);
            group.fetched.insert(place);
        }
        Ok(())
    }

    /// The eager protocol knows whole lists only: those that go on are assigned again where their
    /// intakes stand, which fetches anew what they had in their queues.
    fn assign_whole(&self, new: &[(TopicPartition, i64)]) -> KafkaResult<()> {
        self.client.with_all_held(|mut positions| {
            positions.retain(|(place, _)| !new.iter().any(|(other, _)| other == place));
            positions.extend_from_slice(new);
            self.client.consumer().assign(&starting_at(&positions)?)
        })
    }

    /// Where each partition starts. One that cannot be started is reported and left out.
    fn starts(&self, places: &[TopicPartition]) -> HashMap<TopicPartition, Start> {
        let reset = self.shared.group.lock().reset.clone();
        let until = Instant::now() + START_WITHIN;
        let mut found = HashMap::new();
        for (place, start) in
            starts::find(self.client.consumer(), places, self.start_at, &reset, until)
        {
            match start {
                Ok(start) => {
                    self.report_policy(&place, &start);
                    found.insert(place, start);
                }
                Err(reason) => self.failed(place, reason),
            }
        }
        found
    }

    fn report_policy(&self, place: &TopicPartition, start: &Start) {
        let Start { offset, instead: Some(reason), .. } = start else { return };
        tracing::warn!(target: LOG_TARGET, partition = %place, "{reason}; starts at {offset}");
        self.shared.report(&format!("{place}: {reason}; starts at {offset}"), false);
    }

    fn failed(&self, place: TopicPartition, message: String) {
        let error = SourceError { message, fatal: false };
        self.shared.notify(Notice::Event(Event::Failed(place, error)));
    }
}

fn starting_at(starts: &[(TopicPartition, i64)]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(starts.len());
    for (place, offset) in starts {
        list.add_partition(&place.topic, place.partition).set_offset(Offset::Offset(*offset))?;
    }
    Ok(list)
}
