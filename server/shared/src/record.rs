//! The record of a key in an engine.
use bytes::{Buf, BufMut, Bytes, BytesMut};
use statestore_protocol::Hlc;
use statestored_storage::Expiry;
use statestored_store::keyspace::rules::Version;

/// Version of the format; the only one so far. A program that finds another one leaves the record alone.
const FORMAT: u8 = 1;

/// Size of format, flags, version and write.
const HEADER_BYTES: usize = 1 + 1 + 16 + 16 + 8;
/// Size of a token without its node id.
const TOKEN_BYTES: usize = 8 + 8 + 4;
const EXPIRY_BYTES: usize = 8 + 8;

const HAS_VALUE: u8 = 1;
const HAS_TOKEN: u8 = 2;
const HAS_EXPIRY: u8 = 4;

/// Identifies the commit that made a record, so that a node recognizes its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId {
    /// Random identifier, a new one at each start of the program.
    pub process: u128,
    /// Number of the commit within the process.
    pub number: u64,
}

/// The record of a key, which remains for a while after deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Version of the entry, or of its deletion.
    pub version: Version,
    /// The commit that made the record.
    pub write: WriteId,
    /// The content.
    pub content: RecordContent,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordContent {
    /// An entry.
    Entry {
        /// Value of the entry.
        value: Bytes,
        /// The fencing token that protects the entry.
        token: Option<Hlc>,
        /// Time at which the entry expires.
        expiry: Option<Expiry>,
    },
    /// A deletion, whose version must be remembered for some time.
    Tombstone,
}

/// The reason why bytes are no valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A newer program wrote the record.
    #[error("its format is {0}, and this program knows {FORMAT} only")]
    Format(u8),
    /// The record is truncated or inconsistent.
    #[error("it is damaged, or not of this program")]
    Malformed,
}

