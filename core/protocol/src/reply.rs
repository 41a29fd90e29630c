//! Responses: every form that deployed stores send, one form that we send ("Response format").
mod entries;

pub use entries::PageEntry;

use super::{
    Capabilities, ServiceError, Version,
    resp::{self, Decoder, NIL, RespError},
    service_error,
};
use bytes::{BufMut, Bytes, BytesMut};

const OK: &[u8] = b"+OK\r\n";
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
    /// `*1` or `*2`: a page of a SCAN with values. A page without entries is decoded as [`Page`](Self::Page).
    EntryPage {
        /// The entries of this page.
        entries: Vec<PageEntry>,
        /// Asks for the next page; opaque. `None` on the last one.
        token: Option<Bytes>,
    },
    /// `*2` of a number and an array: the result of an MGET.
    Entries {
        /// Value and version of each of the first keys, in their order; one at least. `None` (`$-1`) for an absent key.
        entries: Vec<Option<(Bytes, Version)>>,
        /// How many of the last keys the response leaves out.
        omitted: u64,
    },
    /// `*2` of a value and a number: the result of a GET with PTTL.
    ValueAndTime {
        /// The value.
        value: Bytes,
        /// In how many milliseconds it expires; `None` (`:-1`) if it does not.
        expires_in_ms: Option<u64>,
    },
    /// `*2n` of names and numbers: the extensions of the store.
    Capabilities(Capabilities),
    /// `*n` of versions: a TXN was carried out. For each operation the version of its change; `None` (`$-1`) for a DEL
    /// of an absent key.
    Transacted(Vec<Option<Version>>),
    /// `*3` that begins with `:-1`: an operation of a TXN could not be carried out, and so none was.
    Rejected {
        /// Which operation, counted from 0.
        operation: u64,
        /// Why.
        reason: Rejection,
    },
    /// `-ERR`: the store refused.
    Error(ServiceError),
}

/// Why an operation of a transaction could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// The condition was not met: the key has this version, or is absent.
    Condition(Option<Version>),
    /// The store refused it.
    Error(ServiceError),
}

/// A response payload that is none of the known forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed response payload: {reason}")]
pub struct ReplyError {
    /// Description of the invalid part.
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
    /// Decodes a response payload; values and keys are slices of it.
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
            Some(b'*') => Self::decode_array(payload),
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

    // Not inlined, so that the usual replies do not pay for the rare ones.
    #[inline(never)]
    fn decode_array(payload: &Bytes) -> Result<Self, ReplyError> {
        let mut decoder = Decoder::new(payload);
        let count = decoder.array()?;
        match decoder.marker() {
            Some(b'*') => Self::decode_page(count, decoder),
            Some(b':') if count == 2 && !decoder.rest().starts_with(NOT_APPLIED) => {
                entries::decode(decoder)
            }
            Some(b':') => Self::decode_rejection(count, payload, decoder),
            _ => Self::decode_bulks(count, decoder),
        }
    }

