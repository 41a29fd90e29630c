//! Responses: every form that deployed stores send, one form that we send.
use super::ServiceError;
use bytes::{Bytes, BytesMut};

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
        /// The keys of this page.
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

impl Reply {
    /// Reads a response payload; values and keys are slices of it.
    pub fn decode(payload: &Bytes) -> Result<Self, ReplyError> {
        unimplemented!()
    }
    /// Appends the form that a server sends.
    pub fn encode(&self, out: &mut BytesMut) {
        unimplemented!()
    }
    /// How many bytes [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        unimplemented!()
    }
}
