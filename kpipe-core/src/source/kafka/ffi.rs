//! The calls into librdkafka for which there is no safe wrapper, and the only `unsafe` code here:
//! batches taken from split queues, the callback that wakes an intake, commits that answer on a
//! queue of their own.
//!
//! What keeps it sound: every raw queue lies in a [`Split`] that is in its [`Client`]'s registry, and
//! is used under that split's lock only. The client takes them all back before librdkafka's handle
//! goes. An intake may therefore keep its `Arc<Split>` for as long as it likes; it finds the queue
//! gone.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::client::{Hook, Notice, Shared};
use super::errors::{self, Trouble};
use super::sequence::{Sequence, Verdict};
use crate::record::{Record, RecordMeta, Timestamp, TopicPartition};
use crate::source::{Arrivals, PartitionQueue};
use crate::sync::Mutex;

/// How many messages one call into librdkafka may fill in; a take that wants more calls again.
const LARGEST_BATCH: usize = 4_096;

/// One consumer of librdkafka with everything that was taken from it.
pub(super) struct Client {
    splits: Mutex<HashMap<TopicPartition, Arc<Split>>>,
    next_split: AtomicU64,
    commits: NonNull<sys::rd_kafka_queue_t>,
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
        Some(Self {
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

    fn shared(&self) -> &Arc<Shared> {
        self.consumer.context().shared()
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
        let arrivals = Arc::new(arrivals);
        // SAFETY: `queue` is valid. The opaque pointer stays valid until `RawQueue::drop` has cleared
        // the callback, which takes the lock under which librdkafka calls it.
        unsafe {
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            let opaque = Arc::as_ptr(&arrivals).cast_mut().cast::<c_void>();
            sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(arrived), opaque);
        }
        let split = Arc::new(Split {
            place: place.clone(),
            id: self.next_split.fetch_add(1, Ordering::Relaxed),
            shared: self.shared().clone(),
            tap: Mutex::new(Tap {
                raw: Some(RawQueue { queue, arrivals }),
                messages: Vec::new(),
                sequence: Sequence::starting_at(next),
            }),
        });
        self.splits.lock().insert(place.clone(), split.clone());
        Some(split)
    }

    /// Takes the queue away from whoever drains it: from here on its split yields nothing and wakes
    /// nobody. What lies in it stays until [`purge`](Self::purge).
    pub(super) fn silence(&self, place: &TopicPartition) {
        let split = self.splits.lock().remove(place);
        if let Some(split) = split {
            split.tap.lock().raw = None;
        }
    }

    pub(super) fn silence_all(&self) {
        let splits = std::mem::take(&mut *self.splits.lock());
        for split in splits.into_values() {
            split.tap.lock().raw = None;
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
        let taps: Vec<_> = splits.iter().map(|split| split.tap.lock()).collect();
        let positions =
            splits.iter().zip(&taps).map(|(split, tap)| (split.place.clone(), tap.sequence.next()));
        let done = change(positions.collect());
        for tap in taps {
            if let Some(raw) = &tap.raw {
                raw.arrivals.notify();
            }
        }
        done
    }

    /// Whether this is still the partition's queue.
    pub(super) fn is_current(&self, place: &TopicPartition, id: u64) -> bool {
        self.splits.lock().get(place).is_some_and(|split| split.id == id)
    }

    /// The partition's queue, if it has one.
    pub(super) fn current(&self, place: &TopicPartition) -> Option<u64> {
        self.splits.lock().get(place).map(|split| split.id)
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

/// The queue of one assignment of one partition.
pub(super) struct Split {
    place: TopicPartition,
    id: u64,
    shared: Arc<Shared>,
    tap: Mutex<Tap>,
}

struct Tap {
    raw: Option<RawQueue>,
    /// Filled by each batch; kept so that taking does not allocate.
    messages: Vec<*mut sys::rd_kafka_message_t>,
    sequence: Sequence,
}

// SAFETY: the pointers in `messages` are only looked at during a take, under the lock.
unsafe impl Send for Tap {}

impl PartitionQueue for Arc<Split> {
    /// An intake that comes while the queue is being taken away or moved finds it empty; it is
    /// woken after.
    fn take(&self, max: usize, into: &mut Vec<Record>) -> usize {
        let Some(mut tap) = self.tap.try_lock() else { return 0 };
        let Tap { raw: Some(raw), messages, sequence } = &mut *tap else { return 0 };
        let (mut taken, mut bytes) = (0, 0);
        while taken < max {
            let wanted = (max - taken).min(LARGEST_BATCH);
            if messages.len() < wanted {
                messages.resize(wanted, ptr::null_mut());
            }
            // SAFETY: the queue is valid while it is in the tap, and the buffer has `wanted` places.
            let got = unsafe {
                let buffer = messages.as_mut_ptr();
                sys::rd_kafka_consume_batch_queue(raw.queue.as_ptr(), 0, buffer, wanted)
            };
            let got = usize::try_from(got).unwrap_or(0);
            into.reserve(got);
            for &pointer in &messages[..got] {
                let message = Message(pointer);
                if message.code() != 0 {
                    self.trouble(&message, sequence);
                    continue;
                }
                match sequence.record(message.offset()) {
                    Verdict::HandOut => {
                        taken += 1;
                        bytes += message.payload_len();
                        into.push(message.to_record(&self.place));
                    }
                    Verdict::Discard => {}
                    Verdict::Jumped => self.jumped(&message, sequence),
                }
            }
            // Fewer than wanted: the queue ran empty and will signal what comes next.
            if got < wanted {
                break;
            }
        }
        if taken > 0 {
            self.shared.delivered(taken as u64, bytes as u64);
        }
        taken
    }
}

impl Split {
    /// A message with an error is news about the partition, not a record.
    #[cold]
    fn trouble(&self, message: &Message, sequence: &mut Sequence) {
        let text = message.error_text();
        let trouble = errors::on_partition(message.code(), &text);
        if sequence.error(trouble) {
            self.report(trouble, text);
        }
    }

    #[cold]
    fn jumped(&self, message: &Message, sequence: &Sequence) {
        let (found, wanted) = (message.offset(), sequence.next());
        let text = format!("offset {found} came instead of {wanted} after an error");
        self.report(Trouble::Position { reset: false }, text);
    }

    fn report(&self, trouble: Trouble, text: String) {
        let (place, split) = (self.place.clone(), self.id);
        self.shared.notify(Notice::Trouble { place, split, trouble, text });
    }
}

/// A partition's queue in librdkafka and whom it wakes.
struct RawQueue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    arrivals: Arc<Arrivals>,
}

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for RawQueue {}

impl Drop for RawQueue {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, because a raw queue never leaves its client's registry. The
        // first call waits for a callback that is running; after it `arrivals` may go.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// Called by librdkafka's threads, under the queue's lock, when an empty queue gets its first entry.
unsafe extern "C" fn arrived(_: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: points to the `Arrivals` of a `RawQueue` that has not been dropped.
    let arrivals = unsafe { &*opaque.cast::<Arrivals>() };
    // Wakers are code of the runtime; unwinding into C would abort the process. An intake whose waker
    // panicked looks again within a second.
    let _ = catch_unwind(AssertUnwindSafe(|| arrivals.notify()));
}

/// A message of librdkafka, owned: it goes back when this is dropped.
struct Message(*mut sys::rd_kafka_message_t);

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once.
        unsafe { sys::rd_kafka_message_destroy(self.0) }
    }
}

impl Message {
    /// As a number, see [`Client::next_commit_answer`].
    #[inline]
    fn code(&self) -> i32 {
        // SAFETY: the message is valid; the error is a C enum, four bytes.
        unsafe { ptr::addr_of!((*self.0).err).cast::<i32>().read() }
    }

    #[inline]
    fn offset(&self) -> i64 {
        // SAFETY: the message is valid.
        unsafe { (*self.0).offset }
    }

    /// Bytes of key and value, as librdkafka counts what it fetched.
    #[inline]
    fn payload_len(&self) -> usize {
        // SAFETY: the message is valid.
        unsafe { (*self.0).key_len + (*self.0).len }
    }

    fn error_text(&self) -> String {
        // SAFETY: the message is valid; the text is its own or static.
        unsafe {
            let text = sys::rd_kafka_message_errstr(self.0);
            if text.is_null() {
                return errors::describe(self.code());
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    #[inline]
    fn to_record(&self, place: &TopicPartition) -> Record {
        // SAFETY: the message is valid and outlives the slices, which `assemble` copies.
        unsafe {
            let key = bytes((*self.0).key, (*self.0).key_len);
            let value = bytes((*self.0).payload, (*self.0).len);
            let meta = RecordMeta {
                topic: place.topic.clone(),
                partition: place.partition,
                offset: (*self.0).offset,
                timestamp: self.timestamp(),
                leader_epoch: sys::rd_kafka_message_leader_epoch(self.0),
            };
            let mut headers = ptr::null_mut();
            if sys::rd_kafka_message_headers(self.0, &mut headers) as i32 == 0 {
                let headers = RawHeaders { headers, at: 0, message: std::marker::PhantomData };
                Record::assemble(meta, key, value, headers)
            } else {
                Record::assemble(meta, key, value, std::iter::empty())
            }
        }
    }

    #[inline]
    fn timestamp(&self) -> Timestamp {
        use sys::rd_kafka_timestamp_type_t as Kind;
        let mut kind = Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is valid; librdkafka itself chooses among the three kinds.
        let millis = unsafe { sys::rd_kafka_message_timestamp(self.0, &mut kind) };
        match kind {
            Kind::RD_KAFKA_TIMESTAMP_CREATE_TIME => Timestamp::CreateTime(millis),
            Kind::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Timestamp::LogAppendTime(millis),
            Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => Timestamp::NotAvailable,
        }
    }
}

/// Null and empty are told apart by the pointer.
///
/// # Safety
/// `start` is null or valid for `len` bytes for as long as the slice is used.
#[inline]
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), len) })
}

