//! Errors, and whether a failed operation may have been executed.
use statestore_protocol::ServiceError;
use statestore_protocol::mqtt::ReasonCode;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Declares the kinds, so that [`ErrorKind::ALL`] is always complete.
macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident = $code:literal,)+) => {
        /// Kind of an [`Error`]. The numbers are the same in every language and are never reused. The bindings to other
        /// languages have some additional kinds, for handles, threads and forks.
        ///
        /// New kinds may be added; handle an unknown one by [`Error::outcome`] and [`Error::is_retryable`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum ErrorKind {
            $($(#[$meta])* $name = $code,)+
        }

        impl ErrorKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

kinds! {
    /// An argument is not valid: an empty or overlong key, an expiry of 0 ms, NULL in C; or the value does not fit.
    InvalidArgument = 1,
    /// The connection settings contradict each other, cannot be parsed, or name an unusable file.
    InvalidSettings = 2,
    // 3 to 5, 16 and 25 are of the bindings to other languages.
    /// The broker could not be reached: name not found, connection refused, or no response. With `fail_fast` also
    /// during an outage.
    Unreachable = 10,
    /// The broker rejected the CONNECT or the SUBSCRIBE.
    ConnectionRefused = 11,
    /// The broker rejected the credentials, or denies this client what it needs.
    NotAuthenticated = 12,
    /// The connection and its session were lost, so no response can arrive.
    SessionLost = 13,
    /// The client was closed, or gave up reconnecting. In C also the end of an observer.
    Closed = 14,
    /// The broker's TLS certificate has expired, names another host, or has an unknown signer.
    Untrusted = 15,
    /// No response, no connection or no event came in time.
    TimedOut = 20,
    /// The queue of waiting requests is full.
    QueueFull = 21,
    /// The request exceeds a limit of the broker or MQTT, its value `max_value_bytes`, or more keys match a pattern
    /// than `max_keys`.
    TooLarge = 22,
    /// The broker rejected the request.
    Rejected = 23,
    /// No state store listens behind the broker.
    NoStore = 24,
    /// With `coalesce`, a newer SET of the key replaced this one before it was sent.
    Superseded = 26,
    /// The response does not follow the protocol.
    InvalidResponse = 30,
    /// The response reports a failed remote procedure call.
    Rpc = 31,
    /// The store lacks what the call needs, or the value belongs to an unfinished transaction.
    Unsupported = 32,
    /// Another client still held the lock when the wait ended.
    LockHeld = 40,
    /// The lock was lost or given back, so operations under it fail.
    LockLost = 41,
    /// The lock's key holds something other than a holder's name.
    NotALock = 42,
    /// The store refused: the clocks of client and store are too far apart.
    TimestampSkew = 100,
    /// The store refused: a fencing token protects the key, and the request has none.
    FencingTokenRequired = 101,
    /// The store refused: the fencing token is too far in the future.
    FencingTokenSkew = 102,
    /// The store refused: a higher fencing token protects the key.
    FencingTokenLower = 103,
    /// The store refused: a quota of keys, memory or watches is used up.
    QuotaExceeded = 104,
    /// The store refused: the payload has an unexpected form.
    Syntax = 105,
    /// The store refused: this client may not do this to this key.
    NotAuthorized = 106,
    /// The store refused: it does not know the command.
    UnknownCommand = 107,
    /// The store refused: too few or too many arguments.
    WrongArguments = 108,
    /// The store refused: the request has no timestamp.
    MissingTimestamp = 109,
    /// The store refused: the timestamp or fencing token is not an HLC.
    MalformedTimestamp = 110,
    /// The store refused: the key is empty.
    EmptyKey = 111,
    /// The store refused with a text that this library does not know.
    OtherRefusal = 199,
}

impl ErrorKind {
    /// Returns the number of the kind.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Returns whether the same call may succeed later without a manual change.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::SessionLost
                | Self::TimedOut
                | Self::QueueFull
                | Self::Rejected
                | Self::NoStore
                | Self::Rpc
                | Self::LockHeld
                | Self::QuotaExceeded
        )
    }
}

/// Writes the name in words, such as `not authenticated`.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        let mut words = String::with_capacity(name.len() + 4);
        for (at, letter) in name.char_indices() {
            if at > 0 && letter.is_ascii_uppercase() {
                words.push(' ');
            }
            words.push(letter.to_ascii_lowercase());
        }
        f.pad(&words)
    }
}

impl From<&ServiceError> for ErrorKind {
    fn from(error: &ServiceError) -> Self {
        match error {
            ServiceError::TimestampSkew => Self::TimestampSkew,
            ServiceError::FencingTokenRequired => Self::FencingTokenRequired,
            ServiceError::FencingTokenSkew => Self::FencingTokenSkew,
            ServiceError::FencingTokenLower => Self::FencingTokenLower,
            ServiceError::QuotaExceeded => Self::QuotaExceeded,
            ServiceError::Syntax => Self::Syntax,
            ServiceError::NotAuthorized => Self::NotAuthorized,
            ServiceError::UnknownCommand => Self::UnknownCommand,
            ServiceError::WrongArguments => Self::WrongArguments,
            ServiceError::MissingTimestamp => Self::MissingTimestamp,
            ServiceError::MalformedTimestamp => Self::MalformedTimestamp,
            ServiceError::EmptyKey => Self::EmptyKey,
            // Like the client, which rejects invalid keys itself.
            error if error.is_too_long() => Self::InvalidArgument,
            _ => Self::OtherRefusal,
        }
    }
}

/// Whether a failed operation may have been executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The operation was certainly not executed: it was not sent, or it was rejected.
    NotDone,
    /// The operation may have been executed or may still be: it was sent, and no response arrived.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotDone => "not done",
            Self::Unknown => "unknown",
        })
    }
}

