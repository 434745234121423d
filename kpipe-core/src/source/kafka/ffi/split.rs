//! The queue of one assignment, and how an intake takes from it and is woken by it.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use parking_lot::MutexGuard;
use rdkafka::bindings as sys;

use super::message::{Layout, Message};
use crate::reclaim::Reclaim;
use crate::record::{Record, TopicPartition};
use crate::source::kafka::client::{Notice, Shared};
use crate::source::kafka::errors::{self, Trouble};
use crate::source::kafka::sequence::{Sequence, Verdict};
use crate::source::{Arrivals, PartitionQueue};
use crate::sync::Mutex;

/// How many messages one call into librdkafka may fill in; a take that wants more calls again.
const LARGEST_BATCH: usize = 4_096;
/// Fewer messages than this are freed where they are: to wake a thread costs more.
const WORTH_WAKING: usize = 16;
/// Messages with more payload than this on average, in bytes, are freed where they are, so that what
/// waits to be freed pins little of what was fetched (G4).
const SMALL: usize = 1_024;

/// The queue of one assignment of one partition.
pub(in crate::source::kafka) struct Split {
    place: TopicPartition,
    /// The topic's name in a count of its own: records clone it, and one count for all partitions
    /// would go back and forth between the processors that work on them.
    topic: Arc<str>,
    id: u64,
    shared: Arc<Shared>,
    layout: Option<Layout>,
    reclaim: Arc<Reclaim<Message>>,
    tap: Mutex<Tap>,
}

struct Tap {
    raw: Option<RawQueue>,
    /// Filled by each batch; kept so that taking does not allocate.
    messages: Vec<*mut sys::rd_kafka_message_t>,
    /// Messages that were copied out, until the end of a take.
    spent: Vec<Message>,
    sequence: Sequence,
}

// SAFETY: the pointers in `messages` are only looked at during a take, under the lock.
unsafe impl Send for Tap {}

impl PartitionQueue for Arc<Split> {
    /// An intake that comes while the queue is being taken away or moved finds it empty; it is
    /// woken after.
    fn take(&self, max: usize, into: &mut Vec<Record>) -> usize {
        let Some(mut tap) = self.tap.try_lock() else { return 0 };
        let Tap { raw: Some(raw), messages, spent, sequence } = &mut *tap else { return 0 };
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
                // SAFETY: filled in by the call above, and owned by its caller.
                let message = unsafe { Message::owned(pointer) };
                if message.code() != 0 {
                    self.trouble(&message, sequence);
                    continue;
                }
                match sequence.record(message.offset()) {
                    Verdict::HandOut => {
                        taken += 1;
                        bytes += message.payload_len();
                        into.push(message.to_record(
                            &self.topic,
                            self.place.partition,
                            self.layout,
                        ));
                    }
                    Verdict::Discard => {}
                    Verdict::Jumped => self.jumped(&message, sequence),
                }
                spent.push(message);
            }
            self.give_back(spent);
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
    /// Makes the partition's messages stay in `queue` and wake `arrivals`.
    ///
    /// # Safety
    /// `queue` is a partition's, valid and handed over; [`silence`](Self::silence) is called before its
    /// client is destroyed.
    pub(super) unsafe fn open(
        queue: NonNull<sys::rd_kafka_queue_t>,
        place: TopicPartition,
        id: u64,
        next: i64,
        arrivals: Arrivals,
        shared: Arc<Shared>,
        reclaim: Arc<Reclaim<Message>>,
    ) -> Self {
        let arrivals = Arc::new(arrivals);
        // SAFETY: `queue` is valid. The opaque pointer stays valid until `RawQueue::drop` has cleared
        // the callback, which takes the lock under which librdkafka calls it.
        unsafe {
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            let opaque = Arc::as_ptr(&arrivals).cast_mut().cast::<c_void>();
            sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(arrived), opaque);
        }
        let tap = Tap {
            raw: Some(RawQueue { queue, arrivals }),
            messages: Vec::new(),
            spent: Vec::new(),
            sequence: Sequence::starting_at(next),
        };
        let topic = Arc::from(&*place.topic);
        let layout = Layout::of_this_version();
        Self { place, topic, id, shared, layout, reclaim, tap: Mutex::new(tap) }
    }

    pub(super) fn place(&self) -> &TopicPartition {
        &self.place
    }

    /// Tells assignments of the same partition apart.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// From here on nothing is taken and nobody is woken.
    pub(super) fn silence(&self) {
        let mut tap = self.tap.lock();
        tap.raw = None;
        // None are left, unless a take ended in a panic.
        tap.spent.clear();
    }

    /// Gives messages back to librdkafka: on the client's thread for that where it is worth waking,
    /// else here.
    fn give_back(&self, spent: &mut Vec<Message>) {
        let payload: usize = spent.iter().map(Message::payload_len).sum();
        if spent.len() >= WORTH_WAKING && payload <= spent.len() * SMALL {
            self.reclaim.give(spent);
        } else {
            spent.clear();
        }
    }

    /// Keeps the intake out for as long as the answer lives; wakes it after.
    pub(super) fn hold(&self) -> Held<'_> {
        Held(self.tap.lock())
    }

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

/// A queue that is held still.
pub(super) struct Held<'a>(MutexGuard<'a, Tap>);

impl Held<'_> {
    /// One past the last record handed out.
    pub(super) fn next(&self) -> i64 {
        self.0.sequence.next()
    }
}

impl Drop for Held<'_> {
    /// An intake that came meanwhile found nothing, although there may have been something.
    fn drop(&mut self) {
        if let Some(raw) = &self.0.raw {
            raw.arrivals.notify();
        }
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
