//! Which extensions of the protocol a store has.
use super::command::{MAX_KEYS, MAX_OPERATIONS};

/// Conditions on a version.
const CONDITIONS: &[u8] = b"IFV";
/// The time that a key has left.
const REMAINING_TIME: &[u8] = b"PTTL";
/// Transactions; the number is the maximum number of operations of one transaction.
const TRANSACTIONS: &[u8] = b"TXN";
/// Reads that may return a slightly outdated value.
const EVENTUAL: &[u8] = b"EVENTUAL";
/// Reads of several keys at one moment; the number is the maximum number of keys of one request.
const GET_MANY: &[u8] = b"MGET";
/// Pages of a scan with values.
const SCAN_VALUES: &[u8] = b"VALUES";
/// Watches of all keys that match a pattern.
const OBSERVE_MATCHING: &[u8] = b"MATCH";

/// Optional features that a store lists in its reply to `CAPS`. A store that does not know the verb has none of them.
///
/// On the wire, each feature is a name and a number; the number 0 means that the feature is absent. Unknown names are
/// ignored, and the last of a repeated name counts.
///
/// ```
/// use bytes::Bytes;
/// use statestore_protocol::Reply;
///
/// let payload = Bytes::from_static(b"*4\r\n$3\r\nIFV\r\n:1\r\n$5\r\nOTHER\r\n:7\r\n");
/// let capabilities = Reply::decode(&payload)?.capabilities().unwrap_or_default();
/// assert!(capabilities.conditions && !capabilities.remaining_time);
/// assert_eq!(capabilities.transactions, None);
/// # Ok::<(), statestore_protocol::ReplyError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a feature that a store has or lacks"
)]
pub struct Capabilities {
    /// `IFV`: SET, DEL and VDEL take a condition on the version.
    pub conditions: bool,
    /// `PTTL`: GET returns the remaining time of a key.
    pub remaining_time: bool,
    /// `TXN`: how many operations a transaction may have; `None` if there are no transactions.
    pub transactions: Option<u64>,
    /// `EVENTUAL`: GET accepts a slightly outdated value if the request asks for it.
    pub eventual: bool,
    /// `MGET`: how many keys an MGET may have; `None` if the store does not know the verb.
    pub max_get_keys: Option<u64>,
    /// `VALUES`: SCAN returns the values of the keys if the request asks for them.
    pub scan_values: bool,
    /// `MATCH`: KEYNOTIFY watches all keys that match a pattern.
    pub observe_matching: bool,
}

impl Capabilities {
    /// All that this crate knows.
    pub const ALL: Self = Self {
        conditions: true,
        remaining_time: true,
        transactions: Some(MAX_OPERATIONS as u64),
        eventual: true,
        max_get_keys: Some(MAX_KEYS as u64),
        scan_values: true,
        observe_matching: true,
    };

    /// Records the feature that a name and its number describe.
    pub(super) fn record(&mut self, name: &[u8], number: u64) {
        match name {
            CONDITIONS => self.conditions = number > 0,
            REMAINING_TIME => self.remaining_time = number > 0,
            TRANSACTIONS => self.transactions = (number > 0).then_some(number),
            EVENTUAL => self.eventual = number > 0,
            GET_MANY => self.max_get_keys = (number > 0).then_some(number),
            SCAN_VALUES => self.scan_values = number > 0,
            OBSERVE_MATCHING => self.observe_matching = number > 0,
            _ => {}
        }
    }

    /// Names and numbers, in the order in which they are sent.
    pub(super) fn pairs(self) -> [(&'static [u8], u64); 7] {
        [
            (CONDITIONS, self.conditions.into()),
            (REMAINING_TIME, self.remaining_time.into()),
            (TRANSACTIONS, self.transactions.unwrap_or(0)),
            (EVENTUAL, self.eventual.into()),
            (GET_MANY, self.max_get_keys.unwrap_or(0)),
            (SCAN_VALUES, self.scan_values.into()),
            (OBSERVE_MATCHING, self.observe_matching.into()),
        ]
    }
}
