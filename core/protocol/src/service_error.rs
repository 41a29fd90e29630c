//! Errors that a state store answers with ("-ERR responses").
use super::resp::CRLF;
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// Prefix of every refusal.
pub(super) const PREFIX: &[u8] = b"-ERR";

/// A refusal by the store. [`Display`](fmt::Display) writes the text of the wire format.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServiceError {
    /// `__ts` is more than a minute ahead of the store.
    TimestampSkew,
    /// The key has a fencing token and the request has none.
    FencingTokenRequired,
    /// `__ft` is more than a minute ahead of the store.
    FencingTokenSkew,
    /// `__ft` is lower than the key's token.
    FencingTokenLower,
    /// The store holds as many keys as it may.
    QuotaExceeded,
    /// The payload violates the protocol.
    Syntax,
    /// The client may not do this.
    NotAuthorized,
    /// The verb is not known (verbs are upper case).
    UnknownCommand,
    /// Too few or too many arguments.
    WrongArguments,
    /// A SET without `__ts`.
    MissingTimestamp,
    /// `__ts` or `__ft` is not an HLC.
    MalformedTimestamp,
    /// A key of length zero.
    EmptyKey,
    /// Any other text, kept byte for byte; empty if the store sent none.
    Other(Bytes),
}

/// Every error that has a text of its own.
const KNOWN: [ServiceError; 12] = [
    ServiceError::TimestampSkew,
    ServiceError::FencingTokenRequired,
    ServiceError::FencingTokenSkew,
    ServiceError::FencingTokenLower,
    ServiceError::QuotaExceeded,
    ServiceError::Syntax,
    ServiceError::NotAuthorized,
    ServiceError::UnknownCommand,
    ServiceError::WrongArguments,
    ServiceError::MissingTimestamp,
    ServiceError::MalformedTimestamp,
    ServiceError::EmptyKey,
];

/// Spelling of [`ServiceError::FencingTokenLower`] in the vendor's document; deployed stores write "than".
const FENCING_TOKEN_LOWER_DOCUMENTED: &[u8] =
    b"the request fencing token is a lower version that the fencing token protecting the resource";

/// The middle of the text of [`ServiceError::too_long`].
const TOO_LONG: &str = " is longer than ";

impl ServiceError {
    /// Decodes the text behind `-ERR` in a reply, in every accepted form. A colon and spaces before the text and a CRLF behind
    /// it are optional. An unknown text becomes [`Other`](Self::Other), never an error.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use statestore_protocol::ServiceError;
    ///
    /// for text in [" syntax error\r\n", ": syntax error\r\n", " syntax error", "syntax error"] {
    ///     assert_eq!(ServiceError::from_text(&Bytes::from(text)), ServiceError::Syntax);
    /// }
    /// let other = Bytes::from_static(b" out of cheese\xff\r\n");
    /// assert_eq!(ServiceError::from_text(&other), ServiceError::Other(other.slice(1..15)));
    /// ```
    pub fn from_text(text: &Bytes) -> Self {
        let mut trimmed = text.strip_prefix(b":").unwrap_or(text);
        while let Some(rest) = trimmed.strip_prefix(b" ") {
            trimmed = rest;
        }
        let trimmed = trimmed.strip_suffix(CRLF).unwrap_or(trimmed);
        if trimmed == FENCING_TOKEN_LOWER_DOCUMENTED {
            return Self::FencingTokenLower;
        }
        KNOWN
            .into_iter()
            .find(|known| known.text() == trimmed)
            .unwrap_or_else(|| Self::Other(text.slice_ref(trimmed)))
    }

    /// Returns the refusal of a key or a pattern (`what`) that is longer than the store accepts. The text is specific to this
    /// implementation: the vendor's document has none.
    pub fn too_long(what: &str, max_bytes: usize) -> Self {
        Self::Other(format!("the {what}{TOO_LONG}{max_bytes} bytes").into())
    }

    /// Returns whether this is the refusal of a key or a pattern that is too long.
    ///
    /// ```
    /// use statestore_protocol::ServiceError;
    ///
    /// assert!(ServiceError::too_long("key", 16_384).is_too_long());
    /// assert!(!ServiceError::EmptyKey.is_too_long());
    /// ```
    pub fn is_too_long(&self) -> bool {
        let Self::Other(text) = self else {
            return false;
        };
        let number = ["the key", "the pattern"]
            .iter()
            .find_map(|what| text.strip_prefix(what.as_bytes()))
            .and_then(|text| text.strip_prefix(TOO_LONG.as_bytes()))
            .and_then(|text| text.strip_suffix(b" bytes"));
        number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
    }

    /// Returns the text behind `-ERR `.
    pub fn text(&self) -> &[u8] {
        match self {
            Self::TimestampSkew => b"the request timestamp is too far in the future; ensure that the client and broker system clocks are synchronized",
            Self::FencingTokenRequired => b"a fencing token is required for this request",
            Self::FencingTokenSkew => b"the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized",
            Self::FencingTokenLower => b"the request fencing token is a lower version than the fencing token protecting the resource",
            Self::QuotaExceeded => b"the quota has been exceeded",
            Self::Syntax => b"syntax error",
            Self::NotAuthorized => b"not authorized",
            Self::UnknownCommand => b"unknown command",
            Self::WrongArguments => b"wrong number of arguments",
            Self::MissingTimestamp => b"missing timestamp",
            Self::MalformedTimestamp => b"malformed timestamp",
            Self::EmptyKey => b"the key length is zero",
            Self::Other(text) => text,
        }
    }

    /// Appends `-ERR <text>\r\n`.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(self.encoded_len());
        out.put_slice(PREFIX);
        out.put_u8(b' ');
        out.put_slice(self.text());
        out.put_slice(CRLF);
    }

    /// Returns the number of bytes that [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        PREFIX.len() + 1 + self.text().len() + CRLF.len()
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            [] => f.write_str("the store rejected the request without a reason"),
            text => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

impl std::error::Error for ServiceError {}
