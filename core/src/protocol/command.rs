//! Requests: the six commands as RESP3 arrays of bulk strings.
use super::ServiceError;
use bytes::{Bytes, BytesMut};
use std::num::NonZeroU64;

/// When a SET applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// `NX`: only if the key is absent.
    IfAbsent,
    /// `NEX`: only if the key is absent or already holds the value being set.
    IfAbsentOrEqual,
}

/// The options of a SET as they stand in its payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SetOptions {
    /// When it applies.
    pub condition: Condition,
    /// `PX`: milliseconds until the key expires; without it the key does not expire.
    pub expires_in_ms: Option<NonZeroU64>,
}

/// A command to the state store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// `SET key value [NX | NEX] [PX ms]`
    Set {
        /// The key, not empty.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// Condition and expiry.
        options: SetOptions,
    },
    /// `GET key`
    Get {
        /// The key, not empty.
        key: Bytes,
    },
    /// `DEL key`
    Del {
        /// The key, not empty.
        key: Bytes,
    },
    /// `VDEL key value`
    Vdel {
        /// The key, not empty.
        key: Bytes,
        /// The value.
        value: Bytes,
    },
    /// `KEYNOTIFY key`
    Watch {
        /// The key, not empty.
        key: Bytes,
    },
    /// `KEYNOTIFY key STOP`
    Unwatch {
        /// The key, not empty.
        key: Bytes,
    },
    /// `SCAN pattern [token]`
    Scan {
        /// Glob over keys.
        pattern: Bytes,
        /// Where the page before this one ended.
        token: Option<Bytes>,
    },
}

impl Command {
    /// Reads a request payload; the error is the one that the store answers. Keys and values are slices of `payload`.
    pub fn decode(payload: &Bytes) -> Result<Self, ServiceError> {
        unimplemented!()
    }
    /// Appends the request payload.
    pub fn encode(&self, out: &mut BytesMut) {
        unimplemented!()
    }
    /// How many bytes [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        unimplemented!()
    }
    /// The verb, as on the wire.
    pub fn verb(&self) -> &'static str {
        unimplemented!()
    }
    // Also free functions that encode from borrowed slices, so that a client need not own key and value:
    // pub fn encode_set(key: &[u8], value: &[u8], options: SetOptions, out: &mut BytesMut) ... one per verb,
    // or a borrowed `CommandRef<'a>`; choose one and build `Command::encode` on it.
}