/// The headers of a message in order.
#[derive(Clone)]
struct RawHeaders<'a> {
    headers: *const sys::rd_kafka_headers_t,
    at: usize,
    message: std::marker::PhantomData<&'a Message>,
}

impl<'a> Iterator for RawHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the headers belong to a message that outlives `'a`.
        unsafe {
            let code = sys::rd_kafka_header_get_all(
                self.headers,
                self.at,
                &mut name,
                &mut value,
                &mut len,
            );
            if code as i32 != 0 {
                return None;
            }
            self.at += 1;
            Some((CStr::from_ptr(name).to_bytes(), bytes(value, len)))
        }
    }
}

/// A partition's queue whose messages go back to librdkafka unread: what the client alone costs. For
/// KPipe's own benches.
#[cfg(feature = "rooms")]
#[derive(Debug)]
pub struct Drain<'a> {
    queue: NonNull<sys::rd_kafka_queue_t>,
    messages: Vec<*mut sys::rd_kafka_message_t>,
    consumer: std::marker::PhantomData<&'a BaseConsumer>,
}

// SAFETY: librdkafka's queues may be used from any thread, and nobody else sees `messages`.
#[cfg(feature = "rooms")]
unsafe impl Send for Drain<'_> {}

#[cfg(feature = "rooms")]
impl<'a> Drain<'a> {
    /// Gives the partition a queue of its own, to be called before it is assigned. `None` if the name
    /// is not one of a topic.
    pub fn split(consumer: &'a BaseConsumer, topic: &str, partition: i32) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: handle and name are valid for the calls, and the handle for as long as the queue.
        let queue = unsafe {
            let handle = consumer.client().native_ptr();
            let queue = sys::rd_kafka_queue_get_partition(handle, topic.as_ptr(), partition);
            let queue = NonNull::new(queue)?;
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            queue
        };
        Some(Self { queue, messages: Vec::new(), consumer: std::marker::PhantomData })
    }

    /// Takes up to `max` messages, gives them back and returns how many of them were records.
    pub fn discard(&mut self, max: usize) -> usize {
        self.messages.resize(max, ptr::null_mut());
        // SAFETY: the queue is valid, and the buffer has `max` places.
        let got = unsafe {
            let buffer = self.messages.as_mut_ptr();
            sys::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, buffer, max)
        };
        let got = usize::try_from(got).unwrap_or(0);
        self.messages[..got].iter().filter(|&&pointer| Message(pointer).code() == 0).count()
    }
}

#[cfg(feature = "rooms")]
impl Drop for Drain<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle outlives this borrow of its consumer.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}
