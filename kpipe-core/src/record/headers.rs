//! Headers as they lie in a record's buffer: for each a name length, a value length (or the null
//! mark), the name, the value. Lengths are native-endian `u32`; the buffer never leaves the process.

use std::borrow::Cow;
use std::fmt;

const NULL_VALUE: u32 = u32::MAX;
const LENGTHS: usize = 8;

/// The headers of a record, in order, duplicates kept.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    encoded: &'a [u8],
    count: u32,
}

/// One header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    name: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> Headers<'a> {
    pub(super) fn new(encoded: &'a [u8], count: u32) -> Self {
        Self { encoded, count }
    }

    /// How many headers there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is no header.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All headers in order.
    pub fn iter(&self) -> HeadersIter<'a> {
        HeadersIter { rest: self.encoded, left: self.count }
    }

    /// The last header of that name, the one that counts by Kafka's convention.
    pub fn get(&self, name: &str) -> Option<Header<'a>> {
        self.get_all(name).last()
    }

    /// All headers of that name in order.
    pub fn get_all<'n>(&self, name: &'n str) -> impl Iterator<Item = Header<'a>> + use<'a, 'n> {
        self.iter().filter(move |header| header.name == name.as_bytes())
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Header<'a>;
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Header<'a> {
    /// The name; what is not UTF-8 in it is replaced.
    pub fn name(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name)
    }

    /// The name as it was written.
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// The value, or `None` if it is null.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }
}

impl fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.map(String::from_utf8_lossy);
        write!(f, "{}={value:?}", self.name())
    }
}

/// Iterates over the headers of a record; see [`Headers::iter`].
#[derive(Clone, Debug)]
pub struct HeadersIter<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let name_len = self.length_at(0);
        let value_len = self.length_at(4);
        let (name, rest) = self.rest[LENGTHS..].split_at(name_len as usize);
        let (value, rest) = match value_len {
            NULL_VALUE => (None, rest),
            len => {
                let (value, rest) = rest.split_at(len as usize);
                (Some(value), rest)
            }
        };
        self.rest = rest;
        Some(Header { name, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for HeadersIter<'_> {}

impl HeadersIter<'_> {
    fn length_at(&self, at: usize) -> u32 {
        let bytes = &self.rest[at..at + 4];
        u32::from_ne_bytes(bytes.try_into().expect("a slice of four bytes"))
    }
}

/// Bytes that a header takes in the buffer.
pub(super) fn encoded_len(name: &[u8], value: Option<&[u8]>) -> usize {
    LENGTHS + name.len() + value.map_or(0, <[u8]>::len)
}

/// Appends a header to the buffer.
pub(super) fn encode(into: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    let value_len = value.map_or(NULL_VALUE, |value| value.len() as u32);
    into.extend_from_slice(&(name.len() as u32).to_ne_bytes());
    into.extend_from_slice(&value_len.to_ne_bytes());
    into.extend_from_slice(name);
    into.extend_from_slice(value.unwrap_or_default());
}
