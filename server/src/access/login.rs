//! Who somebody turned out to be, and how long that holds.
use super::Principal;
use super::token::Signed;
use std::sync::Arc;

/// Somebody who was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// In whose name the client acts.
    pub(crate) principal: Principal,
    /// What that rests on.
    pub(crate) proof: Proof,
    /// When it is over, in Unix milliseconds, unless the client proves it again before.
    pub(crate) until_wall_ms: Option<u64>,
}

/// What it rests on that somebody was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Everybody is accepted.
    Nothing,
    /// The password of a user.
    Password,
    /// The keys of a user for SCRAM.
    Keys,
    /// A certificate alone.
    Certificate,
    /// The signature of a token.
    Token(Arc<Signed>),
}

impl Login {
    /// Without an end.
    pub(crate) fn new(principal: Principal, proof: Proof) -> Self {
        Self {
            principal,
            proof,
            until_wall_ms: None,
        }
    }
}
