//! One value, in whatever form a format or an environment has it.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::{
    Error as ValueError, MapAccessDeserializer, SeqAccessDeserializer, StringDeserializer,
};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::AttemptDeadline;
use crate::error::Error;

/// A value. Whatever a format has is taken, so that a refusal can name the field.
pub(super) enum Scalar {
    Number(u64),
    Flag(bool),
    Text(String),
    /// As it is shown: nothing that any field accepts.
    Other(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a setting")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(u64::try_from(number).map_or_else(|_| Scalar::Other(number.to_string()), Scalar::Number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Other(format!("{number:?}")))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Scalar, A::Error> {
        shown(serde_json::Value::deserialize(SeqAccessDeserializer::new(seq))?)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Scalar, A::Error> {
        shown(serde_json::Value::deserialize(MapAccessDeserializer::new(map))?)
    }
}

fn shown<E>(value: serde_json::Value) -> Result<Scalar, E> {
    // The only way in which the `toml` crate hands over a date or a time.
    let moment = value.get("$__toml_private_datetime").and_then(|moment| moment.as_str());
    Ok(Scalar::Other(moment.map_or_else(|| value.to_string(), str::to_owned)))
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Text(text) | Self::Other(text) => f.write_str(text),
        }
    }
}

/// A field by the name that the user gave it, and what it makes of a value.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) field: &'a str,
}

const A_DURATION: &str = "must be a duration like \"30s\", \"5m\" or \"250ms\"";

impl Named<'_> {
    pub(super) fn text(self, value: Option<Scalar>) -> Result<Option<String>, Error> {
        self.read(value, "must be text in quotes", |value| match value {
            Scalar::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    pub(super) fn choice<'de, T: Deserialize<'de>>(
        self,
        value: Option<Scalar>,
        accepted: &str,
    ) -> Result<Option<T>, Error> {
        self.read(value, format_args!("must be {accepted}"), |value| match value {
            Scalar::Text(text) => {
                T::deserialize(StringDeserializer::<ValueError>::new(text.clone())).ok()
            }
            _ => None,
        })
    }

    pub(super) fn duration(self, value: Option<Scalar>) -> Result<Option<Duration>, Error> {
        self.read(value, A_DURATION, duration)
    }

    pub(super) fn deadline(self, value: Option<Scalar>) -> Result<Option<AttemptDeadline>, Error> {
        let off =
            |text: &str| ["off", "none", "false"].iter().any(|o| text.eq_ignore_ascii_case(o));
        self.read(value, format_args!("{A_DURATION}, or off"), |value| match value {
            Scalar::Flag(false) => Some(AttemptDeadline::Off),
            Scalar::Text(text) if off(text) => Some(AttemptDeadline::Off),
            value => duration(value).map(AttemptDeadline::After),
        })
    }

    pub(super) fn size(self, value: Option<Scalar>) -> Result<Option<u64>, Error> {
        let accepted = "must be a size like \"64MiB\" or a number of bytes";
        self.read(value, accepted, |value| match value {
            Scalar::Number(bytes) => Some(*bytes),
            Scalar::Text(text) => text.parse::<bytesize::ByteSize>().ok().map(|size| size.as_u64()),
            _ => None,
        })
    }

    pub(super) fn number(self, value: Option<Scalar>) -> Result<Option<u64>, Error> {
        self.read(value, "must be a whole number, not negative", |value| match value {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => text.replace(['_', ','], "").parse().ok(),
            _ => None,
        })
    }

    pub(super) fn flag(self, value: Option<Scalar>) -> Result<Option<bool>, Error> {
        self.read(value, "must be true or false", |value| match value {
            Scalar::Flag(flag) => Some(*flag),
            Scalar::Text(text) => text.parse().ok(),
            _ => None,
        })
    }

    fn read<T>(
        self,
        value: Option<Scalar>,
        accepted: impl fmt::Display,
        read: impl FnOnce(&Scalar) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = value else { return Ok(None) };
        let refused = || Error::config(self.field, &value, accepted);
        read(&value).map(Some).ok_or_else(refused)
    }
}

fn duration(value: &Scalar) -> Option<Duration> {
    match value {
        Scalar::Number(ms) => Some(Duration::from_millis(*ms)),
        Scalar::Text(text) => {
            let ms = text.parse().map(Duration::from_millis);
            ms.ok().or_else(|| humantime::parse_duration(text).ok())
        }
        _ => None,
    }
}
