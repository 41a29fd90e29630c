//! Responses: every form that deployed stores send, one form that we send ("Response format").
use super::{
    ServiceError,
    resp::{self, Decoder, RespError},
    service_error,
};
use bytes::{BufMut, Bytes, BytesMut};

const OK: &[u8] = b"+OK\r\n";
const NIL: &[u8] = b"$-1\r\n";
const NOT_APPLIED: &[u8] = b":-1\r\n";
/// How the vendor's document writes [`NOT_APPLIED`].
const NOT_APPLIED_DOCUMENTED: &[u8] = b"-1\r\n";

/// A response payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// `+OK`: a SET or KEYNOTIFY was carried out.
    Ok,
    /// `:-1` (accepted also as `-1`): a condition of SET or the value of VDEL did not match.
    NotApplied,
    /// `$<n>`: the value of a GET.
    Value(Bytes),
    /// `$-1`: GET of an absent key.
    Nil,
    /// `:n` with n >= 0: how many keys were deleted, or `:0` for a KEYNOTIFY STOP without a watch.
    Count(u64),
    /// `*1` or `*2`: a page of a SCAN.
    Page {
        /// The keys of this page; there may be none although a token follows.
        keys: Vec<Bytes>,
        /// Asks for the next page; opaque. `None` on the last one.
        token: Option<Bytes>,
    },
    /// `-ERR`: the store refused.
    Error(ServiceError),
}

/// A response payload that is none of the known forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed response payload: {reason}")]
pub struct ReplyError {
    /// What is wrong with it.
    pub reason: &'static str,
}

impl ReplyError {
    const fn new(reason: &'static str) -> Self {
        Self { reason }
    }
}

impl From<RespError> for ReplyError {
    fn from(error: RespError) -> Self {
        Self::new(error.reason())
    }
}

impl Reply {
    /// Reads a response payload; values and keys are slices of it.
    ///
    /// Accepted besides the form that [`encode`](Self::encode) writes: a value without its final CRLF, `-1\r\n` as not
    /// applied, and whatever begins with `-ERR`.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use statestore_protocol::Reply;
    ///
    /// let value = Reply::Value(Bytes::from_static(b"1234"));
    /// assert_eq!(Reply::decode(&Bytes::from_static(b"$4\r\n1234\r\n")), Ok(value.clone()));
    /// assert_eq!(Reply::decode(&Bytes::from_static(b"$4\r\n1234")), Ok(value));
    /// ```
    pub fn decode(payload: &Bytes) -> Result<Self, ReplyError> {
        match payload.first() {
            Some(b'$') if payload == NIL => Ok(Self::Nil),
            Some(b'$') => Ok(Self::Value(Decoder::new(payload).last_bulk_bytes()?)),
            Some(b'+') if payload == OK => Ok(Self::Ok),
            Some(b'+') => Err(ReplyError::new("a simple string other than `+OK` and CRLF")),
            Some(b':') if payload == NOT_APPLIED => Ok(Self::NotApplied),
            Some(b':') => {
                let mut decoder = Decoder::new(payload);
                let count = decoder.integer()?;
                decoder.finish()?;
                Ok(Self::Count(count))
            }
            Some(b'*') => Self::decode_page(Decoder::new(payload)),
            Some(b'-') if payload == NOT_APPLIED_DOCUMENTED => Ok(Self::NotApplied),
            Some(b'-') if payload.starts_with(service_error::PREFIX) => {
                let text = payload.slice(service_error::PREFIX.len()..);
                Ok(Self::Error(ServiceError::from_text(&text)))
            }
            Some(b'-') => Err(ReplyError::new("neither `-ERR` nor `-1` and CRLF")),
            Some(_) => Err(ReplyError::new("an unknown type marker")),
            None => Err(ReplyError::new("it is empty")),
        }
    }

    fn decode_page(mut decoder: Decoder<'_>) -> Result<Self, ReplyError> {
        let has_token = match decoder.array()? {
            1 => false,
            2 => true,
            _ => return Err(ReplyError::new("a page has one or two elements")),
        };
        let count = decoder.array()?;
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            keys.push(decoder.bulk_bytes()?);
        }
        let token = has_token.then(|| decoder.bulk_bytes()).transpose()?;
        decoder.finish()?;
        Ok(Self::Page { keys, token })
    }

    /// Appends the form that a server sends. Room for all of it is reserved first, once.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(self.encoded_len());
        match self {
            Self::Ok => out.put_slice(OK),
            Self::NotApplied => out.put_slice(NOT_APPLIED),
            Self::Value(value) => resp::put_bulk(value, out),
            Self::Nil => out.put_slice(NIL),
            Self::Count(count) => resp::put_integer(*count, out),
            Self::Page { keys, token } => {
                resp::put_array(1 + usize::from(token.is_some()), out);
                resp::put_array(keys.len(), out);
                for part in keys.iter().chain(token) {
                    resp::put_bulk(part, out);
                }
            }
            Self::Error(error) => error.encode(out),
        }
    }

    /// How many bytes [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Ok => OK.len(),
            Self::NotApplied => NOT_APPLIED.len(),
            Self::Value(value) => value_len(value.len()),
            Self::Nil => NIL.len(),
            Self::Count(count) => resp::integer_len(*count),
            Self::Page { keys, token } => {
                let parts = keys.iter().chain(token);
                resp::array_len(1)
                    + resp::array_len(keys.len())
                    + parts.map(|part| resp::bulk_len(part.len())).sum::<usize>()
            }
            Self::Error(error) => error.encoded_len(),
        }
    }
}

/// Appends what [`Reply::Value`] of the same bytes would, without owning them.
pub fn encode_value(value: &[u8], out: &mut BytesMut) {
    out.reserve(value_len(value.len()));
    resp::put_bulk(value, out);
}

/// How many bytes [`encode_value`] appends for a value of `len` bytes.
pub fn value_len(len: usize) -> usize {
    resp::bulk_len(len)
}
