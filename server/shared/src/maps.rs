//! Maps with fast hashes. Each request passes many maps, and the hash of the standard library would be a good part of its cost.
use bytes::Bytes;
use foldhash::{fast, quality};
use std::collections::HashMap;

/// A map by a number that this process has assigned.
pub(super) type ById<Id, Value> = HashMap<Id, Value, fast::RandomState>;

/// A map by a key, which clients choose.
pub(super) type ByKey<Value> = HashMap<Bytes, Value, quality::RandomState>;
