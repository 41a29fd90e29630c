//! Authentication and authorization: which clients may connect, and on whose behalf they act.
//!
//! ```text
//!   text of a file ─▶ Users, KeySet ─▶ Authenticator          text of a file ─▶ Policy
//!                                            │                                    │
//!   CONNECT ─▶ LoginThrottle: when? ─▶ begin: who? ─▶ Login (Principal) ─▶ rights: what? ─▶ session ─▶ every request
//!                                            │        ▲
//!                                            └────────┘ VerificationJob: slow checks, on another thread
//! ```
//!
//! This crate has no knowledge of connections or sessions. It uses no file, clock or thread: the server reads the files
//! and passes their text, and calls a [`VerificationJob`] where it may block. An [`Authenticator`] holds what is
//! accepted: users and their passwords, certificates, tokens, or every client. If the keys of tokens can change while
//! the server runs, a [`KeySource`] provides them. Salts and nonces are random numbers of the system.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

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
pub mod salt_key;
mod scram;
mod token;
pub mod topic_filter;
mod user;
mod user_limits;
mod users;
mod verification;

pub use accepted_token::AcceptedToken;
pub use authenticator::{Authenticator, CertificateName, Credentials};
pub use certificate::ClientCertificate;
pub use jwks::{JwksError, KeySet, KeySource};
pub use peer::{Peer, TlsParameters, UnixPeer};
pub use policy::{Policy, PolicyDiagnostic, Rights};
pub use principal::{Owner, Principal};
pub use token::{MAX_LEEWAY_S, TokenVerifier};
pub use user_limits::{RateLimits, UserLimits, UserLimitsMap};
pub use users::{Users, UsersError};

pub use authenticator::{ClientGrant, LoginPacing, LoginRefusal, LoginStep};
pub use hash::PasswordHash;
pub use hashing_memory::HashingMemory;
pub use login::{Login, VerifiedCredential};
pub use login_throttle::{LoginSource, LoginThrottle, REFUSAL_DELAY_MS, ThrottleDecision};
pub use network::Network;
pub use scram::{ScramExchange, ScramKeys};
pub use verification::{VerificationJob, VerificationOutcome};
