//! The keys of an MGET.
use crate::ServiceError;
use crate::resp::Decoder;
use bytes::Bytes;

/// Maximum number of keys in an MGET.
pub const MAX_KEYS: usize = 10_000;

/// The verb as it is sent.
pub(super) const VERB: &[u8] = b"$4\r\nMGET\r\n";

/// The error text for an MGET of more keys than [`MAX_KEYS`].
const TOO_MANY: &str = "an MGET has at most 10000 keys";

/// Reads the keys of an MGET, and the framing of the whole payload with them, from behind its verb. Not inlined, so that
/// other commands do not pay for it.
#[inline(never)]
pub(super) fn decode(
    payload: &Bytes,
    mut decoder: Decoder<'_>,
    count: usize,
) -> Result<Vec<Bytes>, ServiceError> {
    let syntax = |_| ServiceError::Syntax;
    let mut keys = Vec::with_capacity(count.min(MAX_KEYS));
    for _ in 0..count {
        let key = decoder.bulk().map_err(syntax)?;
        if keys.len() < MAX_KEYS {
            keys.push(payload.slice_ref(key));
        }
    }
    decoder.finish().map_err(syntax)?;
    if count > MAX_KEYS {
        return Err(ServiceError::Other(Bytes::from_static(TOO_MANY.as_bytes())));
    }
    if keys.iter().any(Bytes::is_empty) {
        return Err(ServiceError::EmptyKey);
    }
    Ok(keys)
}

/// Decodes a payload whose verb has valid framing other than [the usual one](VERB).
pub(super) fn decode_slow(payload: &Bytes) -> Result<Vec<Bytes>, ServiceError> {
    let syntax = |_| ServiceError::Syntax;
    let mut decoder = Decoder::new(payload);
    let count = decoder.array().map_err(syntax)?;
    decoder.bulk().map_err(syntax)?;
    decode(payload, decoder, count.saturating_sub(1))
}
