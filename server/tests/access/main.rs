//! Authentication: which clients may connect, and how they prove their identity.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod client;
mod key_file;
mod login;
mod passwd;
mod passwords;
mod scram;
mod signer;
mod tokens;

#[path = "../doors/authority.rs"]
#[allow(dead_code, reason = "the tests of the doors use more of it")]
mod authority;
#[path = "../hub/store.rs"]
mod store;
#[path = "../hub/world.rs"]
#[allow(dead_code, reason = "the tests of the hub use more of it")]
mod world;
