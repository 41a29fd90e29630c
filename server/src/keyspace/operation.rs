//! Operations that end later than the call that brought them.
use super::rules::Operation;
use bytes::Bytes;
use statestore_protocol::{Hlc, SetOptions, Version};

/// An operation that outlives the call that brought it.
#[derive(Debug, Clone)]
pub struct OwnedOperation(Owned);

#[derive(Debug, Clone)]
enum Owned {
    Get { remaining: bool, eventual: bool },
    Set(Bytes, SetOptions, Hlc, Option<Hlc>),
    Del(Option<Version>, Option<Hlc>),
    Vdel(Bytes, Option<Version>, Option<Hlc>),
}

impl OwnedOperation {
    /// What is to outlive `operation`.
    pub fn of(operation: &Operation<'_>) -> Self {
        Self(match *operation {
            Operation::Get {
                remaining,
                eventual,
            } => Owned::Get {
                remaining,
                eventual,
            },
            Operation::Set {
                value,
                options,
                timestamp,
                token,
            } => Owned::Set(value.clone(), options, timestamp.clone(), token.cloned()),
            Operation::Del { if_version, token } => Owned::Del(if_version, token.cloned()),
            Operation::Vdel {
                value,
                if_version,
                token,
            } => Owned::Vdel(value.clone(), if_version, token.cloned()),
        })
    }

    /// Whether it never changes anything.
    pub fn only_reads(&self) -> bool {
        matches!(self.0, Owned::Get { .. })
    }

    /// Whether it is a read that wants no more than what the key held a moment ago.
    pub fn is_eventual(&self) -> bool {
        matches!(self.0, Owned::Get { eventual: true, .. })
    }

    /// The operation.
    pub fn borrowed(&self) -> Operation<'_> {
        match &self.0 {
            Owned::Get { remaining, .. } => Operation::Get {
                remaining: *remaining,
                // It was answered at once if it could be.
                eventual: false,
            },
            Owned::Set(value, options, timestamp, token) => Operation::Set {
                value,
                options: *options,
                timestamp,
                token: token.as_ref(),
            },
            Owned::Del(if_version, token) => Operation::Del {
                if_version: *if_version,
                token: token.as_ref(),
            },
            Owned::Vdel(value, if_version, token) => Operation::Vdel {
                value,
                if_version: *if_version,
                token: token.as_ref(),
            },
        }
    }
}
