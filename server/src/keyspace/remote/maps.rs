//! Maps of what is under way and known: each request passes many of them, and the hash that the standard library has would be a good part of what it costs.
use bytes::Bytes;
use foldhash::{fast, quality};
use std::collections::HashMap;

/// By a number that this process has given.
pub(super) type ById<Id, Value> = HashMap<Id, Value, fast::RandomState>;

/// By a key, which somebody else has chosen.
pub(super) type ByKey<Value> = HashMap<Bytes, Value, quality::RandomState>;
