//! What a record holds: record `i` has key `i` mod 1,000 and the number of its key's records before
//! it, about 50 bytes in all.

/// Different keys in a topic.
pub const KEYS: u64 = 1_000;

/// Bytes of a value.
pub const VALUE_LEN: usize = 42;

/// What a handler reads out of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// 0 to 999.
    pub key: u32,
    /// How many records of the key come before it.
    pub seq: u32,
}

/// Writes record `i`'s key.
pub fn key(i: u64) -> String {
    format!("key-{:04}", i % KEYS)
}

/// The partition of record `i`: the same for one key, and the same share of keys for each.
pub fn partition(i: u64, partitions: u32) -> i32 {
    ((i % KEYS) % u64::from(partitions)) as i32
}

/// Writes record `i`'s value into `value`: key and sequence number first, then filling.
pub fn encode(i: u64, value: &mut [u8; VALUE_LEN]) {
    value[..4].copy_from_slice(&((i % KEYS) as u32).to_le_bytes());
    value[4..8].copy_from_slice(&((i / KEYS) as u32).to_le_bytes());
    value[8..].fill(b'.');
}

/// Reads a value back; `None` if it is not one of ours.
pub fn decode(value: &[u8]) -> Option<Entry> {
    let (key, rest) = value.split_first_chunk()?;
    let (seq, _) = rest.split_first_chunk()?;
    let entry = Entry { key: u32::from_le_bytes(*key), seq: u32::from_le_bytes(*seq) };
    (u64::from(entry.key) < KEYS).then_some(entry)
}

/// How many of `records` records have this key.
pub fn records_of_key(key: u64, records: u64) -> u64 {
    (records + KEYS - 1 - key) / KEYS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_its_keys_next_one() {
        let mut next = vec![0; KEYS as usize];
        let mut value = [0; VALUE_LEN];
        for i in 0..2_345 {
            encode(i, &mut value);
            let entry = decode(&value).unwrap();
            assert_eq!(entry.seq, next[entry.key as usize]);
            next[entry.key as usize] += 1;
        }
        for (key, count) in (0..).zip(next) {
            assert_eq!(u64::from(count), records_of_key(key, 2_345));
        }
    }

    #[test]
    fn a_foreign_value_is_not_read() {
        assert_eq!(decode(b"short"), None);
        assert_eq!(decode(&[0xff; VALUE_LEN]), None);
    }
}
