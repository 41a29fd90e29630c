//! Hybrid logical clocks: versions and fencing tokens ("Versioning and hybrid logical clocks").
use super::decimal::{self, DecimalText};
use bytes::BufMut;
use smol_str::SmolStr;
use std::{fmt, str::FromStr};

/// How far a timestamp may be ahead of the local clock: one minute, in milliseconds.
pub const MAX_SKEW_MS: u64 = 60_000;

/// The node id with which a state store signs its versions.
pub const STORE_NODE_ID: &str = "StateStore";

/// Digits to which the wall clock is padded in the text form.
const WALL_WIDTH: usize = 15;
/// Digits to which the counter is padded in the text form.
const COUNTER_WIDTH: usize = 5;
/// The least numbers that take more.
const MIN_TOO_WIDE_WALL: u64 = 1_000_000_000_000_000;
const MIN_TOO_WIDE_COUNTER: u64 = 100_000;

/// A hybrid logical clock value; ordered by wall clock, then counter, then the bytes of the node id.
///
/// ```
/// use statestore_protocol::Hlc;
///
/// let request: Hlc = "1696374425000:0:CLIENT".parse()?;
/// let version: Hlc = "1696374425000:1:StateStore".parse()?;
/// assert!(version > request);
/// assert_eq!(version.to_string(), "001696374425000:00001:StateStore");
/// # Ok::<(), statestore_protocol::HlcError>(())
/// ```
// The derived order is the protocol's: the fields are in its sequence, and `str` compares bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A timestamp is more than [`MAX_SKEW_MS`] ahead of the local clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the received timestamp is {ahead_ms} ms ahead of the local clock")]
pub struct ClockSkew {
    /// Milliseconds by which it is ahead.
    pub ahead_ms: u64,
}

impl Hlc {
    /// Creates a value from its parts.
    pub fn new(wall_ms: u64, counter: u64, node_id: &str) -> Result<Self, HlcError> {
        if node_id.is_empty() || node_id.contains(':') {
            return Err(HlcError::NodeId);
        }
        Ok(Self {
            wall_ms,
            counter,
            node_id: SmolStr::new(node_id),
        })
    }

    /// Creates a version of a state store: its node id is [`STORE_NODE_ID`].
    pub fn store_version((wall_ms, counter): (u64, u64)) -> Self {
        Self {
            wall_ms,
            counter,
            node_id: SmolStr::new_static(STORE_NODE_ID),
        }
    }

    /// Parses the text form, zero-padded or not.
    ///
    /// The segments are counted first; then wall clock, counter and node id are checked in this order.
    pub fn parse(text: &[u8]) -> Result<Self, HlcError> {
        Self::parse_with_hint(text, None)
    }

    /// Parses like [`parse`](Self::parse), and is faster if the timestamp comes from the same node as `previous`.
    pub(super) fn parse_with_hint(text: &[u8], previous: Option<&Self>) -> Result<Self, HlcError> {
        if let Some((wall_ms, counter, node_id)) = parse_padded_numbers(text) {
            if let Some(previous) = previous
                && previous.node_id.as_bytes() == node_id
            {
                return Ok(previous.at(wall_ms, counter));
            }
            if node_id == STORE_NODE_ID.as_bytes() {
                return Ok(Self::store_version((wall_ms, counter)));
            }
            if node_id.contains(&b':') {
                return Err(HlcError::Segments);
            }
            return Self::from_node(wall_ms, counter, node_id);
        }
        Self::parse_unpadded(text)
    }

    // Not inlined, so that the usual timestamps do not pay for it.
    #[inline(never)]
    fn parse_unpadded(text: &[u8]) -> Result<Self, HlcError> {
        let segments = split_number(text).and_then(|(wall, rest)| {
            let (counter, node_id) = split_number(rest)?;
            (!node_id.contains(&b':')).then_some((wall, counter, node_id))
        });
        let (wall, counter, node_id) = segments.ok_or(HlcError::Segments)?;
        let wall_ms = wall.ok_or(HlcError::Wall)?;
        let counter = counter.ok_or(HlcError::Counter)?;
        Self::from_node(wall_ms, counter, node_id)
    }

    /// Creates an HLC with a node id that contains no `:`.
    fn from_node(wall_ms: u64, counter: u64, node_id: &[u8]) -> Result<Self, HlcError> {
        if node_id.is_empty() {
            return Err(HlcError::NodeId);
        }
        Ok(Self {
            wall_ms,
            counter,
            node_id: if node_id == STORE_NODE_ID.as_bytes() {
                SmolStr::new_static(STORE_NODE_ID)
            } else {
                SmolStr::from_utf8(node_id).map_err(|_| HlcError::NodeId)?
            },
        })
    }

    /// Milliseconds since the Unix epoch.
    pub fn wall_ms(&self) -> u64 {
        self.wall_ms
    }

