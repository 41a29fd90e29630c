//! The storages: what each one keeps, and what the durable one does when its files are not well.
mod backup;
mod committer;
mod conformance;
mod damage;
mod directory;
#[path = "../process/disk.rs"]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod disk;
mod failure;
mod format;
mod growth;
mod kill;
mod load;
mod model;
mod names;
mod restore;
mod snapshot;
mod transactions;
