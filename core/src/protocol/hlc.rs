//! Hybrid logical clocks: versions and fencing tokens ("Versioning and hybrid logical clocks").
use smol_str::SmolStr;

/// How far a timestamp may be ahead of the local clock: one minute, in milliseconds.
pub const MAX_SKEW_MS: u64 = 60_000;

/// The node id with which a state store signs its versions.
pub const STORE_NODE_ID: &str = "StateStore";

/// A hybrid logical clock value; ordered by wall clock, then counter, then the bytes of the node id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hlc {
    wall_ms: u64,
    counter: u64,
    node_id: SmolStr,
}

/// Why a text is not an HLC, or parts cannot make one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HlcError {
    /// Not exactly `wall:counter:node`.
    #[error("an HLC has exactly three segments, `wall:counter:node`")]
    Segments,
    /// The wall clock is not a decimal u64.
    #[error("the wall clock of an HLC is a decimal number of milliseconds that fits 64 bits")]
    Wall,
    /// The counter is not a decimal u64.
    #[error("the counter of an HLC is a decimal number that fits 64 bits")]
    Counter,
    /// The node id is empty, contains `:` or is not UTF-8.
    #[error("the node id of an HLC is not empty and has no `:`")]
    NodeId,
}

impl Hlc {
    /// Makes a value from its parts.
    pub fn new(wall_ms: u64, counter: u64, node_id: &str) -> Result<Self, HlcError> {
        unimplemented!()
    }
    /// Parses the text form, zero-padded or not.
    pub fn parse(text: &[u8]) -> Result<Self, HlcError> {
        unimplemented!()
    }
    /// Milliseconds since the Unix epoch.
    pub fn wall_ms(&self) -> u64 {
        self.wall_ms
    }
    /// The logical counter.
    pub fn counter(&self) -> u64 {
        self.counter
    }
    /// Who made this value.
    pub fn node_id(&self) -> &str {
        &self.node_id
    }
    // plus: Display (padded `%015d:%05d:%s`), FromStr, Ord, PartialOrd
    // plus: fn write_text(&self, &mut impl BufMut) (padded text without an intermediate String), fn text_len()
    // plus: fn next_version(now_wall_ms, request: &Hlc, previous: Option<(u64, u64)>) -> (u64, u64), the server's rule;
    //       a counter that would overflow carries into the wall clock
}

/// A client's clock: ticks before each send, merges what it receives.
#[derive(Debug, Clone)]
pub struct Clock {
    last: Hlc,
}

/// A received timestamp was more than [`MAX_SKEW_MS`] ahead of the local clock and was not merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the received timestamp is {ahead_ms} ms ahead of the local clock")]
pub struct ClockSkew {
    /// By how many milliseconds.
    pub ahead_ms: u64,
}

impl Clock {
    /// A clock of this node that has not ticked yet.
    pub fn new(node_id: &str) -> Result<Self, HlcError> {
        unimplemented!()
    }
    /// The next timestamp, greater than each one before it and than each one merged.
    pub fn tick(&mut self, now_wall_ms: u64) -> Hlc {
        unimplemented!()
    }
    /// Takes over a received timestamp, unless it is too far ahead.
    pub fn merge(&mut self, received: &Hlc, now_wall_ms: u64) -> Result<(), ClockSkew> {
        unimplemented!()
    }
}
