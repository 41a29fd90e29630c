//! Accepted logins, and how long they are valid.
use super::Principal;
use super::token::Signed;
use std::sync::Arc;

/// An accepted login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// Principal on whose behalf the client acts.
    pub(crate) principal: Principal,
    /// Proof that the login rests on.
    pub(crate) proof: Proof,
    /// Time at which the login expires, in Unix milliseconds, unless the client authenticates again before.
    pub(crate) until_wall_ms: Option<u64>,
}

/// Proof that a login rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// No proof: every client is accepted.
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
    /// Returns a login that does not expire.
    pub(crate) fn new(principal: Principal, proof: Proof) -> Self {
        Self {
            principal,
            proof,
            until_wall_ms: None,
        }
    }
}
