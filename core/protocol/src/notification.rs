//! Notifications of watched keys ("KEYNOTIFY notification message format"), and of gaps in watches of patterns.
use super::{
    Hlc,
    resp::{self, Decoder, RespError},
    topic,
};
use bytes::{BufMut, Bytes, BytesMut};

/// A delete, as deployed stores send it.
const DELETED: &[u8] = b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n";
/// A gap in a watch of a pattern. An extension of `statestored`.
const RESYNC: &[u8] = b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nRESYNC\r\n";
/// Encoded beginning of a SET notification, up to the value.
const SET: &[u8] = b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n";

/// A change of a watched key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The key was set to this value.
    Set(Bytes),
    /// The key was deleted, or expired.
    Deleted,
    /// Changes of keys that match a watched pattern may be missing. The topic has the pattern in place of a key, and the
    /// version has no meaning.
    Resync,
}

/// A notification, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The key; the pattern of a [`Resync`](Event::Resync).
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

impl From<RespError> for NotificationError {
    fn from(error: RespError) -> Self {
        Self::Payload(error.reason())
    }
}

impl Event {
    /// Reads a notification payload (`DEL` and `DELETE` both accepted).
    ///
    /// ```
    /// use bytes::Bytes;
    /// use statestore_protocol::Event;
    ///
    /// let payload = Bytes::from_static(b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$3\r\nabc\r\n");
    /// assert_eq!(Event::decode(&payload), Ok(Event::Set(Bytes::from_static(b"abc"))));
    /// ```
    pub fn decode(payload: &Bytes) -> Result<Self, NotificationError> {
        let malformed = |reason| Err(NotificationError::Payload(reason));
        let mut decoder = Decoder::new(payload);
        let count = decoder.array()?;
        if count == 0 || decoder.bulk()? != b"NOTIFY" {
            return malformed("it does not begin with NOTIFY");
        }
        if count == 1 {
            return malformed("the operation is missing");
        }
        let event = match (decoder.bulk()?, count) {
            (b"DELETE" | b"DEL", 2) => Self::Deleted,
            (b"DELETE" | b"DEL", _) => return malformed("a delete carries nothing else"),
            (b"RESYNC", 2) => Self::Resync,
            (b"RESYNC", _) => return malformed("a resync carries nothing else"),
            (b"SET", 4) => {
                if decoder.bulk()? != b"VALUE" {
                    return malformed("a set carries VALUE and the value");
                }
                Self::Set(decoder.bulk_bytes()?)
            }
            (b"SET", _) => return malformed("a set carries VALUE and the value"),
            _ => return malformed("the operation is none of SET, DELETE and RESYNC"),
        };
        decoder.finish()?;
        Ok(event)
    }

    /// Appends the form that a server sends. Room for all of it is reserved first, once.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(self.encoded_len());
        match self {
            Self::Set(value) => {
                out.put_slice(SET);
                resp::put_bulk(value, out);
            }
            Self::Deleted => out.put_slice(DELETED),
            Self::Resync => out.put_slice(RESYNC),
        }
    }

    /// Returns the number of bytes that [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Set(value) => SET.len() + resp::bulk_len(value.len()),
            Self::Deleted => DELETED.len(),
            Self::Resync => RESYNC.len(),
        }
    }
}

impl Notification {
    /// Decodes a whole message to the client `client_id`: topic, user property `__ts` and payload.
    ///
    /// The checks, in this order: topic, payload, timestamp.
    pub fn decode(
        client_id: &str,
        topic: &str,
        timestamp: Option<&str>,
        payload: &Bytes,
    ) -> Result<Self, NotificationError> {
        let key = topic::notification_key(client_id, topic).ok_or(NotificationError::Topic)?;
        let event = Event::decode(payload)?;
        let version = timestamp
            .and_then(|text| Hlc::parse(text.as_bytes()).ok())
            .ok_or(NotificationError::Timestamp)?;
        Ok(Self {
            key,
            version,
            event,
        })
    }
}
