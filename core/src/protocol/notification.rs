//! Notifications of watched keys ("KEYNOTIFY notification message format").
use super::Hlc;
use bytes::{Bytes, BytesMut};

/// What happened to a watched key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It was set to this value.
    Set(Bytes),
    /// It was deleted, or expired.
    Deleted,
}

/// A notification, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The key.
    pub key: Bytes,
    /// The version of the change.
    pub version: Hlc,
    /// The change.
    pub event: Event,
}

/// Why a message on a notification topic is not a notification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotificationError {
    /// The topic is not a notification topic of this client.
    #[error("not a notification topic of this client")]
    Topic,
    /// The payload is not NOTIFY.
    #[error("malformed notification payload: {0}")]
    Payload(&'static str),
    /// `__ts` is absent or not an HLC.
    #[error("the notification has no valid timestamp")]
    Timestamp,
}

impl Event {
    /// Reads a notification payload (`DEL` and `DELETE` both accepted).
    pub fn decode(payload: &Bytes) -> Result<Self, NotificationError> {
        unimplemented!()
    }
    /// Appends the form that a server sends.
    pub fn encode(&self, out: &mut BytesMut) {
        unimplemented!()
    }
    /// How many bytes [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        unimplemented!()
    }
}

impl Notification {
    /// Reads a whole message that came to the client `client_id`.
    pub fn decode(
        client_id: &str,
        topic: &str,
        timestamp: Option<&str>,
        payload: &Bytes,
    ) -> Result<Self, NotificationError> {
        unimplemented!()
    }
}
