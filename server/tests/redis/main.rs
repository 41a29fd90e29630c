//! Servers over a real Redis: what one of them did, the others know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod attached;
mod confirmed_reads;
#[path = "../process/disk.rs"]
mod disk;
#[path = "../elsewhere/mod.rs"]
mod elsewhere;
mod replicas;
mod secure;
mod sentinels;
mod server;
mod slots;
mod unsuitable;

#[path = "../engine/conditions.rs"]
mod conditions;
#[path = "../engine/model.rs"]
mod model;
#[path = "../engine/rules.rs"]
mod rules;
#[path = "../engine/simulation.rs"]
#[allow(
    dead_code,
    reason = "the tests of the embedded keyspace use more of it"
)]
mod simulation;
#[path = "../engine/terms.rs"]
mod terms;
#[path = "../engine/vectors.rs"]
mod vectors;

use elsewhere::store;

/// Name of the storage in `tests/vectors/storages.json`.
const STORAGE: &str = "redis";

/// The engine that the model runs with.
type TestEngine = server::Redis;

elsewhere::suite::suite!(crate::server::Redis);