    fn decode_page(count: usize, mut decoder: Decoder<'_>) -> Result<Self, ReplyError> {
        let has_token = match count {
            1 => false,
            2 => true,
            _ => return Err(ReplyError::new("a page has one or two elements")),
        };
        let count = decoder.array()?;
        if decoder.marker() == Some(b'*') {
            return entries::decode_page(count, has_token, decoder);
        }
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            keys.push(decoder.bulk_bytes()?);
        }
        let token = has_token.then(|| decoder.bulk_bytes()).transpose()?;
        decoder.finish()?;
        Ok(Self::Page { keys, token })
    }

    #[inline(never)]
    fn decode_rejection(
        count: usize,
        payload: &Bytes,
        mut decoder: Decoder<'_>,
    ) -> Result<Self, ReplyError> {
        if count != 3 || !decoder.skip(NOT_APPLIED) {
            return Err(ReplyError::new(
                "an array that begins with a number is neither a rejection nor the entries of an MGET",
            ));
        }
        let operation = decoder.integer()?;
        let reason = if decoder.marker() == Some(b'-') {
            let text = payload.slice_ref(decoder.rest());
            if !text.starts_with(service_error::PREFIX) {
                return Err(ReplyError::new("neither `-ERR` nor a version"));
            }
            let text = text.slice(service_error::PREFIX.len()..);
            Rejection::Error(ServiceError::from_text(&text))
        } else {
            let version = decode_version(&mut decoder)?;
            decoder.finish()?;
            Rejection::Condition(version)
        };
        Ok(Self::Rejected { operation, reason })
    }

    /// Decodes versions, a value and its time, or capabilities; the second element decides which.
    #[inline(never)]
    fn decode_bulks(count: usize, decoder: Decoder<'_>) -> Result<Self, ReplyError> {
        if count == 0 {
            return Err(ReplyError::new("a page has one or two elements"));
        }
        let mut ahead = decoder.clone();
        if count == 1 || ahead.bulk_or_nil()?.is_none() || ahead.marker() != Some(b':') {
            return Self::decode_versions(count, decoder);
        }
        if count == 2 {
            Self::decode_value_and_time(decoder)
        } else {
            Self::decode_capabilities(count, decoder)
        }
    }

    fn decode_versions(count: usize, mut decoder: Decoder<'_>) -> Result<Self, ReplyError> {
        let mut versions = Vec::with_capacity(count);
        for _ in 0..count {
            versions.push(decode_version(&mut decoder)?);
        }
        decoder.finish()?;
        Ok(Self::Transacted(versions))
    }

    fn decode_value_and_time(mut decoder: Decoder<'_>) -> Result<Self, ReplyError> {
        let value = decoder.bulk_bytes()?;
        let expires_in_ms = decode_remaining(&mut decoder)?;
        decoder.finish()?;
        Ok(Self::ValueAndTime {
            value,
            expires_in_ms,
        })
    }

    fn decode_capabilities(count: usize, mut decoder: Decoder<'_>) -> Result<Self, ReplyError> {
        if !count.is_multiple_of(2) {
            return Err(ReplyError::new("a capability is a name and a number"));
        }
        let mut capabilities = Capabilities::default();
        for _ in 0..count / 2 {
            let name = decoder.bulk()?;
            capabilities.record(name, decoder.integer()?);
        }
        decoder.finish()?;
        Ok(Self::Capabilities(capabilities))
    }

    /// Appends the form that a server sends. Room for all of it is reserved first, once.
    pub fn encode(&self, out: &mut BytesMut) {
        // Most replies are one of these, and appended at once.
        match self {
            Self::Ok => return out.put_slice(OK),
            Self::Value(value) => return encode_value(value, out),
            _ => {}
        }
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
            Self::EntryPage { entries, token } => {
                entries::encode_page(entries, token.as_ref(), out);
            }
            Self::Entries { entries, omitted } => entries::encode(entries, *omitted, out),
            Self::ValueAndTime {
                value,
                expires_in_ms,
            } => {
                resp::put_array(2, out);
                resp::put_bulk(value, out);
                encode_remaining(*expires_in_ms, out);
            }
            Self::Capabilities(capabilities) => {
                let pairs = capabilities.pairs();
                resp::put_array(2 * pairs.len(), out);
                for (name, number) in pairs {
                    resp::put_bulk(name, out);
                    resp::put_integer(number, out);
                }
            }
            Self::Transacted(versions) => {
                resp::put_array(versions.len(), out);
                for version in versions {
                    encode_version(*version, out);
                }
            }
            Self::Rejected { operation, reason } => {
                resp::put_array(3, out);
                out.put_slice(NOT_APPLIED);
                resp::put_integer(*operation, out);
                match reason {
                    Rejection::Condition(version) => encode_version(*version, out),
                    Rejection::Error(error) => error.encode(out),
                }
            }
            Self::Error(error) => error.encode(out),
        }
    }

    /// Returns the number of bytes that [`encode`](Self::encode) appends.
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
            Self::EntryPage { entries, token } => entries::page_len(entries, token.as_ref()),
            Self::Entries { entries, omitted } => entries::len(entries, *omitted),
            Self::ValueAndTime {
                value,
                expires_in_ms,
            } => {
                let remaining = remaining_len(*expires_in_ms);
                resp::array_len(2) + value_len(value.len()) + remaining
            }
            Self::Capabilities(capabilities) => {
                let pairs = capabilities.pairs();
                let lens = pairs
                    .map(|(name, number)| resp::bulk_len(name.len()) + resp::integer_len(number));
                resp::array_len(2 * pairs.len()) + lens.iter().sum::<usize>()
            }
            Self::Transacted(versions) => {
                let lens = versions.iter().map(|version| version_len(*version));
                resp::array_len(versions.len()) + lens.sum::<usize>()
            }
            Self::Rejected { operation, reason } => {
                let reason = match reason {
                    Rejection::Condition(version) => version_len(*version),
                    Rejection::Error(error) => error.encoded_len(),
                };
                resp::array_len(3) + NOT_APPLIED.len() + resp::integer_len(*operation) + reason
            }
            Self::Error(error) => error.encoded_len(),
        }
    }

    /// Returns the capabilities in a reply to `CAPS`; `None` for any other reply.
    ///
    /// A single name and its number look like a value and its remaining time; this form is recognized as well.
    pub fn capabilities(&self) -> Option<Capabilities> {
        match self {
            Self::Capabilities(capabilities) => Some(*capabilities),
            Self::ValueAndTime {
                value,
                expires_in_ms: Some(number),
            } => {
                let mut capabilities = Capabilities::default();
                capabilities.record(value, *number);
                Some(capabilities)
            }
            _ => None,
        }
    }
}

/// Appends the encoding of [`Reply::Value`] with the same bytes, without owning them.
pub fn encode_value(value: &[u8], out: &mut BytesMut) {
    out.reserve(value_len(value.len()));
    resp::put_bulk(value, out);
}

/// Returns the number of bytes that [`encode_value`] appends for a value of `len` bytes.
pub fn value_len(len: usize) -> usize {
    resp::bulk_len(len)
}

/// Decodes a version, or `$-1` for none.
fn decode_version(decoder: &mut Decoder<'_>) -> Result<Option<Version>, ReplyError> {
    let version = decoder.bulk_or_nil()?.map(|text| {
        Version::parse(text).ok_or(ReplyError::new("a bulk string that is not a version"))
    });
    version.transpose()
}

/// Decodes the milliseconds until an entry expires, or `:-1` if it does not.
fn decode_remaining(decoder: &mut Decoder<'_>) -> Result<Option<u64>, RespError> {
    if decoder.skip(NOT_APPLIED) {
        Ok(None)
    } else {
        decoder.integer().map(Some)
    }
}

fn encode_remaining(expires_in_ms: Option<u64>, out: &mut BytesMut) {
    match expires_in_ms {
        Some(ms) => resp::put_integer(ms, out),
        None => out.put_slice(NOT_APPLIED),
    }
}

fn remaining_len(expires_in_ms: Option<u64>) -> usize {
    expires_in_ms.map_or(NOT_APPLIED.len(), resp::integer_len)
}

fn encode_version(version: Option<Version>, out: &mut BytesMut) {
    match version {
        Some(version) => version.encode(out),
        None => out.put_slice(NIL),
    }
}

fn version_len(version: Option<Version>) -> usize {
    version.map_or(NIL.len(), |version| resp::bulk_len(version.text_len()))
}
