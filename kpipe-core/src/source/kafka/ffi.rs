//! The calls into librdkafka for which there is no safe wrapper, and the only `unsafe` code here:
//! batches taken from split queues, the callback that wakes an intake, commits that answer on a
//! queue of their own.
//!
//! What keeps it sound: every raw queue lies in a [`Split`] that is in its [`Client`]'s registry, and
//! is used under that split's lock only. The client takes them all back before librdkafka's handle
//! goes. An intake may therefore keep its `Arc<Split>` for as long as it likes; it finds the queue
//! gone.
#![allow(unsafe_code)]

#[cfg(feature = "rooms")]
mod drain;
mod message;
mod split;

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer};

#[cfg(feature = "rooms")]
pub use self::drain::Drain;
use self::message::Message;
use self::split::Split;
use super::client::Hook;
use crate::reclaim::Reclaim;
use crate::record::TopicPartition;
use crate::source::Arrivals;
use crate::sync::Mutex;

/// How many messages may wait to be freed: what the fetch brings while that thread waits for its turn.
const MOST_TO_RECLAIM: usize = 16_384;

/// One consumer of librdkafka with everything that was taken from it.
pub(super) struct Client {
    splits: Mutex<HashMap<TopicPartition, Arc<Split>>>,
    next_split: AtomicU64,
    commits: NonNull<sys::rd_kafka_queue_t>,
    reclaim: Arc<Reclaim<Message>>,
    reclaiming: Option<JoinHandle<()>>,
    // Fields drop in order: the raw queues above are gone before the consumer is, see `drop`, and
    // whoever waits on the other end of `gone` hears of it after.
    consumer: BaseConsumer<Hook>,
    _gone: std::sync::mpsc::Sender<()>,
}