    /// Returns the logical counter.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// Returns the id of the node that created this value.
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// Returns the value of the same node at another time.
    #[must_use]
    pub fn at(&self, wall_ms: u64, counter: u64) -> Self {
        Self {
            wall_ms,
            counter,
            node_id: self.node_id.clone(),
        }
    }

    /// Refuses a value that is more than [`MAX_SKEW_MS`] ahead of the local clock ("Clock skew").
    pub fn check_skew(&self, now_wall_ms: u64) -> Result<(), ClockSkew> {
        match self.wall_ms.saturating_sub(now_wall_ms) {
            ahead_ms if ahead_ms > MAX_SKEW_MS => Err(ClockSkew { ahead_ms }),
            _ => Ok(()),
        }
    }

    /// Appends the text form, `%015d:%05d:%s`, without an intermediate allocation.
    ///
    /// A buffer that cannot grow must have room for [`text_len`](Self::text_len) bytes.
    pub fn write_text(&self, out: &mut impl BufMut) {
        let mut numbers = [b':'; WALL_WIDTH + 1 + COUNTER_WIDTH + 1];
        if put_padded_numbers(self.wall_ms, self.counter, &mut numbers) {
            out.put_slice(&numbers);
        } else {
            out.put_slice(DecimalText::padded(self.wall_ms, WALL_WIDTH).as_bytes());
            out.put_u8(b':');
            out.put_slice(DecimalText::padded(self.counter, COUNTER_WIDTH).as_bytes());
            out.put_u8(b':');
        }
        out.put_slice(self.node_id.as_bytes());
    }

    /// Makes the text form of this timestamp of one of the same node; `false` if it is not one, or has wider numbers than usual.
    pub(super) fn rewrite_numbers(&self, text: &mut [u8]) -> bool {
        text.get(WALL_WIDTH + 1 + COUNTER_WIDTH + 1..) == Some(self.node_id.as_bytes())
            && put_padded_numbers(self.wall_ms, self.counter, text)
    }

    /// Returns the number of bytes that [`write_text`](Self::write_text) appends.
    pub fn text_len(&self) -> usize {
        decimal::len(self.wall_ms).max(WALL_WIDTH)
            + 1
            + decimal::len(self.counter).max(COUNTER_WIDTH)
            + 1
            + self.node_id.len()
    }
}

/// Writes wall clock and counter into a text form whose other bytes are in place. Returns `false` unless both have the
/// usual width, as numbers and in `text`.
#[inline]
pub(super) fn put_padded_numbers(wall_ms: u64, counter: u64, text: &mut [u8]) -> bool {
    if wall_ms >= MIN_TOO_WIDE_WALL || counter >= MIN_TOO_WIDE_COUNTER {
        return false;
    }
    let Some((wall, [b':', rest @ ..])) = text.split_first_chunk_mut::<WALL_WIDTH>() else {
        return false;
    };
    let Some((count, [b':', ..])) = rest.split_first_chunk_mut::<COUNTER_WIDTH>() else {
        return false;
    };
    decimal::fill(wall, wall_ms);
    decimal::fill(count, counter);
    true
}

impl fmt::Display for Hlc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wall = DecimalText::padded(self.wall_ms, WALL_WIDTH);
        let counter = DecimalText::padded(self.counter, COUNTER_WIDTH);
        write!(f, "{wall}:{counter}:{}", self.node_id)
    }
}

impl FromStr for Hlc {
    type Err = HlcError;

    fn from_str(text: &str) -> Result<Self, HlcError> {
        Self::parse(text.as_bytes())
    }
}

/// Parses wall clock and counter if they have the usual width; also returns the bytes behind them.
#[inline]
fn parse_padded_numbers(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (wall, rest) = text.split_first_chunk::<WALL_WIDTH>()?;
    let [b':', rest @ ..] = rest else {
        return None;
    };
    let (count, rest) = rest.split_first_chunk::<COUNTER_WIDTH>()?;
    let [b':', node_id @ ..] = rest else {
        return None;
    };
    let high = decimal::eight_digits(*wall.first_chunk()?)?;
    // The first digit of the chunk is the last digit of the wall clock.
    let low = decimal::eight_digits(*wall.last_chunk()?)?;
    let mut padded = [b'0'; 8];
    *padded.last_chunk_mut()? = *count;
    let counter = decimal::eight_digits(padded)?;
    Some((high * 10_000_000 + low % 10_000_000, counter, node_id))
}

