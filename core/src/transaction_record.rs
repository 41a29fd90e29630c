//! Recognition of the records that `statestore-intents` stores in the place of values.
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use statestore_protocol::Hlc;
use std::error::Error as StdError;
use std::fmt;

/// The stored value of a key that is part of an unfinished transaction of `statestore-intents`.
///
/// The error of a read that meets a record has it as its [source](StdError::source).
#[derive(Debug, Clone)]
pub struct TransactionRecord {
    /// The stored bytes, which are no value of an application.
    pub value: Bytes,
    /// Version of the record.
    pub version: Hlc,
}

impl TransactionRecord {
    /// Prefix of every record: 16 random bytes. No value of an application starts with them.
    pub const PREFIX: [u8; 16] = [
        0x9c, 0x51, 0xe3, 0x0f, 0xd8, 0x77, 0x4a, 0xb6, 0x83, 0x1d, 0xf4, 0x62, 0x2e, 0xc9, 0x05,
        0xba,
    ];

    /// Returns the record that caused this error, if one did.
    pub fn of(error: &Error) -> Option<&Self> {
        error.source()?.downcast_ref()
    }

    /// Fails if a stored value is a record. `action` describes the read for the error.
    pub(crate) fn reject(
        value: &Bytes,
        version: &Hlc,
        action: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if !value.starts_with(&Self::PREFIX) {
            return Ok(());
        }
        let record = Self {
            value: Bytes::copy_from_slice(value),
            version: version.clone(),
        };
        let reason = "the value belongs to an unfinished transaction of `statestore-intents`; read it with that client";
        let error = Error::new(ErrorKind::Unsupported, Outcome::NotDone, action(), reason);
        Err(error.with_source(record))
    }
}

impl fmt::Display for TransactionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a record of {} bytes", self.value.len())
    }
}

impl StdError for TransactionRecord {}
