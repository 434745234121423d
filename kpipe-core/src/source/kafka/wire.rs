//! Headers as they lie in a fetched record: a count, then for each the lengths and bytes of name and
//! value. Integers are zigzag varints; a value of length -1 is null.
//!
//! librdkafka parses them into a list of its own, at about 1 us for four of them, and at 0.1 us
//! even to find that there are none.

/// The headers of one record, checked: iterating yields exactly as many as the count says.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireHeaders<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> WireHeaders<'a> {
    /// `None` if the bytes are anything else than headers.
    #[inline]
    pub(super) fn check(bytes: &'a [u8]) -> Option<Self> {
        // By far the most frequent record.
        if let [] | [0, ..] = bytes {
            return Some(Self { rest: &[], left: 0 });
        }
        let mut rest = bytes;
        let headers = Self { left: u32::try_from(varint(&mut rest)?).ok()?, rest };
        for _ in 0..headers.left {
            header(&mut rest)?;
        }
        Some(headers)
    }
}

impl<'a> Iterator for WireHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        header(&mut self.rest)
    }
}

fn header<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let name = part(rest)??;
    Some((name, part(rest)?))
}

/// `Some(None)` is null.
fn part<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match varint(rest)? {
        -1 => Some(None),
        len => {
            let (part, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            *rest = after;
            Some(Some(part))
        }
    }
}

/// Lengths are 32-bit: five bytes at most.
fn varint(rest: &mut &[u8]) -> Option<i64> {
    let mut zigzag = 0u64;
    for (at, &byte) in rest.iter().enumerate().take(5) {
        zigzag |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(into: &mut Vec<u8>, number: i64) {
        let mut zigzag = ((number << 1) ^ (number >> 63)) as u64;
        while zigzag >= 0x80 {
            into.push(zigzag as u8 | 0x80);
            zigzag >>= 7;
        }
        into.push(zigzag as u8);
    }

    fn encode(headers: &[(Vec<u8>, Option<Vec<u8>>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, headers.len() as i64);
        for (name, value) in headers {
            put(&mut bytes, name.len() as i64);
            bytes.extend(name);
            put(&mut bytes, value.as_ref().map_or(-1, |value| value.len() as i64));
            bytes.extend(value.iter().flatten());
        }
        bytes
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
        ) {
            let bytes = encode(&headers);
            let read: Vec<_> = WireHeaders::check(&bytes).unwrap().collect();
            let written: Vec<_> =
                headers.iter().map(|(name, value)| (&name[..], value.as_deref())).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn anything_else_is_refused_or_read_within_its_bounds(bytes: Vec<u8>) {
            if let Some(headers) = WireHeaders::check(&bytes) {
                prop_assert_eq!(headers.count(), headers.left as usize);
            }
        }

        #[test]
        fn what_was_cut_short_is_refused(
            headers in prop::collection::vec((any::<Vec<u8>>(), any::<Option<Vec<u8>>>()), 1..5),
            cut in 1usize..100,
        ) {
            let bytes = encode(&headers);
            let kept = bytes.len().saturating_sub(cut).max(1);
            prop_assert!(WireHeaders::check(&bytes[..kept]).is_none());
        }
    }

    #[test]
    fn a_name_must_not_be_null() {
        let mut bytes = Vec::new();
        for number in [1, -1, -1] {
            put(&mut bytes, number);
        }
        assert!(WireHeaders::check(&bytes).is_none());
    }

    #[test]
    fn old_records_have_no_section_and_new_ones_an_empty_one() {
        for bytes in [&[][..], &[0], &[0, 9]] {
            assert_eq!(WireHeaders::check(bytes).unwrap().count(), 0);
        }
    }
}
