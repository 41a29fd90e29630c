//! The state store as a pure state machine: `(request, now) -> response, notifications, writes`.
//!
//! No socket, no thread, no clock of its own.
use crate::storage::{Batch, Record};
use bytes::Bytes;
use statestore::protocol::{Event, Hlc, Reply, property::RequestProperties};
use std::sync::Arc;

/// The two clocks that one instant has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the Unix epoch; may jump. Versions and skew limits come from it.
    pub wall_ms: u64,
    /// Milliseconds on a clock that never jumps; expiry is counted on it.
    pub mono_ms: u64,
}

/// What an operator can set.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Most keys the store holds; a SET of one more answers `the quota has been exceeded`.
    pub max_keys: u64,
    /// Longest key in bytes. Its hex form must fit a notification topic of 65,535 bytes.
    pub max_key_bytes: usize,
    /// Most payload bytes of a SCAN page.
    pub max_page_bytes: usize,
}

/// One request, as it came from the front.
#[derive(Debug)]
pub struct Request<'a> {
    /// The publisher's real client id.
    pub client: &'a Arc<str>,
    /// Correlation data.
    pub correlation: &'a [u8],
    /// The RESP3 payload.
    pub payload: &'a Bytes,
    /// User properties.
    pub properties: RequestProperties,
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The payload.
    pub reply: Reply,
    /// `__ts`, on the replies that carry one.
    pub version: Option<Hlc>,
}

/// A change that watching clients are told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// Who watches.
    pub clients: Vec<Arc<str>>,
    /// The key.
    pub key: Bytes,
    /// The change.
    pub event: Event,
    /// Its version.
    pub version: Hlc,
}

/// What executing requests and passing time brought about, besides responses.
#[derive(Debug, Default)]
pub struct Effects {
    /// In the order of the changes.
    pub notifications: Vec<Notify>,
    /// To be made durable before any response or notification of the same call leaves.
    pub writes: Batch,
}

/// The store.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// An empty store.
    pub fn new(config: EngineConfig) -> Self {
        unimplemented!()
    }
    /// Takes over one record at start, before any request.
    pub fn restore(&mut self, record: Record, now: Now) {
        unimplemented!()
    }
    /// Takes over the highest version that a former run issued.
    pub fn restore_clock(&mut self, wall_ms: u64, counter: u64) {
        unimplemented!()
    }
    /// Executes one request. What expired until `now` is removed first.
    pub fn execute(&mut self, request: &Request<'_>, now: Now, effects: &mut Effects) -> Response {
        unimplemented!()
    }
    /// Removes what expired until `now`.
    pub fn expire(&mut self, now: Now, effects: &mut Effects) {
        unimplemented!()
    }
    /// When [`expire`](Self::expire) has something to do next, in `mono_ms`.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        unimplemented!()
    }
    /// The client's connection ended: its watches end.
    pub fn disconnected(&mut self, client: &str) {
        unimplemented!()
    }
    /// The client's session ended: remembered answers to its requests are dropped.
    pub fn session_ended(&mut self, client: &str) {
        unimplemented!()
    }
    /// Number of keys.
    pub fn len(&self) -> u64 {
        unimplemented!()
    }
}
