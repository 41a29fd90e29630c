//! Properties of a PUBLISH that are encoded before the packet is.
use super::EncodeError;
use bytes::BufMut;

/// Properties that are the same in many packets, encoded once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedProperties {
    pub(super) bytes: Vec<u8>,
    /// Where the value of the last user property begins, with its length.
    pub(super) last_value: usize,
}

impl EncodedProperties {
    /// Sets the value of the last user property, at the very end, to the text that `write` appends: UTF-8 without U+0000.
    pub(crate) fn rewrite_last_value(
        &mut self,
        what: &'static str,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), EncodeError> {
        self.bytes.truncate(self.last_value);
        self.bytes.put_u16(0);
        let start = self.bytes.len();
        write(&mut self.bytes);
        let len = self.bytes.len() - start;
        let Ok(written) = u16::try_from(len) else {
            self.bytes.truncate(start);
            return Err(EncodeError::FieldTooLong { what, len });
        };
        self.bytes[start - 2..start].copy_from_slice(&written.to_be_bytes());
        Ok(())
    }

    /// Returns the value of the last user property, for changing it to another one of the same length: UTF-8 without U+0000.
    pub(crate) fn last_value_mut(&mut self) -> &mut [u8] {
        self.bytes
            .get_mut(self.last_value + 2..)
            .unwrap_or_default()
    }

    /// Returns their encoded length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
