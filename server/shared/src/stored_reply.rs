//! Encoding of the answer that an engine keeps for a request that other servers may also receive.
use super::engine::EngineError;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use statestore_protocol::Reply;
use statestored_store::keyspace::Completion;

/// Version of the format; the only one so far.
const FORMAT: u8 = 1;

/// Encodes an outcome for the engine. Returns `None` unless the request was executed, or refused by the rules.
pub(super) fn encode(end: &Completion) -> Option<Bytes> {
    let Completion::Answered { reply, version } = end else {
        return None;
    };
    let mut out = BytesMut::with_capacity(18 + reply.encoded_len());
    out.put_u8(FORMAT);
    out.put_u8(u8::from(version.is_some()));
    if let Some((wall_ms, counter)) = version {
        out.put_u64(*wall_ms);
        out.put_u64(*counter);
    }
    reply.encode(&mut out);
    Some(out.freeze())
}

/// Decodes the bytes that [`encode`] wrote.
///
/// # Errors
/// The bytes were written by another program or a newer release.
pub(super) fn decode(bytes: &Bytes) -> Result<Completion, EngineError> {
    let foreign =
        || EngineError::Foreign("a stored response that this program did not write".into());
    let mut rest = bytes.clone();
    if rest.try_get_u8() != Ok(FORMAT) {
        return Err(foreign());
    }
    let version = match rest.try_get_u8() {
        Ok(0) => None,
        Ok(1) => {
            let wall_ms = rest.try_get_u64().map_err(|_| foreign())?;
            let counter = rest.try_get_u64().map_err(|_| foreign())?;
            Some((wall_ms, counter))
        }
        _ => return Err(foreign()),
    };
    let reply = Reply::decode(&rest).map_err(|_| foreign())?;
    Ok(Completion::Answered { reply, version })
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestore_protocol::{Rejection, ServiceError, Version};

    #[test]
    fn a_stored_reply_is_decoded_unchanged() {
        let replies = [
            Reply::Ok,
            Reply::NotApplied,
            Reply::Count(0),
            Reply::Count(1),
            Reply::Transacted(vec![Some(Version::new(3, 4)), None]),
            Reply::Rejected {
                operation: 2,
                reason: Rejection::Condition(Some(Version::new(3, 4))),
            },
            Reply::Rejected {
                operation: 2,
                reason: Rejection::Error(ServiceError::FencingTokenLower),
            },
            Reply::Error(ServiceError::FencingTokenRequired),
        ];
        for reply in replies {
            for version in [None, Some((7, 8))] {
                let reply = reply.clone();
                let end = Completion::Answered { reply, version };
                let bytes = encode(&end).unwrap();
                assert_eq!(decode(&bytes), Ok(end));
            }
        }
    }

    #[test]
    fn only_replies_are_encoded_and_other_bytes_are_rejected() {
        for end in [
            Completion::Expired,
            Completion::Unavailable,
            Completion::Unknown,
        ] {
            assert_eq!(encode(&end), None);
        }
        for foreign in [
            &b""[..],
            b"\x01",
            b"\x02\0+OK\r\n",
            b"\x01\x01short",
            b"\x01\0?",
        ] {
            assert!(
                decode(&Bytes::copy_from_slice(foreign)).is_err(),
                "{foreign:?}"
            );
        }
    }
}
