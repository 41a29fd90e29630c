//! The forms that almost all requests have, read without detours.
use super::{Command, SetOptions};
use bytes::Bytes;

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n";

/// More digits than the length of a usual key or value has.
const MAX_LEN_DIGITS: usize = 7;

/// Decodes `GET key` or `SET key value` in the form that every client writes. `None` does not mean an error:
/// [`Command::decode`] knows more forms and reports invalid ones.
#[inline]
pub(super) fn decode(payload: &Bytes) -> Option<Command> {
    let verb = payload.first_chunk::<{ GET.len() }>()?;
    let key = bulk(payload, GET.len())?;
    if key.is_empty() {
        return None;
    }
    let end = key.end + 2;
    if verb == GET {
        return (end == payload.len()).then(|| Command::Get {
            key: payload.slice(key),
            remaining: false,
            eventual: false,
        });
    }
    if verb != SET {
        return None;
    }
    let value = bulk(payload, end)?;
    (value.end + 2 == payload.len()).then(|| Command::Set {
        key: payload.slice(key),
        value: payload.slice(value),
        options: SetOptions::default(),
    })
}

/// Returns the range of the content of the bulk string that begins at `at`, if it is complete with its CRLF.
#[inline]
fn bulk(payload: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    let [b'$', line @ ..] = payload.get(at..)? else {
        return None;
    };
    let mut len = 0;
    let mut digits = 0;
    while let Some(digit @ b'0'..=b'9') = line.get(digits) {
        len = len * 10 + usize::from(digit - b'0');
        digits += 1;
        if digits == MAX_LEN_DIGITS {
            return None;
        }
    }
    let start = at + 1 + digits + 2;
    let end = start + len;
    let is_whole = digits > 0
        && line.get(digits..digits + 2)? == b"\r\n"
        && payload.get(end..end + 2)? == b"\r\n";
    is_whole.then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Payloads that are requests, or nearly.
    fn payloads() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            8 => prop::collection::vec(any::<u8>(), 0..12),
            1 => prop::collection::vec(any::<u8>(), 100..120),
        ];
        let verb = prop_oneof![4 => Just("GET"), 4 => Just("SET"), 1 => Just("DEL")];
        let change = prop::option::of((any::<prop::sample::Index>(), any::<u8>()));
        (verb, prop::collection::vec(part, 1..4), change, 0..3_usize).prop_map(
            |(verb, parts, change, cut)| {
                let mut payload = format!("*{}\r\n$3\r\n{verb}\r\n", 1 + parts.len()).into_bytes();
                for part in &parts {
                    payload.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
                    payload.extend_from_slice(part);
                    payload.extend_from_slice(b"\r\n");
                }
                if let Some((at, byte)) = change {
                    let at = at.index(payload.len());
                    payload[at] = byte;
                }
                payload.truncate(payload.len() - cut / 2);
                payload
            },
        )
    }

    proptest! {
        #[test]
        fn the_fast_path_agrees_with_the_general_decoder(payload in payloads()) {
            let payload = Bytes::from(payload);
            if let Some(command) = decode(&payload) {
                prop_assert_eq!(Ok(command), Command::decode_slow(&payload));
            }
        }
    }

    #[test]
    fn the_fast_path_decodes_the_frequent_forms() {
        for usual in [
            "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n",
        ] {
            assert!(
                decode(&Bytes::from_static(usual.as_bytes())).is_some(),
                "{usual:?}"
            );
        }
    }
}
