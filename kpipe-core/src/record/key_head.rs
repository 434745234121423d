use std::fmt;

/// How many bytes of a key are kept.
const KEPT: usize = 16;

/// The first bytes of a key, kept in place for the day its record fails: the record itself is the
/// handler's by then, and holding on to its buffer would cost every record that does not fail.
///
/// Taken for every record, so it is made of loads of a fixed size: the first eight (or four) bytes and
/// the last ones, which may overlap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHead {
    first: [u8; 8],
    last: [u8; 8],
    /// How long the key is; one more than is kept if it is longer.
    len: Option<u8>,
}

impl KeyHead {
    #[inline]
    pub(crate) fn of(key: Option<&[u8]>) -> Self {
        let mut head = Self { first: [0; 8], last: [0; 8], len: None };
        let Some(key) = key else { return head };
        head.len = Some(key.len().min(KEPT + 1) as u8);
        let kept = &key[..key.len().min(KEPT)];
        if let (Some(first), Some(last)) = (kept.first_chunk::<8>(), kept.last_chunk::<8>()) {
            (head.first, head.last) = (*first, *last);
        } else if let (Some(first), Some(last)) = (kept.first_chunk::<4>(), kept.last_chunk::<4>())
        {
            head.first[..4].copy_from_slice(first);
            head.last[..4].copy_from_slice(last);
        } else {
            for (to, from) in head.first.iter_mut().zip(kept) {
                *to = *from;
            }
        }
        head
    }

    /// The key as text, what is not text replaced; `None` for a null key.
    pub(crate) fn text(&self) -> Option<String> {
        let len = usize::from(self.len?);
        let kept = len.min(KEPT);
        let chunk = match kept {
            0..4 => kept,
            4..8 => 4,
            _ => 8,
        };
        let mut bytes = [0; KEPT];
        bytes[..chunk].copy_from_slice(&self.first[..chunk]);
        if kept > chunk {
            bytes[kept - chunk..kept].copy_from_slice(&self.last[..chunk]);
        }
        let mut text = String::from_utf8_lossy(&bytes[..kept]).into_owned();
        if len > KEPT {
            // A character that was cut in two is no part of the key.
            while text.ends_with(char::REPLACEMENT_CHARACTER) {
                text.pop();
            }
            text.push('…');
        }
        Some(text)
    }
}

impl fmt::Debug for KeyHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn text(key: &[u8]) -> String {
        KeyHead::of(Some(key)).text().unwrap()
    }

    #[test]
    fn a_key_is_shown_as_far_as_it_is_kept() {
        assert_eq!(KeyHead::of(None).text(), None);
        let all = "0123456789abcdef";
        for len in 0..=KEPT {
            assert_eq!(text(&all.as_bytes()[..len]), all[..len]);
        }
        assert_eq!(text(b"card-1"), "card-1");
        assert_eq!(text(&[b'a', 0xff, b'b']), "a\u{fffd}b");
        assert_eq!(text(&[b'x'; KEPT]), "x".repeat(KEPT));
        assert_eq!(text(&[b'x'; 1_000]), "x".repeat(KEPT) + "…");
        let cut = "x".repeat(KEPT - 1) + "é";
        assert_eq!(text(cut.as_bytes()), "x".repeat(KEPT - 1) + "…");
    }
}
