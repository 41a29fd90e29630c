//! The command line as its users meet it: the real binary against a real store, both over TCP.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod addresses;
mod admin;
mod admin_https;
mod bench;
mod commands;
mod connection_failures;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(target_os = "linux")]
#[path = "../../../server/tests/process/disk.rs"]
mod disk;
mod extensions;
mod harness;
mod hints;
mod keys;
mod locks;
mod operators;
#[cfg(target_os = "linux")]
mod scripts;
mod terminal;
mod usage;
mod values;
mod watch;
