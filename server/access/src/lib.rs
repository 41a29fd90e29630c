//! Authentication and authorization: which clients may connect, and on whose behalf they act.
//!
//! ```text
//!   CONNECT ─▶ LoginThrottle: when? ─▶ Authenticator: who? ─▶ Login (Principal) ─▶ session ─▶ every request
//!                                        │                   ▲
//!                                        └─▶ VerificationJob ┘  slow checks, on another thread
//! ```
//!
//! This module has no knowledge of connections or sessions. An [`Authenticator`] holds what is accepted: users and
//! their passwords, certificates, tokens, or every client.
#![forbid(unsafe_code)]

mod accepted_token;
mod authenticator;
mod certificate;
mod foreign_hash;
mod hash;
mod hashing_memory;
mod jwks;
mod login;
mod login_throttle;
mod mosquitto_hash;
mod network;
mod peer;
pub mod policy;
mod principal;
pub mod read_tracker;
pub mod salt_key;
mod scram;
mod token;
pub mod topic_filter;
mod user;
mod user_limits;
mod users;
mod verification;

pub use accepted_token::AcceptedToken;
pub use authenticator::{AccessError, Authenticator, CertificateName, Credentials};
pub use certificate::ClientCertificate;
pub use jwks::JwksError;
pub use peer::{Peer, UnixPeer};
pub use policy::{Policy, PolicyError, Rights};
pub use principal::{Owner, Principal};
pub use token::{MAX_LEEWAY_S, TokenVerifier};
pub use user_limits::{RateLimits, UserLimits, UserLimitsMap};
pub use users::read_password;
pub use users::{Users, UsersError, UsersSource};

pub use authenticator::{ClientGrant, LoginPacing, LoginRefusal, LoginStep};
pub use hash::PasswordHash;
pub use hashing_memory::HashingMemory;
pub use login::{Login, VerifiedCredential};
pub use login_throttle::{LoginSource, LoginThrottle, REFUSAL_DELAY_MS, ThrottleDecision};
pub use network::Network;
pub use scram::{ScramExchange, ScramKeys};
pub use verification::{VerificationJob, VerificationOutcome};
