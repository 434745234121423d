//! One message of librdkafka and the record that is copied out of it.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::slice;
use std::sync::Arc;

use rdkafka::bindings as sys;

use crate::record::{Record, RecordMeta, Timestamp};
use crate::source::kafka::errors;
use crate::source::kafka::wire::WireHeaders;

/// A message of librdkafka, owned: it goes back when this is dropped.
pub(super) struct Message(*mut sys::rd_kafka_message_t);

// SAFETY: librdkafka's messages may be read and freed on any thread.
unsafe impl Send for Message {}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once.
        unsafe { sys::rd_kafka_message_destroy(self.0) }
    }
}

impl Message {
    /// # Safety
    /// The message is valid, a consumer's, and handed over.
    #[inline]
    pub(super) unsafe fn owned(message: *mut sys::rd_kafka_message_t) -> Self {
        Self(message)
    }

    /// Not 0 if this is an error and no record. As a number, because a broker newer than the bindings
    /// may answer a code that their enum does not have.
    #[inline]
    pub(super) fn code(&self) -> i32 {
        // SAFETY: the message is valid; the error is a C enum, four bytes.
        unsafe { ptr::addr_of!((*self.0).err).cast::<i32>().read() }
    }

    #[inline]
    pub(super) fn offset(&self) -> i64 {
        // SAFETY: the message is valid.
        unsafe { (*self.0).offset }
    }

    /// Bytes of key and value, as librdkafka counts what it fetched.
    #[inline]
    pub(super) fn payload_len(&self) -> usize {
        // SAFETY: the message is valid.
        unsafe { (*self.0).key_len + (*self.0).len }
    }

    pub(super) fn error_text(&self) -> String {
        // SAFETY: the message is valid; the text is its own or static.
        unsafe {
            let text = sys::rd_kafka_message_errstr(self.0);
            if text.is_null() {
                return errors::describe(self.code());
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    /// Copies the record out.
    #[inline]
    pub(super) fn to_record(
        &self,
        topic: &Arc<str>,
        partition: i32,
        layout: Option<Layout>,
    ) -> Record {
        // SAFETY: the message is valid and outlives the slices, which `assemble` copies.
        unsafe {
            let key = bytes((*self.0).key, (*self.0).key_len);
            let value = bytes((*self.0).payload, (*self.0).len);
            let meta = RecordMeta {
                topic: topic.clone(),
                partition,
                offset: (*self.0).offset,
                timestamp: self.timestamp(),
                leader_epoch: sys::rd_kafka_message_leader_epoch(self.0),
            };
            match layout.and_then(|layout| self.wire_headers(layout, &meta)) {
                Some(headers) => {
                    debug_assert!(self.are_the_headers(headers));
                    Record::assemble(meta, key, value, headers)
                }
                None => Record::assemble(meta, key, value, self.parsed_headers()),
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

    /// The headers where they lie in the fetched record, or `None` where only librdkafka can tell.
    #[inline]
    fn wire_headers(&self, _: Layout, meta: &RecordMeta) -> Option<WireHeaders<'_>> {
        // SAFETY: a `Layout` is proof that messages of this version look like this inside; all of it
        // is within the message, and the bytes live as long as it does.
        unsafe {
            let inside = self.0.cast::<Inside>();
            // What lies before and behind the headers must be what the library says it is.
            let same = (*inside).timestamp == meta.timestamp.millis().unwrap_or(-1)
                && (*inside).leader_epoch == meta.leader_epoch;
            if !same || !(*inside).parsed.is_null() {
                return None;
            }
            let len = usize::try_from((*inside).headers.len).unwrap_or(0);
            let headers = if len == 0 { &[] } else { bytes((*inside).headers.data, len)? };
            WireHeaders::check(headers)
        }
    }

    /// The headers as librdkafka parses them.
    fn parsed_headers(&self) -> RawHeaders<'_> {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is valid, and the headers are its own.
        let code = unsafe { sys::rd_kafka_message_headers(self.0, &mut headers) } as i32;
        let headers = if code == 0 { headers } else { ptr::null_mut() };
        RawHeaders { headers, at: 0, message: PhantomData }
    }

    fn are_the_headers(&self, headers: WireHeaders<'_>) -> bool {
        let parsed = self.parsed_headers();
        // Only up to a zero byte, where librdkafka lets a name end.
        let upto = |name: &[u8]| name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
        headers.count() == parsed.clone().count()
            && headers
                .zip(parsed)
                .all(|(ours, theirs)| upto(ours.0) == theirs.0 && ours.1 == theirs.1)
    }
}

/// Proof that [`Inside`] is what messages of the librdkafka in use look like.
#[derive(Clone, Copy)]
pub(super) struct Layout(());

impl Layout {
    /// The versions whose source was read. Any other, newer or older, is asked through its own calls.
    const KNOWN: [c_int; 1] = [0x02_0c_01_ff];

    /// Only the library that is built along with the bindings is known: the system's may be another
    /// one under the same number.
    pub(super) fn of_this_version() -> Option<Self> {
        // SAFETY: has no conditions.
        let version = unsafe { sys::rd_kafka_version() };
        let bundled = cfg!(not(feature = "dynamic-linking"));
        (bundled && Self::KNOWN.contains(&version)).then_some(Self(()))
    }
}

/// A consumer's message as librdkafka keeps it (`rd_kafka_msg_t`), to read the headers in place: its
/// own call costs 0.1 us even where there are none, as much as everything else about a record.
#[repr(C)]
struct Inside {
    public: sys::rd_kafka_message_t,
    link: [*mut c_void; 2],
    flags: c_int,
    timestamp_kind: c_int,
    timestamp: i64,
    /// Set once they were parsed.
    parsed: *mut c_void,
    status: c_int,
    broker: i32,
    headers: Bytes,
    leader_epoch: i32,
}

#[repr(C)]
struct Bytes {
    len: i32,
    data: *const c_void,
    follow: [u8; 1],
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

/// The headers of a message in order; none if null.
#[derive(Clone)]
struct RawHeaders<'a> {
    headers: *const sys::rd_kafka_headers_t,
    at: usize,
    message: PhantomData<&'a Message>,
}

impl<'a> Iterator for RawHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the headers belong to a message that outlives `'a`.
        unsafe {
            if self.headers.is_null() {
                return None;
            }
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
