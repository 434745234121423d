//! For KPipe's own benches.

use std::ffi::CString;
use std::ptr::{self, NonNull};

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::message::Message;

/// A partition's queue whose messages go back to librdkafka unread: what the client alone costs.
#[derive(Debug)]
pub struct Drain<'a> {
    queue: NonNull<sys::rd_kafka_queue_t>,
    messages: Vec<*mut sys::rd_kafka_message_t>,
    consumer: std::marker::PhantomData<&'a BaseConsumer>,
}

// SAFETY: librdkafka's queues may be used from any thread, and nobody else sees `messages`.
unsafe impl Send for Drain<'_> {}

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
        self.messages[..got]
            .iter()
            // SAFETY: filled in by the call above, and owned by its caller.
            .filter(|&&pointer| unsafe { Message::owned(pointer) }.code() == 0)
            .count()
    }
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle outlives this borrow of its consumer.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}
