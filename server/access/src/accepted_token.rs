//! The properties of an accepted token that decide whether it is still accepted after a reload.
use super::jwks::Key;
use std::sync::Arc;

/// Signing key, issuer and audiences of an accepted token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedToken {
    pub(super) key: Arc<Key>,
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
}
