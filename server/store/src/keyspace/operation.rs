//! Operations that outlive the call that requested them.
use super::rules::Operation;
use bytes::Bytes;
use statestore_protocol::{Hlc, SetOptions, Version};

/// An operation with data of its own, which outlives the call that requested it.
#[derive(Debug, Clone)]
pub struct OwnedOperation(OwnedKind);

#[derive(Debug, Clone)]
enum OwnedKind {
    Get { remaining: bool, eventual: bool },
    Set(Bytes, SetOptions, Hlc, Option<Hlc>),
    Del(Option<Version>, Option<Hlc>),
    Vdel(Bytes, Option<Version>, Option<Hlc>),
}

impl OwnedOperation {
    /// Copies an operation.
    pub fn of(operation: &Operation<'_>) -> Self {
        Self(match *operation {
            Operation::Get {
                remaining,
                eventual,
            } => OwnedKind::Get {
                remaining,
                eventual,
            },
            Operation::Set {
                value,
                options,
                timestamp,
                token,
            } => OwnedKind::Set(value.clone(), options, timestamp.clone(), token.cloned()),
            Operation::Del { if_version, token } => OwnedKind::Del(if_version, token.cloned()),
            Operation::Vdel {
                value,
                if_version,
                token,
            } => OwnedKind::Vdel(value.clone(), if_version, token.cloned()),
        })
    }

    /// Returns whether the operation is a read, which never changes an entry.
    pub fn is_read(&self) -> bool {
        matches!(self.0, OwnedKind::Get { .. })
    }

    /// Returns whether the operation is a read that accepts an earlier state of the entry.
    pub fn is_eventual(&self) -> bool {
        matches!(self.0, OwnedKind::Get { eventual: true, .. })
    }

    /// Returns the operation, but a GET as one that is not eventual.
    pub fn borrowed(&self) -> Operation<'_> {
        match &self.0 {
            OwnedKind::Get { remaining, .. } => Operation::Get {
                remaining: *remaining,
                // An eventual GET that could be answered at once is not kept.
                eventual: false,
            },
            OwnedKind::Set(value, options, timestamp, token) => Operation::Set {
                value,
                options: *options,
                timestamp,
                token: token.as_ref(),
            },
            OwnedKind::Del(if_version, token) => Operation::Del {
                if_version: *if_version,
                token: token.as_ref(),
            },
            OwnedKind::Vdel(value, if_version, token) => Operation::Vdel {
                value,
                if_version: *if_version,
                token: token.as_ref(),
            },
        }
    }
}
