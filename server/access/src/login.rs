//! Accepted logins, and how long they are valid.
use super::{AcceptedToken, Principal};
use std::sync::Arc;

/// An accepted login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Principal on whose behalf the client acts.
    pub principal: Principal,
    /// Proof that the login rests on.
    pub credential: VerifiedCredential,
    /// Time at which the login expires, in Unix milliseconds, unless the client authenticates again before.
    pub expires_wall_ms: Option<u64>,
}

/// Proof that a login rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifiedCredential {
    /// No proof: every client is accepted.
    Anonymous,
    /// The password of a user.
    Password,
    /// The keys of a user for SCRAM.
    Scram,
    /// A certificate alone.
    Certificate,
    /// The signature of a token.
    Token(Arc<AcceptedToken>),
}

impl Login {
    /// Returns a login that does not expire.
    pub(crate) fn new(principal: Principal, proof: VerifiedCredential) -> Self {
        Self {
            principal,
            credential: proof,
            expires_wall_ms: None,
        }
    }
}
