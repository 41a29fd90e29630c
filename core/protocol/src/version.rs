//! The version of an entry, as used in conditions and returned by transactions.
use super::decimal::MAX_DIGITS;
use super::hlc::{Hlc, STORE_NODE_ID, put_padded_numbers};
use super::resp;
use bytes::{BufMut, BytesMut};
use std::fmt;

/// Most bytes of a version's text.
const MAX_TEXT_LEN: usize = MAX_DIGITS + 1 + MAX_DIGITS + 1 + STORE_NODE_ID.len();

/// Encoded bulk string of a version of usual width, with zeros in place of its numbers.
const PADDED_TEMPLATE: &[u8; 39] = b"$32\r\n000000000000000:00000:StateStore\r\n";

/// Where its numbers begin.
const PADDED_NUMBERS_START: usize = b"$32\r\n".len();

/// A version that a state store assigned: the wall clock and the counter of an [`Hlc`] whose node id is
/// [`STORE_NODE_ID`].
///
/// ```
/// use statestore_protocol::{Hlc, Version};
///
/// let hlc: Hlc = "1696374425000:1:StateStore".parse()?;
/// let version = Version::from(&hlc);
/// assert_eq!(version, Version::new(1_696_374_425_000, 1));
/// assert_eq!(version.to_string(), "001696374425000:00001:StateStore");
/// assert_eq!(Hlc::from(version), hlc);
/// # Ok::<(), statestore_protocol::HlcError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    wall_ms: u64,
    counter: u64,
}

impl Version {
    /// Creates a version from its parts: milliseconds since the Unix epoch, and the logical counter.
    pub const fn new(wall_ms: u64, counter: u64) -> Self {
        Self { wall_ms, counter }
    }

    /// Reads the text form, zero-padded or not; `None` if it is not one, or has another node id than a store's.
    ///
    /// ```
    /// use statestore_protocol::Version;
    ///
    /// assert_eq!(Version::parse(b"7:1:StateStore"), Some(Version::new(7, 1)));
    /// assert_eq!(Version::parse(b"7:1:client"), None);
    /// ```
    pub fn parse(text: &[u8]) -> Option<Self> {
        // First, so that no other node id is ever copied.
        if !text.ends_with(STORE_NODE_ID.as_bytes()) {
            return None;
        }
        let hlc = Hlc::parse(text).ok()?;
        (hlc.node_id() == STORE_NODE_ID).then(|| Self::from(&hlc))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn wall_ms(self) -> u64 {
        self.wall_ms
    }

    /// Returns the logical counter.
    pub const fn counter(self) -> u64 {
        self.counter
    }

    /// Returns the text form on the stack, and its length.
    pub(super) fn text(self) -> ([u8; MAX_TEXT_LEN], usize) {
        let mut text = [0; MAX_TEXT_LEN];
        let mut rest = &mut text[..];
        Hlc::from(self).write_text(&mut rest);
        let len = MAX_TEXT_LEN - rest.len();
        (text, len)
    }

    /// Appends the text form as a bulk string.
    pub(super) fn encode(self, out: &mut BytesMut) {
        let mut usual = *PADDED_TEMPLATE;
        if put_padded_numbers(
            self.wall_ms,
            self.counter,
            &mut usual[PADDED_NUMBERS_START..],
        ) {
            out.put_slice(&usual);
        } else {
            let (text, len) = self.text();
            resp::put_bulk(&text[..len], out);
        }
    }

    /// Returns the number of bytes that the text form has.
    pub(super) fn text_len(self) -> usize {
        Hlc::from(self).text_len()
    }
}

/// Ignores the node id: the timestamp counts as one of a store.
impl From<&Hlc> for Version {
    fn from(hlc: &Hlc) -> Self {
        Self::new(hlc.wall_ms(), hlc.counter())
    }
}

impl From<Hlc> for Version {
    fn from(hlc: Hlc) -> Self {
        Self::from(&hlc)
    }
}

impl From<Version> for Hlc {
    fn from(version: Version) -> Self {
        Self::store_version((version.wall_ms, version.counter))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hlc::from(*self).fmt(f)
    }
}
