//! Temporary records of transactions in the store: values that are not meant for readers.
use bytes::{Buf, BufMut, Bytes, BytesMut};
use statestore::{Entry, Hlc, TransactionRecord};
use std::fmt;
use std::num::NonZeroU64;

/// Format version of the bytes after the prefix.
const FORMAT: u8 = 1;

const INTENT: u8 = 1;
const TOMBSTONE: u8 = 2;
const COMMITTED: u8 = 3;
const ABORTED: u8 = 4;
const DONE: u8 = 5;

/// Prefix of the keys of decision registers. The rest of a key is the transaction's number in 32 hexadecimal digits.
pub const REGISTERS: &[u8] = b"statestore/transactions/";

/// The unique number of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TransactionId(pub u128);

impl TransactionId {
    /// Returns the key of the register that holds the decision.
    pub fn register(self) -> Bytes {
        let mut key = REGISTERS.to_vec();
        key.extend_from_slice(self.to_string().as_bytes());
        key.into()
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value that a transaction stored in the place of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A transaction is about to change the key.
    Intent(Intent),
    /// A transaction has deleted the key.
    Tombstone,
    /// In a register: the decision of the transaction.
    Decision(Decision),
}

/// A planned change of a key by a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The transaction.
    pub id: TransactionId,
    /// Old value with its version, which stays if the transaction is aborted; `None` if the key is absent then.
    pub old: Option<(Bytes, Hlc)>,
    /// New value with its expiry in milliseconds, if the transaction is committed; `None` if the key is absent then.
    pub new: Option<(Bytes, Option<NonZeroU64>)>,
}

/// Decision of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The transaction is committed. Its intents may still exist at these keys.
    Committed(Vec<Bytes>),
    /// The transaction is aborted and can never commit.
    Aborted,
    /// The transaction is committed, and no intent is left.
    Done,
}

impl Intent {
    /// Returns the value for readers if the transaction is committed. The version is that of the intent.
    pub(super) fn after(&self, version: &Hlc) -> Option<Entry> {
        let (value, _) = self.new.as_ref()?;
        Some(Entry::new(value.clone(), version.clone()))
    }

    /// Returns the value for readers if the transaction is aborted.
    pub(super) fn before(&self) -> Option<Entry> {
        let (value, version) = self.old.as_ref()?;
        Some(Entry::new(value.clone(), version.clone()))
    }
}

impl Record {
    /// Decodes a value. Returns `None` if it is not a record, even if it has the prefix of one.
    pub fn decode(value: &Bytes) -> Option<Self> {
        let mut rest = value
            .strip_prefix(&TransactionRecord::PREFIX)
            .map(|rest| RecordReader(value.slice_ref(rest)))?;
        if rest.byte()? != FORMAT {
            return None;
        }
        let record = match rest.byte()? {
            INTENT => Self::Intent(rest.intent()?),
            TOMBSTONE => Self::Tombstone,
            COMMITTED => Self::Decision(Decision::Committed(rest.keys()?)),
            ABORTED => Self::Decision(Decision::Aborted),
            DONE => Self::Decision(Decision::Done),
            _ => return None,
        };
        rest.0.is_empty().then_some(record)
    }

    /// Encodes the record as a value.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_slice(&TransactionRecord::PREFIX);
        out.put_u8(FORMAT);
        match self {
            Self::Intent(intent) => {
                out.put_u8(INTENT);
                put_intent(&mut out, intent);
            }
            Self::Tombstone => out.put_u8(TOMBSTONE),
            Self::Decision(Decision::Committed(keys)) => {
                out.put_u8(COMMITTED);
                for key in keys {
                    put_bytes(&mut out, key);
                }
            }
            Self::Decision(Decision::Aborted) => out.put_u8(ABORTED),
            Self::Decision(Decision::Done) => out.put_u8(DONE),
        }
        out.freeze()
    }
}

fn put_intent(out: &mut BytesMut, intent: &Intent) {
    out.put_u128(intent.id.0);
    out.put_u8(u8::from(intent.old.is_some()));
    if let Some((value, version)) = &intent.old {
        out.put_u64(version.wall_ms());
        out.put_u64(version.counter());
        put_bytes(out, value);
    }
    out.put_u8(u8::from(intent.new.is_some()));
    if let Some((value, expires_in_ms)) = &intent.new {
        out.put_u64(expires_in_ms.map_or(0, NonZeroU64::get));
        put_bytes(out, value);
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u64(bytes.len() as u64);
    out.put_slice(bytes);
}

/// The bytes that are not decoded yet.
struct RecordReader(Bytes);

impl RecordReader {
    fn byte(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.0.try_get_u64().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let len = usize::try_from(self.number()?).ok()?;
        (len <= self.0.len()).then(|| self.0.split_to(len))
    }

    fn keys(&mut self) -> Option<Vec<Bytes>> {
        let mut keys = Vec::new();
        while !self.0.is_empty() {
            keys.push(self.bytes()?);
        }
        Some(keys)
    }

    fn intent(&mut self) -> Option<Intent> {
        let id = TransactionId(self.0.try_get_u128().ok()?);
        let old = if self.flag()? {
            let version = (self.number()?, self.number()?);
            Some((self.bytes()?, Hlc::store_version(version)))
        } else {
            None
        };
        let new = if self.flag()? {
            let expires_in_ms = NonZeroU64::new(self.number()?);
            Some((self.bytes()?, expires_in_ms))
        } else {
            None
        };
        Some(Intent { id, old, new })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Record> {
        let id = TransactionId(7);
        let version = Hlc::store_version((5, 6));
        let old = [None, Some((Bytes::from_static(b"old"), version))];
        let new = [
            None,
            Some((Bytes::new(), None)),
            Some((Bytes::from_static(b"new"), NonZeroU64::new(9))),
        ];
        let mut samples = vec![
            Record::Tombstone,
            Record::Decision(Decision::Aborted),
            Record::Decision(Decision::Done),
            Record::Decision(Decision::Committed(vec!["a".into(), "".into(), "b".into()])),
        ];
        for old in old {
            for new in new.clone() {
                let old = old.clone();
                samples.push(Record::Intent(Intent { id, old, new }));
            }
        }
        samples
    }

    #[test]
    fn a_record_round_trips_and_its_prefixes_are_rejected() {
        for record in samples() {
            let encoded = record.encode();
            assert!(encoded.starts_with(&TransactionRecord::PREFIX));
            assert_eq!(Record::decode(&encoded), Some(record.clone()));
            for len in 0..encoded.len() {
                let part = Record::decode(&encoded.slice(..len));
                // A list of keys may end after any key.
                let is_shorter_list =
                    matches!(part, Some(Record::Decision(Decision::Committed(_))));
                assert!(part.is_none() || is_shorter_list, "{record:?} {len}");
            }
            let longer = [&encoded[..], b"\0"].concat().into();
            assert_eq!(Record::decode(&longer), None);
        }
    }

    #[test]
    fn a_register_has_a_key_of_its_own() {
        let register = TransactionId(0xab).register();
        assert_eq!(
            register,
            "statestore/transactions/000000000000000000000000000000ab"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_round_trip_if_they_decode(bytes: Vec<u8>, kind in 0_u8..7) {
            prop_assert_eq!(Record::decode(&bytes.clone().into()), None);
            let mut marked = [&TransactionRecord::PREFIX[..], &[FORMAT, kind]].concat();
            marked.extend_from_slice(&bytes);
            let marked = Bytes::from(marked);
            if let Some(record) = Record::decode(&marked) {
                prop_assert_eq!(record.encode(), marked);
            }
        }
    }
}
