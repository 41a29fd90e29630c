//! Format of values in serde.
//!
//! A human-readable format, such as JSON, stores text as a string, and other bytes as an object with a member `base64`. Other
//! formats store bytes.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt;

/// Member that holds bytes that are not text.
const BASE64: &str = "base64";

pub(super) fn serialize<S: Serializer>(value: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return serializer.serialize_bytes(value);
    }
    if let Ok(text) = str::from_utf8(value) {
        return serializer.serialize_str(text);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(BASE64, &STANDARD.encode(value))?;
    map.end()
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(Value)
    } else {
        Bytes::deserialize(deserializer)
    }
}

struct Value;

impl<'de> Visitor<'de> for Value {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string, or an object with the member `{BASE64}`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bytes, A::Error> {
        let Some((name, text)) = map.next_entry::<String, String>()? else {
            return Err(Error::missing_field(BASE64));
        };
        if name != BASE64 {
            return Err(Error::unknown_field(&name, &[BASE64]));
        }
        STANDARD
            .decode(text)
            .map(Bytes::from)
            .map_err(Error::custom)
    }
}