impl Record {
    /// Encodes the record for the engine.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_len());
        self.encode_to(&mut out);
        out.freeze()
    }

    /// Encodes the record behind the content of `out`.
    pub fn encode_to(&self, out: &mut impl BufMut) {
        out.put_u8(FORMAT);
        let (flags, value, token, expiry) = match &self.content {
            RecordContent::Tombstone => (0, None, None, None),
            RecordContent::Entry {
                value,
                token,
                expiry,
            } => {
                let flags = HAS_VALUE
                    | token.as_ref().map_or(0, |_| HAS_TOKEN)
                    | expiry.map_or(0, |_| HAS_EXPIRY);
                (flags, Some(value), token.as_ref(), *expiry)
            }
        };
        out.put_u8(flags);
        out.put_u64(self.version.0);
        out.put_u64(self.version.1);
        out.put_u128(self.write.process);
        out.put_u64(self.write.number);
        if let Some(token) = token {
            let node_id = token.node_id().as_bytes();
            out.put_u64(token.wall_ms());
            out.put_u64(token.counter());
            // A node id comes from a user property, which has at most 65,535 bytes.
            out.put_u32(u32::try_from(node_id.len()).unwrap_or(u32::MAX));
            out.put_slice(node_id);
        }
        if let Some(expiry) = expiry {
            out.put_u64(expiry.ttl_ms);
            out.put_u64(expiry.at_wall_ms);
        }
        if let Some(value) = value {
            out.put_slice(value);
        }
    }

    /// Returns the length of the encoded record.
    pub fn encoded_len(&self) -> usize {
        let parts = match &self.content {
            RecordContent::Tombstone => 0,
            RecordContent::Entry {
                value,
                token,
                expiry,
            } => {
                let token = token.as_ref();
                value.len()
                    + token.map_or(0, |it| TOKEN_BYTES + it.node_id().len())
                    + expiry.map_or(0, |_| EXPIRY_BYTES)
            }
        };
        HEADER_BYTES + parts
    }

    /// Decodes the bytes that [`encode`](Self::encode) wrote. The value shares the memory of `bytes`.
    ///
    /// # Errors
    /// The bytes are no valid record; see [`RecordError`].
    pub fn decode(mut bytes: Bytes) -> Result<Self, RecordError> {
        let malformed = |_| RecordError::Malformed;
        let format = bytes.try_get_u8().map_err(malformed)?;
        if format != FORMAT {
            return Err(RecordError::Format(format));
        }
        let flags = bytes.try_get_u8().map_err(malformed)?;
        let wall_ms = bytes.try_get_u64().map_err(malformed)?;
        let counter = bytes.try_get_u64().map_err(malformed)?;
        let process = bytes.try_get_u128().map_err(malformed)?;
        let number = bytes.try_get_u64().map_err(malformed)?;
        let mut token = None;
        if flags & HAS_TOKEN != 0 {
            let wall_ms = bytes.try_get_u64().map_err(malformed)?;
            let counter = bytes.try_get_u64().map_err(malformed)?;
            let len = bytes.try_get_u32().map_err(malformed)? as usize;
            if len > bytes.len() {
                return Err(RecordError::Malformed);
            }
            let node_id = bytes.split_to(len);
            let node_id = std::str::from_utf8(&node_id).map_err(|_| RecordError::Malformed)?;
            let hlc = Hlc::new(wall_ms, counter, node_id).map_err(|_| RecordError::Malformed)?;
            token = Some(hlc);
        }
        let mut expiry = None;
        if flags & HAS_EXPIRY != 0 {
            expiry = Some(Expiry {
                ttl_ms: bytes.try_get_u64().map_err(malformed)?,
                at_wall_ms: bytes.try_get_u64().map_err(malformed)?,
            });
        }
        let content = match flags {
            0 if bytes.is_empty() => RecordContent::Tombstone,
            flags if flags & HAS_VALUE != 0 && flags <= HAS_VALUE | HAS_TOKEN | HAS_EXPIRY => {
                RecordContent::Entry {
                    value: bytes,
                    token,
                    expiry,
                }
            }
            _ => return Err(RecordError::Malformed),
        };
        Ok(Self {
            version: (wall_ms, counter),
            write: WriteId { process, number },
            content,
        })
    }

    /// Returns when the entry expires, if it does.
    pub fn expiry(&self) -> Option<Expiry> {
        match self.content {
            RecordContent::Entry { expiry, .. } => expiry,
            RecordContent::Tombstone => None,
        }
    }

    /// Returns whether the record is an entry.
    pub fn is_entry(&self) -> bool {
        matches!(self.content, RecordContent::Entry { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        let token = (any::<u64>(), any::<u64>(), "[a-z\u{e4}]{1,9}")
            .prop_map(|(wall, counter, node)| Hlc::new(wall, counter, &node).unwrap());
        let expiry = (any::<u64>(), any::<u64>())
            .prop_map(|(ttl_ms, at_wall_ms)| Expiry { at_wall_ms, ttl_ms });
        let entry = (
            prop::collection::vec(any::<u8>(), 0..40),
            prop::option::of(token),
            prop::option::of(expiry),
        )
            .prop_map(|(value, token, expiry)| RecordContent::Entry {
                value: value.into(),
                token,
                expiry,
            });
        let content = prop_oneof![1 => Just(RecordContent::Tombstone), 4 => entry];
        (any::<(u64, u64)>(), any::<(u128, u64)>(), content).prop_map(
            |(version, (process, number), content)| Record {
                version,
                write: WriteId { process, number },
                content,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in record()) {
            let bytes = record.encode();
            prop_assert_eq!(bytes.len(), record.encoded_len());
            prop_assert_eq!(Record::decode(bytes), Ok(record));
        }

        #[test]
        fn a_truncated_record_is_rejected(record in record(), keep in any::<prop::sample::Index>()) {
            let bytes = record.encode();
            let cut = bytes.slice(..keep.index(bytes.len()));
            if let Ok(other) = Record::decode(cut) {
                // Only the end of a value can be missing: the engine keeps whole values.
                prop_assert_eq!(other.is_entry(), record.is_entry());
                prop_assert_eq!((other.version, other.expiry()), (record.version, record.expiry()));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(record) = Record::decode(bytes.clone().into()) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }

    #[test]
    fn a_newer_format_is_reported() {
        let record = Record {
            version: (1, 2),
            write: WriteId {
                process: 3,
                number: 4,
            },
            content: RecordContent::Tombstone,
        };
        let mut bytes = record.encode().to_vec();
        bytes[0] = 9;
        let error = Record::decode(bytes.into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its format is 9, and this program knows 1 only"
        );
        let mut bytes = record.encode().to_vec();
        bytes[1] = 2;
        assert!(Record::decode(bytes.into()).is_err());
    }
}