/// End of messages about an unknown outcome.
const UNKNOWN: &str = "; it may have been executed nevertheless";

/// The error of an operation.
///
/// It reports the attempted operation, its subject and the reason of the failure. [`outcome`](Self::outcome) returns whether
/// the operation certainly was not executed. An absent key, an unmet condition and a value that does not match are results, not
/// errors.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    /// Attempted operation and its subject.
    action: String,
    /// Reason of the failure.
    reason: String,
    mqtt_reason: Option<ReasonCode>,
    service_error: Option<ServiceError>,
    /// `__stat` of a failed remote procedure call.
    rpc_status: Option<u16>,
    /// Index, from 0, of the operation of a transaction that caused the failure.
    operation: Option<usize>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error, for code built on this client, such as a test double.
    ///
    /// `action` is the attempted operation with its subject, `reason` the reason of the failure.
    pub fn new(
        kind: ErrorKind,
        outcome: Outcome,
        action: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self(Arc::new(Inner {
            kind,
            outcome,
            action: action.into(),
            reason: reason.into(),
            mqtt_reason: None,
            service_error: None,
            rpc_status: None,
            operation: None,
            source: None,
        }))
    }

    /// Sets the [source](StdError::source) of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.0).source = Some(Arc::new(source));
        self
    }

    pub(crate) fn with_shared_source(mut self, source: Arc<dyn StdError + Send + Sync>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(source);
        self
    }

    pub(crate) fn with_mqtt_reason(mut self, reason: Option<ReasonCode>) -> Self {
        Arc::make_mut(&mut self.0).mqtt_reason = reason;
        self
    }

    pub(crate) fn with_rpc_status(mut self, status: Option<u16>) -> Self {
        Arc::make_mut(&mut self.0).rpc_status = status;
        self
    }

    /// Sets the [`operation`](Self::operation) of a transaction that caused the failure.
    #[must_use]
    pub fn with_operation(mut self, operation: usize) -> Self {
        Arc::make_mut(&mut self.0).operation = Some(operation);
        self
    }

    /// Replaces the action and the reason by those of the calling operation.
    pub(crate) fn with_action(mut self, action: String, reason: String) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        (inner.action, inner.reason) = (action, reason);
        self
    }

    /// Sets the [`outcome`](Self::outcome).
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        Arc::make_mut(&mut self.0).outcome = outcome;
        self
    }

    /// Returns the error for a response `-ERR` of the store.
    pub(crate) fn refused(action: impl Into<String>, error: ServiceError) -> Self {
        const FENCED: &str = "an earlier write with a token fenced the key: by the guard of a lock, or by an update on a store without \
                              conditions on versions; write it with that guard, with its token, or by an update on such a store";
        let mut reason = format!("the store refused: {error}");
        if error == ServiceError::FencingTokenRequired {
            reason = format!("{reason}; {FENCED}");
        }
        let mut this = Self::new(ErrorKind::from(&error), Outcome::NotDone, action, reason);
        Arc::make_mut(&mut this.0).service_error = Some(error);
        this
    }

    /// Returns the reason of the failure, without the attempted operation.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the operation may have been executed.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Returns whether the same call may succeed later without a manual change. Whether repeating it is *safe* depends on the
    /// [`outcome`](Self::outcome) and on the operation.
    pub fn is_retryable(&self) -> bool {
        // The store does not accept the request itself: malformed, of a wrong content type, or of an unknown version.
        if let Some(400 | 415 | 505) = self.0.rpc_status {
            return false;
        }
        match self.0.mqtt_reason {
            Some(reason) => matches!(
                reason,
                ReasonCode::NO_MATCHING_SUBSCRIBERS
                    | ReasonCode::UNSPECIFIED_ERROR
                    | ReasonCode::SERVER_UNAVAILABLE
                    | ReasonCode::SERVER_BUSY
                    | ReasonCode::SERVER_SHUTTING_DOWN
                    | ReasonCode::MESSAGE_RATE_TOO_HIGH
                    | ReasonCode::QUOTA_EXCEEDED
                    | ReasonCode::CONNECTION_RATE_EXCEEDED
                    | ReasonCode::KEEP_ALIVE_TIMEOUT
                    | ReasonCode::MAXIMUM_CONNECT_TIME
            ),
            None => self.0.kind.is_retryable(),
        }
    }

    /// Returns whether the same request may succeed later, so that a waiting caller continues to wait.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_retryable()
            || self.outcome() == Outcome::Unknown
                && !matches!(self.kind(), ErrorKind::Closed | ErrorKind::InvalidResponse)
    }

    /// Returns the reason code of the MQTT packet that reported the failure, if there was one.
    pub fn mqtt_reason(&self) -> Option<ReasonCode> {
        self.0.mqtt_reason
    }

    /// Returns the index, from 0, of the operation of a [`Transaction`](crate::Transaction) that caused the failure, if one
    /// did. The operation is invalid, was rejected, or its request failed.
    pub fn operation(&self) -> Option<usize> {
        self.0.operation
    }

    /// Returns the error response of the store, if it rejected the request.
    pub fn service_error(&self) -> Option<&ServiceError> {
        self.0.service_error.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.action, self.0.reason)?;
        match self.0.outcome {
            // The reason may contain another error that ends with this text.
            Outcome::Unknown if !self.0.reason.ends_with(UNKNOWN) => f.write_str(UNKNOWN),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("outcome", &self.0.outcome)
            .field("action", &self.0.action)
            .field("reason", &self.0.reason)
            .field("mqtt_reason", &self.0.mqtt_reason)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
