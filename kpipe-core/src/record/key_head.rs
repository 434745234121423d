use std::fmt;

/// How many bytes of a key are kept.
const KEPT: usize = 30;

/// The first bytes of a key, kept in place for the day its record fails: the record itself is the
/// handler's by then, and holding on to its buffer would cost every record that does not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHead {
    bytes: [u8; KEPT],
    /// How many of them count; one more than there are if the key is longer.
    len: Option<u8>,
}

impl KeyHead {
    #[inline]
    pub(crate) fn of(key: Option<&[u8]>) -> Self {
        let mut bytes = [0; KEPT];
        let Some(key) = key else { return Self { bytes, len: None } };
        let kept = key.len().min(KEPT);
        bytes[..kept].copy_from_slice(&key[..kept]);
        Self { bytes, len: Some(key.len().min(KEPT + 1) as u8) }
    }

    /// The key as text, what is not text replaced; `None` for a null key.
    pub(crate) fn text(&self) -> Option<String> {
        let len = usize::from(self.len?);
        let mut text = String::from_utf8_lossy(&self.bytes[..len.min(KEPT)]).into_owned();
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
        assert_eq!(text(b""), "");
        assert_eq!(text(b"card-1"), "card-1");
        assert_eq!(text(&[b'a', 0xff, b'b']), "a\u{fffd}b");
        assert_eq!(text(&[b'x'; KEPT]), "x".repeat(KEPT));
        assert_eq!(text(&[b'x'; 1_000]), "x".repeat(KEPT) + "…");
        let cut = "x".repeat(KEPT - 1) + "é";
        assert_eq!(text(cut.as_bytes()), "x".repeat(KEPT - 1) + "…");
    }
}
