//! Content types, for components that keep them.
//!
//! The state store has no field for them. A component with `keepContentType` puts a value that has a content type into an
//! envelope: a mark, the length of the content type in one byte, the content type, the value. A value without a content type
//! stays as it is, unless it begins with the mark itself.
use bytes::Bytes;
use std::collections::HashMap;
use tonic::Status;

const MARK: &[u8] = b"\0statestore-dapr\x01";

/// Metadata key of the content type in older clients of daprd.
const METADATA: &str = "contentType";

/// Returns the stored form of a value.
pub(crate) fn encode_value(
    value: Bytes,
    content_type: &str,
    metadata: &HashMap<String, String>,
) -> Result<Bytes, Status> {
    let content_type = if content_type.is_empty() {
        metadata
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(METADATA))
            .map_or("", |(_, value)| value)
    } else {
        content_type
    };
    if content_type.is_empty() && !value.starts_with(MARK) {
        return Ok(value);
    }
    let Ok(len) = u8::try_from(content_type.len()) else {
        return Err(Status::invalid_argument(
            "the content type is longer than 255 bytes",
        ));
    };
    let parts = [MARK, &[len], content_type.as_bytes(), &value];
    Ok(parts.concat().into())
}

/// Splits a stored value into the value and its content type, which is empty if there is none.
pub(crate) fn decode_value(mut stored: Bytes) -> (Bytes, String) {
    let envelope = || {
        let (len, rest) = stored.strip_prefix(MARK)?.split_first()?;
        let content_type = rest.get(..usize::from(*len))?;
        String::from_utf8(content_type.to_vec()).ok()
    };
    match envelope() {
        Some(content_type) => {
            let value = stored.split_off(MARK.len() + 1 + content_type.len());
            (value, content_type)
        }
        None => (stored, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: &[u8], content_type: &str) -> (Bytes, (Bytes, String)) {
        let value = Bytes::copy_from_slice(value);
        let stored = encode_value(value, content_type, &HashMap::new()).unwrap();
        (stored.clone(), decode_value(stored))
    }

    #[test]
    fn values_round_trip() {
        let longest = "x".repeat(255);
        for value in [&b""[..], b"plain", MARK, &[MARK, b"\x05and"].concat()] {
            for content_type in [
                "",
                "application/json",
                "text/plain; charset=utf-8",
                &longest,
            ] {
                let (_, back) = round_trip(value, content_type);
                assert_eq!(
                    back,
                    (Bytes::copy_from_slice(value), content_type.to_owned())
                );
            }
        }
    }

    #[test]
    fn a_value_without_a_content_type_stays_as_it_is() {
        assert_eq!(round_trip(b"plain", "").0, "plain");
        assert_ne!(round_trip(b"plain", "a/b").0, "plain");
    }

    #[test]
    fn a_value_without_an_envelope_is_unchanged() {
        for tail in [&b""[..], b"\x09short", b"\x02\xff\xfe"] {
            let stored = Bytes::from([MARK, tail].concat());
            assert_eq!(decode_value(stored.clone()), (stored, String::new()));
        }
    }

    #[test]
    fn the_content_type_may_come_from_metadata_and_is_limited_in_length() {
        let metadata = HashMap::from([("ContentType".to_owned(), "a/b".to_owned())]);
        let stored = encode_value(Bytes::new(), "", &metadata).unwrap();
        assert_eq!(decode_value(stored).1, "a/b");
        let stored = encode_value(Bytes::new(), "c/d", &metadata).unwrap();
        assert_eq!(decode_value(stored).1, "c/d");
        let long = "x".repeat(256);
        assert!(encode_value(Bytes::new(), &long, &HashMap::new()).is_err());
    }
}
