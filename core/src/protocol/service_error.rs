//! Errors that a state store answers with ("-ERR responses").
use bytes::{Bytes, BytesMut};

/// A refusal by the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// `__ts` is more than a minute ahead of the store.
    #[error(
        "the request timestamp is too far in the future; ensure that the client and broker system clocks are synchronized"
    )]
    TimestampSkew,
    /// The key has a fencing token and the request has none.
    #[error("a fencing token is required for this request")]
    FencingTokenRequired,
    /// `__ft` is more than a minute ahead of the store.
    #[error(
        "the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized"
    )]
    FencingTokenSkew,
    /// `__ft` is lower than the key's token.
    #[error(
        "the request fencing token is a lower version than the fencing token protecting the resource"
    )]
    FencingTokenLower,
    /// The store holds as many keys as it may.
    #[error("the quota has been exceeded")]
    QuotaExceeded,
    /// The payload is not what the protocol defines.
    #[error("syntax error")]
    Syntax,
    /// The client may not do this.
    #[error("not authorized")]
    NotAuthorized,
    /// The verb is not known (verbs are upper case).
    #[error("unknown command")]
    UnknownCommand,
    /// Too few or too many arguments.
    #[error("wrong number of arguments")]
    WrongArguments,
    /// A SET without `__ts`.
    #[error("missing timestamp")]
    MissingTimestamp,
    /// `__ts` or `__ft` is not an HLC.
    #[error("malformed timestamp")]
    MalformedTimestamp,
    /// A key of length zero.
    #[error("the key length is zero")]
    EmptyKey,
    /// Any other text, kept byte for byte.
    #[error("{}", String::from_utf8_lossy(.0))]
    Other(Bytes),
}

impl ServiceError {
    /// Recognises the text after `-ERR`, in every accepted form.
    pub fn from_text(text: &Bytes) -> Self {
        unimplemented!()
    }
    /// Appends `-ERR <text>\r\n`.
    pub fn encode(&self, out: &mut BytesMut) {
        unimplemented!()
    }
}
