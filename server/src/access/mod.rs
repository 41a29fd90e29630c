//! Authentication and authorization: which clients may connect, and on whose behalf they act.
//!
//! ```text
//!   CONNECT ─▶ Logins: when? ─▶ Authenticator: who? ─▶ Login (Principal) ─▶ session ─▶ every request
//!                                 │           ▲
//!                                 └──▶ Job ───┘  slow checks, on another thread
//! ```
//!
//! This module has no knowledge of connections or sessions. An [`Authenticator`] holds what is accepted: users and
//! their passwords, certificates, tokens, or every client.
mod authenticator;
mod certificate;
mod foreign_hash;
mod hash;
mod hashing_memory;
mod jwks;
mod login;
mod logins;
mod mosquitto_hash;
mod network;
mod peer;
pub mod policy;
mod principal;
pub(crate) mod proxy_header;
pub(crate) mod salt_key;
mod scram;
mod token;
mod user;
mod user_limits;
mod users;
mod verification;

pub use authenticator::{AccessError, Authenticator, CertificateName, Credentials};
pub use certificate::ClientCertificate;
pub use jwks::JwksError;
pub use peer::{LocalPeer, Peer};
pub use policy::{Policy, PolicyError, Rights};
pub use principal::{Owner, Principal};
pub use token::{MAX_LEEWAY_S, Tokens};
pub use user_limits::{LimitsOfUsers, Rates, UserLimits};
pub(crate) use users::read_password;
pub use users::{Users, UsersError, UsersSource};

pub(crate) use authenticator::{Pace, Refusal, Standing, Step};
pub(crate) use hash::PasswordHash;
pub(crate) use hashing_memory::HashingMemory;
pub(crate) use login::{Login, Proof};
pub(crate) use logins::{LoginSource, Logins, REFUSAL_DELAY_MS, Turn};
pub(crate) use network::Network;
pub(crate) use scram::{Exchange, ScramKeys};
pub(crate) use verification::{Job, Verdict};