// SAFETY: librdkafka's queues may be used from any thread; `commits` is never changed.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    /// `gone` is dropped once the client is.
    pub(super) fn new(
        consumer: BaseConsumer<Hook>,
        gone: std::sync::mpsc::Sender<()>,
    ) -> Option<Self> {
        // SAFETY: the handle lives as long as `consumer`; the queue is destroyed before it.
        let commits = unsafe { sys::rd_kafka_queue_new(consumer.client().native_ptr()) };
        let reclaim = Arc::new(Reclaim::new(MOST_TO_RECLAIM));
        let reclaiming = {
            let reclaim = reclaim.clone();
            thread::Builder::new().name("kpipe-reclaim".into()).spawn(move || reclaim.work()).ok()
        };
        if reclaiming.is_none() {
            reclaim.finish();
        }
        Some(Self {
            reclaim,
            reclaiming,
            splits: Mutex::new(HashMap::new()),
            next_split: AtomicU64::new(0),
            commits: NonNull::new(commits)?,
            consumer,
            _gone: gone,
        })
    }

    pub(super) fn consumer(&self) -> &BaseConsumer<Hook> {
        &self.consumer
    }

    /// Gives the partition a queue of its own, to be called before it is assigned. `next` is the
    /// first offset wanted. A queue that was there before is silenced first: the slot for the wake-up
    /// belongs to librdkafka's partition and not to the handle, so the old one must be gone.
    pub(super) fn split(
        &self,
        place: &TopicPartition,
        next: i64,
        arrivals: Arrivals,
    ) -> Option<Arc<Split>> {
        self.silence(place);
        let queue = self.partition_queue(place)?;
        let id = self.next_split.fetch_add(1, Ordering::Relaxed);
        let shared = self.consumer.context().shared().clone();
        let reclaim = self.reclaim.clone();
        // SAFETY: the queue is owned here and handed on. The split stays in the registry until it is
        // silenced, which `drop` does at the latest.
        let split =
            unsafe { Split::open(queue, place.clone(), id, next, arrivals, shared, reclaim) };
        let split = Arc::new(split);
        self.splits.lock().insert(place.clone(), split.clone());
        Some(split)
    }

    /// Takes the queue away from whoever drains it: from here on its split yields nothing and wakes
    /// nobody. What lies in it stays until [`purge`](Self::purge).
    pub(super) fn silence(&self, place: &TopicPartition) {
        let split = self.splits.lock().remove(place);
        if let Some(split) = split {
            split.silence();
        }
    }

    pub(super) fn silence_all(&self) {
        let splits = std::mem::take(&mut *self.splits.lock());
        for split in splits.into_values() {
            split.silence();
        }
    }

    /// Frees what librdkafka keeps in the queue of a partition that was unassigned. Not by the batch
    /// call: that would raise the application's position for an error it finds, after the unassign
    /// has reset it, and the next assignment would resume from there.
    pub(super) fn purge(&self, place: &TopicPartition) {
        let Some(queue) = self.partition_queue(place) else { return };
        // SAFETY: `queue` is valid until it is destroyed at the end; each event is owned here.
        unsafe {
            loop {
                let event = sys::rd_kafka_queue_poll(queue.as_ptr(), 0);
                if event.is_null() {
                    break;
                }
                sys::rd_kafka_event_destroy(event);
            }
            sys::rd_kafka_queue_destroy(queue.as_ptr());
        }
    }

    /// Runs `change` with the next offset of every split partition while none of them can be drained,
    /// then wakes their intakes.
    pub(super) fn with_all_held<T>(
        &self,
        change: impl FnOnce(Vec<(TopicPartition, i64)>) -> T,
    ) -> T {
        let splits: Vec<_> = self.splits.lock().values().cloned().collect();
        let held: Vec<_> = splits.iter().map(|split| split.hold()).collect();
        let positions = splits.iter().zip(&held);
        let positions = positions.map(|(split, held)| (split.place().clone(), held.next()));
        change(positions.collect())
    }

    /// Whether this is still the partition's queue.
    pub(super) fn is_current(&self, place: &TopicPartition, id: u64) -> bool {
        self.splits.lock().get(place).is_some_and(|split| split.id() == id)
    }

    /// The partition's queue, if it has one.
    pub(super) fn current(&self, place: &TopicPartition) -> Option<u64> {
        self.splits.lock().get(place).map(|split| split.id())
    }

    /// Sends a commit; its answer arrives at [`next_commit_answer`](Self::next_commit_answer) under
    /// the same token. Returns without waiting for anything.
    ///
    /// # Errors
    /// librdkafka's error code; then there is no answer.
    pub(super) fn send_commit(
        &self,
        offsets: &TopicPartitionList,
        token: usize,
    ) -> Result<(), i32> {
        // SAFETY: all pointers are valid; librdkafka copies the list and hands the token back as it
        // is, without ever looking behind it.
        let code = unsafe {
            sys::rd_kafka_commit_queue(
                self.consumer.client().native_ptr(),
                offsets.ptr(),
                self.commits.as_ptr(),
                None,
                ptr::without_provenance_mut(token),
            )
        };
        match code as i32 {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Waits for the answer to a commit; `None` once the time is up or after
    /// [`wake_commits`](Self::wake_commits).
    pub(super) fn next_commit_answer(&self, within: Duration) -> Option<CommitAnswer> {
        let millis = i32::try_from(within.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is valid; the event is owned here and destroyed once read.
        unsafe {
            let event = sys::rd_kafka_queue_poll(self.commits.as_ptr(), millis);
            if event.is_null() {
                return None;
            }
            let token = sys::rd_kafka_event_opaque(event).addr();
            let list = sys::rd_kafka_event_topic_partition_list(event);
            let mut partitions = Vec::new();
            if !list.is_null() && (*list).cnt > 0 {
                for at in 0..(*list).cnt as usize {
                    let elem = (*list).elems.add(at);
                    let topic = CStr::from_ptr((*elem).topic).to_string_lossy().into_owned();
                    // As a number: a broker newer than these bindings may answer a code that their
                    // enum does not have.
                    let code = ptr::addr_of!((*elem).err).cast::<i32>().read();
                    partitions.push((topic, (*elem).partition, code));
                }
            }
            sys::rd_kafka_event_destroy(event);
            Some(CommitAnswer { token, partitions })
        }
    }

    /// Ends a wait for a commit's answer.
    pub(super) fn wake_commits(&self) {
        // SAFETY: the queue is valid.
        unsafe { sys::rd_kafka_queue_yield(self.commits.as_ptr()) }
    }

    /// Whether this client is no member of the group: not any more, or not yet.
    pub(super) fn is_outside(&self) -> bool {
        // SAFETY: the handle is valid; what it returns is owned here and destroyed.
        unsafe {
            let group = sys::rd_kafka_consumer_group_metadata(self.consumer.client().native_ptr());
            if group.is_null() {
                return true;
            }
            // Leaving takes away the name of a classic member and the epoch of one of the new kind.
            let name = sys::rd_kafka_consumer_group_metadata_member_id(group);
            let nameless = name.is_null() || *name == 0;
            let generation = sys::rd_kafka_consumer_group_metadata_generation_id(group);
            sys::rd_kafka_consumer_group_metadata_destroy(group);
            nameless || generation <= 0
        }
    }

    /// The log's end as the last fetch saw it, without asking anybody.
    pub(super) fn cached_end(&self, place: &TopicPartition) -> Option<i64> {
        let topic = CString::new(&*place.topic).ok()?;
        let (mut low, mut high) = (-1, -1);
        // SAFETY: all pointers are valid for the call.
        let code = unsafe {
            sys::rd_kafka_get_watermark_offsets(
                self.consumer.client().native_ptr(),
                topic.as_ptr(),
                place.partition,
                &mut low,
                &mut high,
            )
        };
        (code as i32 == 0 && high >= 0).then_some(high)
    }

    fn partition_queue(&self, place: &TopicPartition) -> Option<NonNull<sys::rd_kafka_queue_t>> {
        let topic = CString::new(&*place.topic).ok()?;
        // SAFETY: handle and name are valid for the call; the caller destroys the queue.
        NonNull::new(unsafe {
            sys::rd_kafka_queue_get_partition(
                self.consumer.client().native_ptr(),
                topic.as_ptr(),
                place.partition,
            )
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.silence_all();
        // Its messages must not outlive a client.
        self.reclaim.finish();
        if let Some(thread) = self.reclaiming.take() {
            // It runs nothing that panics.
            let _ = thread.join();
        }
        // SAFETY: nobody else has the client any more, and its handle is still there.
        unsafe { sys::rd_kafka_queue_destroy(self.commits.as_ptr()) }
    }
}

/// The answer to a commit.
pub(super) struct CommitAnswer {
    pub(super) token: usize,
    /// Topic, partition and error code; 0 is success.
    pub(super) partitions: Vec<(String, i32, i32)>,
}
