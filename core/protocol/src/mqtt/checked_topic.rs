//! Topic names (MQTT 5, section 4.7) that need no further check.

/// A topic name that was found to be one when it was received: not empty, UTF-8 without U+0000, no wildcards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedTopic<'a>(&'a [u8]);

impl<'a> CheckedTopic<'a> {
    /// Wraps bytes that were checked.
    pub(super) fn checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
    /// Returns the UTF-8 bytes of the topic.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
    /// Returns the topic as a string, which validates each byte again.
    pub fn as_str(self) -> &'a str {
        std::str::from_utf8(self.0).unwrap_or_default()
    }
    /// Returns an owned copy.
    pub fn into_owned(self) -> OwnedTopic {
        OwnedTopic(self.0.into())
    }
}

impl AsRef<[u8]> for CheckedTopic<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

/// A topic name with memory of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedTopic(Box<[u8]>);

impl OwnedTopic {
    /// Returns the topic name.
    pub fn get(&self) -> CheckedTopic<'_> {
        CheckedTopic(&self.0)
    }
}
