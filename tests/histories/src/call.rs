//! A call on a key, and its result.
use statestore::{Hlc, Version};

/// An operation on a key.
#[derive(Debug, Clone)]
pub enum Invocation {
    /// Reads the key.
    Get,
    /// Sets the key to a number that no other call sets; under a condition, if there is one.
    Set(u64, Option<Condition>),
    /// Deletes the key.
    Del,
    /// Deletes the key if it holds this number.
    Vdel(u64),
}

/// Condition of a SET.
#[derive(Debug, Clone)]
pub enum Condition {
    /// The key is absent.
    IfAbsent,
    /// The key is absent, or holds the number that is being set.
    IfAbsentOrEqual,
    /// The key has this version.
    IfVersion(Version),
}

/// The result of a call.
#[derive(Debug, Clone)]
pub enum CallResult {
    /// The content of the key, and its version.
    Read(Option<(u64, Hlc)>),
    /// The number is stored.
    Applied(Hlc),
    /// The condition was not met; the version that the key has.
    NotApplied(Option<Hlc>),
    /// The key was deleted.
    Deleted(Option<Hlc>),
    /// The key was absent.
    Absent,
    /// The key holds another number.
    Mismatch,
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The operation.
    pub invocation: Invocation,
    /// The result; `None` if the outcome is unknown.
    pub result: Option<CallResult>,
}