/// As text in every format.
#[cfg(feature = "serde")]
impl serde::Serialize for Hlc {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Hlc {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Splits at the first colon: the number before it, if it is one, and the bytes behind it.
fn split_number(text: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let mut value = 0_u64;
    let mut len = 0;
    while let Some(digit) = text.get(len).and_then(|byte| decimal::digit(*byte)) {
        value = value.wrapping_mul(10).wrapping_add(digit);
        len += 1;
    }
    if let Some((b':', rest)) = text[len..].split_first()
        && decimal::fits_u64(len)
    {
        return Some((Some(value), rest));
    }
    // No digits, enough digits to overflow `value`, or other characters.
    let at = text.iter().position(|&byte| byte == b':')?;
    Some((decimal::parse(&text[..at]), &text[at + 1..]))
}

/// Returns the next (wall clock, counter) by the rule of hybrid logical clocks, at the wall clock `now_wall_ms` after the
/// highest pair seen so far.
///
/// A counter that would overflow carries into the wall clock, so the result is greater than `highest`. The one exception
/// is the maximum of both numbers, which no real clock reaches: it is returned again.
///
/// ```
/// use statestore_protocol::hlc::next_after;
///
/// assert_eq!(next_after(100, None), (100, 0));
/// assert_eq!(next_after(100, Some((99, 7))), (100, 0));
/// assert_eq!(next_after(100, Some((100, 7))), (100, 8));
/// assert_eq!(next_after(100, Some((105, u64::MAX))), (106, 0));
/// ```
pub fn next_after(now_wall_ms: u64, highest: Option<(u64, u64)>) -> (u64, u64) {
    let Some((wall_ms, counter)) = highest else {
        return (now_wall_ms, 0);
    };
    if now_wall_ms > wall_ms {
        return (now_wall_ms, 0);
    }
    match (wall_ms.checked_add(1), counter.checked_add(1)) {
        (_, Some(counter)) => (wall_ms, counter),
        (Some(wall_ms), None) => (wall_ms, 0),
        (None, None) => (wall_ms, counter),
    }
}

/// Returns the (wall clock, counter) of the version that a store assigns to a change. It is greater than the timestamp of the
/// request and than the `previous` version ("Versions as Hybrid Logical Clocks").
///
/// The caller rejects requests that are too far ahead with [`Hlc::check_skew`].
///
/// ```
/// use statestore_protocol::{Hlc, hlc::next_version};
///
/// let request: Hlc = "1696374425000:0:CLIENT".parse()?;
/// assert_eq!(next_version(1_696_374_425_000, &request, None), (1_696_374_425_000, 1));
/// # Ok::<(), statestore_protocol::HlcError>(())
/// ```
pub fn next_version(now_wall_ms: u64, request: &Hlc, previous: Option<(u64, u64)>) -> (u64, u64) {
    next_after(
        now_wall_ms,
        previous.max(Some((request.wall_ms, request.counter))),
    )
}

/// The clock of a client: it ticks before each send and merges received timestamps.
///
/// A clock that is more than [`MAX_SKEW_MS`] ahead of the wall clock resets to the wall clock. The wall clock was wrong
/// for a moment, as before the first contact with a time server. Without the reset, a store would refuse every
/// timestamp until that time has really come. Merging cannot cause this state, because a merged timestamp is never that
/// far ahead.
///
/// The reset lets timestamps go back, and a timestamp may occur twice. Both are safe. A store derives versions from its
/// own clock and the previous version. Unique names contain a counter, and so does the correlation of responses.
///
/// ```
/// use statestore_protocol::Clock;
///
/// let mut clock = Clock::new("client")?;
/// assert_eq!(clock.tick(1_000).to_string(), "000000000001000:00000:client");
/// clock.merge(&"1500:3:StateStore".parse()?, 1_000).unwrap();
/// assert_eq!(clock.tick(1_000).to_string(), "000000000001500:00004:client");
/// # Ok::<(), statestore_protocol::HlcError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Clock {
    last: Hlc,
}

impl Clock {
    /// Creates a clock of this node that has not ticked yet.
    pub fn new(node_id: &str) -> Result<Self, HlcError> {
        Hlc::new(0, 0, node_id).map(|last| Self { last })
    }

    /// Returns the next timestamp. It is greater than each timestamp before it and than each merged one. This holds
    /// even if the wall clock goes back, as long as it goes back by at most [`MAX_SKEW_MS`].
    pub fn tick(&mut self, now_wall_ms: u64) -> Hlc {
        self.reset_if_skewed(now_wall_ms);
        let last = Some((self.last.wall_ms, self.last.counter));
        (self.last.wall_ms, self.last.counter) = next_after(now_wall_ms, last);
        self.last.clone()
    }

    fn reset_if_skewed(&mut self, now_wall_ms: u64) {
        if self.last.check_skew(now_wall_ms).is_err() {
            (self.last.wall_ms, self.last.counter) = (0, 0);
        }
    }

    /// Returns whether merging a received timestamp would change nothing, since the clock is ahead of it.
    pub fn is_ahead_of(&self, received: &Hlc) -> bool {
        (self.last.wall_ms, self.last.counter) >= (received.wall_ms, received.counter)
    }

    /// Takes over a received timestamp, unless it is too far ahead; then nothing changes.
    pub fn merge(&mut self, received: &Hlc, now_wall_ms: u64) -> Result<(), ClockSkew> {
        received.check_skew(now_wall_ms)?;
        self.reset_if_skewed(now_wall_ms);
        let last = (self.last.wall_ms, self.last.counter);
        (self.last.wall_ms, self.last.counter) = last.max((received.wall_ms, received.counter));
        Ok(())
    }
}
