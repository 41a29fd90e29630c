//! Servers over a real Redis: what one of them did, the others know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod attached;
mod confirmed;
#[path = "../process/disk.rs"]
mod disk;
#[path = "../elsewhere/mod.rs"]
mod elsewhere;
mod replicas;
mod secure;
mod server;
mod slots;
mod unfit;

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

/// What `tests/vectors/storages.json` calls it.
const STORAGE: &str = "redis";

/// What the model is tried over.
type Tested = server::Redis;

elsewhere::suite::suite!(crate::server::Redis);
