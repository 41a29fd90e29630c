//! The service and the hub over a keyspace whose outcomes come later. The tests of the embedded keyspace hold here as
//! well, and two nodes over one map keep their promises.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keyspace;
mod nodes;
mod pending;
mod shared;
mod store;

#[path = "../engine/conditions.rs"]
mod conditions;
#[path = "../engine/expiry.rs"]
mod expiry;
#[path = "../engine/model.rs"]
mod model;
#[path = "../engine/replay.rs"]
mod replay;
#[path = "../engine/restore.rs"]
mod restore;
#[path = "../engine/rules.rs"]
mod rules;
#[path = "../engine/simulation.rs"]
mod simulation;
#[path = "../engine/terms.rs"]
mod terms;
#[path = "../engine/vectors.rs"]
mod vectors;
#[path = "../engine/watch.rs"]
mod watch;

#[path = "../hub/durability.rs"]
mod durability;
#[path = "../hub/flow.rs"]
mod flow;
#[path = "../hub/requests.rs"]
mod requests;
#[path = "../hub/sessions.rs"]
mod sessions;
#[path = "../hub/world.rs"]
#[allow(dead_code, reason = "the tests of the hub use more of it")]
mod world;
