//! The storages: what each one keeps, and what the durable one does when its files are not well.
mod backup;
mod checking;
#[path = "../engine/model.rs"]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod commands;
mod committer;
mod conformance;
mod damage;
mod directory;
#[path = "../process/disk.rs"]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod disk;
mod disk_space;
mod failure;
mod format;
mod growth;
mod kill;
mod load;
mod manual_machine;
mod model;
mod names;
mod pacing;
mod restore;
mod salvage;
#[path = "../engine/simulation.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests of the embedded keyspace use more of it; a test fails by panicking"
)]
mod simulation;
mod snapshot;
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod store;
#[path = "../engine/terms.rs"]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod terms;
mod transactions;
