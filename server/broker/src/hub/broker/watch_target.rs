//! Targets of watches: a request about a watch names a key or a pattern.
use bytes::{Bytes, BytesMut};
use statestore_protocol::Command;

/// A key or a pattern that a client watches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum WatchTarget {
    Key(Bytes),
    Pattern(Bytes),
}

impl WatchTarget {
    /// Returns the target of a request about a watch, and whether the request ends the watch.
    pub(super) fn parse(payload: &Bytes) -> Option<(Self, bool)> {
        match Command::decode(payload).ok()? {
            Command::Watch { key } => Some((Self::Key(key), false)),
            Command::Unwatch { key } => Some((Self::Key(key), true)),
            Command::WatchPattern { pattern } => Some((Self::Pattern(pattern), false)),
            Command::UnwatchPattern { pattern } => Some((Self::Pattern(pattern), true)),
            _ => None,
        }
    }

    /// Returns the bytes of the key or pattern.
    pub(super) fn bytes(&self) -> &Bytes {
        let (Self::Key(bytes) | Self::Pattern(bytes)) = self;
        bytes
    }

    /// Returns a copy that shares no memory with a message. A slice of the message would keep the whole message.
    pub(super) fn detached(&self) -> Self {
        let bytes = Bytes::copy_from_slice(self.bytes());
        match self {
            Self::Key(_) => Self::Key(bytes),
            Self::Pattern(_) => Self::Pattern(bytes),
        }
    }

    /// Returns the payload of the request that begins the watch, or ends it.
    pub(super) fn request(&self, is_stop: bool) -> Bytes {
        let command = match (self.clone(), is_stop) {
            (Self::Key(key), false) => Command::Watch { key },
            (Self::Key(key), true) => Command::Unwatch { key },
            (Self::Pattern(pattern), false) => Command::WatchPattern { pattern },
            (Self::Pattern(pattern), true) => Command::UnwatchPattern { pattern },
        };
        let mut payload = BytesMut::new();
        command.encode(&mut payload);
        payload.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_request_is_recognized_in_any_length_encoding() {
        let zeros = "0".repeat(100);
        let (key, pattern) = (
            WatchTarget::Key(Bytes::from_static(b"k")),
            WatchTarget::Pattern(Bytes::from_static(b"k")),
        );
        for (text, expected) in [
            (
                "*2\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n".to_owned(),
                Some((&key, false)),
            ),
            (
                format!("*2\r\n${zeros}9\r\nKEYNOTIFY\r\n$1\r\nk\r\n"),
                Some((&key, false)),
            ),
            (
                "*3\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$4\r\nSTOP\r\n".to_owned(),
                Some((&key, true)),
            ),
            (
                "*3\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$5\r\nMATCH\r\n".to_owned(),
                Some((&pattern, false)),
            ),
            (
                "*4\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$5\r\nMATCH\r\n$4\r\nSTOP\r\n".to_owned(),
                Some((&pattern, true)),
            ),
            ("*2\r\n$3\r\nGET\r\n$9\r\nKEYNOTIFY\r\n".to_owned(), None),
        ] {
            let parsed = WatchTarget::parse(&text.clone().into());
            let parsed = parsed.as_ref().map(|(target, is_stop)| (target, *is_stop));
            assert_eq!(parsed, expected, "{text:?}");
            if let Some((target, is_stop)) = expected {
                let request = target.request(is_stop);
                assert_eq!(
                    WatchTarget::parse(&request),
                    Some((target.detached(), is_stop))
                );
            }
        }
    }
}
