//! What can go wrong, and whether the operation may have happened.
use statestore_protocol::ServiceError;
use statestore_protocol::mqtt::ReasonCode;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Declares the kinds, so that [`ErrorKind::ALL`] cannot lack one.
macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident = $code:literal,)+) => {
        /// What kind of failure an [`Error`] is. The numbers are the same in every language and are never used twice. The
        /// bindings to other languages have a few kinds more, for handles, threads and forks.
        ///
        /// New kinds may appear; treat an unknown one by [`Error::outcome`] and [`Error::is_retryable`].
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
    /// An argument cannot be used: an empty key, a key or pattern that is longer than the store takes, an expiry of 0
    /// ms, a name that no lock can have. In C also NULL where that is not allowed, and options of another version.
    InvalidArgument = 1,
    /// The connection settings contradict each other, cannot be parsed, or name a file that cannot be used.
    InvalidSettings = 2,
    // 3 to 5, 16 and 25 are of the bindings to other languages.
    /// The broker could not be reached: name not found, connection refused, no answer in time.
    Unreachable = 10,
    /// The broker answered the CONNECT or the SUBSCRIBE with a refusal.
    ConnectionRefused = 11,
    /// The broker does not accept the credentials, or does not allow this client what it needs.
    NotAuthenticated = 12,
    /// The connection was lost, and the session with it, so no response can come any more.
    SessionLost = 13,
    /// The client was closed, or gave up its connection for good. In C also the end of what is observed.
    Closed = 14,
    /// The broker's TLS certificate is not acceptable: signed by somebody unknown, expired, or made out to another
    /// name.
    Untrusted = 15,
    /// No response came in time, there was no connection to send the request on, or nothing happened while it was
    /// waited for.
    TimedOut = 20,
    /// As many requests wait as may wait.
    QueueFull = 21,
    /// The request is larger than the broker or MQTT allows, or the value than `max_value_bytes`.
    TooLarge = 22,
    /// The broker refused to take the request.
    Rejected = 23,
    /// No state store listens behind the broker.
    NoStore = 24,
    /// A newer SET of the key took its place before it was sent, as the option `coalesce` asks while the network is
    /// away.
    Superseded = 26,
    /// The response is not what the protocol defines.
    InvalidResponse = 30,
    /// The response says that the remote procedure call itself failed.
    Rpc = 31,
    /// The store cannot do that: not every store has conditions on versions, remaining times and transactions.
    Unsupported = 32,
    /// Somebody else holds the lock, and the time to wait for it is over.
    LockHeld = 40,
    /// The lock is lost or was given back, so nothing is done in its name any more.
    LockLost = 41,
    /// The key of the lock holds something that is not the name of a holder.
    NotALock = 42,
    /// The store refused: the clocks of client and store are too far apart.
    TimestampSkew = 100,
    /// The store refused: the key is protected by a fencing token and the request has none.
    FencingTokenRequired = 101,
    /// The store refused: the fencing token is too far in the future.
    FencingTokenSkew = 102,
    /// The store refused: the key is protected by a higher fencing token.
    FencingTokenLower = 103,
    /// The store refused: it holds as many keys as it may.
    QuotaExceeded = 104,
    /// The store refused: the payload is not what it expects.
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
    /// The store refused with a text that this version of the library does not know.
    OtherRefusal = 199,
}

impl ErrorKind {
    /// Its number.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Whether the same call may succeed later without anything being changed by hand.
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

/// Its name in words: `not authenticated`.
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
            // As the client itself refuses keys that cannot be.
            error if error.is_too_long() => Self::InvalidArgument,
            _ => Self::OtherRefusal,
        }
    }
}

/// Whether a failed operation may have happened nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It certainly did not happen: it never left, or it was refused.
    NotDone,
    /// It may have happened or may still happen: it left, and no response came.
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

/// The end of messages about an unknown outcome.
const UNKNOWN: &str = "; it may have been carried out nevertheless";

/// Why an operation has no result.
///
/// It says what was tried, on what, why that failed, and, with [`outcome`](Self::outcome), whether the operation
/// certainly did not happen. An absent key, an unmet condition and a value that does not match are results, not errors.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    /// What was tried, on what.
    action: String,
    /// Why it failed.
    reason: String,
    mqtt_reason: Option<ReasonCode>,
    service_error: Option<ServiceError>,
    /// `__stat` of a failed remote procedure call.
    rpc_status: Option<u16>,
    /// Which operation of a transaction was refused, from 0.
    operation: Option<usize>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of what is built on this client, such as a test's double.
    ///
    /// `action` is what was tried and on what, `reason` why it failed.
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

    pub(crate) fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
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

    pub(crate) fn with_operation(mut self, operation: usize) -> Self {
        Arc::make_mut(&mut self.0).operation = Some(operation);
        self
    }

    /// The same of what it was done for.
    pub(crate) fn with_action(mut self, action: String, reason: String) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        (inner.action, inner.reason) = (action, reason);
        self
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        Arc::make_mut(&mut self.0).outcome = outcome;
        self
    }

    /// The store refused with `-ERR`.
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

    /// Why it failed, without what was tried.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the operation may have happened nevertheless.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Whether the same call may succeed later without anything being changed by hand. Whether repeating it is *safe*
    /// depends on the [`outcome`](Self::outcome) and on the operation.
    pub fn is_retryable(&self) -> bool {
        // The request itself is not what the store takes: malformed, of a wrong content type, of an unknown version.
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

    /// The reason code of the MQTT packet that brought the failure, if one did.
    pub fn mqtt_reason(&self) -> Option<ReasonCode> {
        self.0.mqtt_reason
    }

    /// Which operation of a [`Transaction`](crate::Transaction) the store refused, from 0, if that is why nothing was done.
    pub fn operation(&self) -> Option<usize> {
        self.0.operation
    }

    /// What the store answered, if it refused.
    pub fn service_error(&self) -> Option<&ServiceError> {
        self.0.service_error.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.action, self.0.reason)?;
        match self.0.outcome {
            // The reason may be another error, which says so already.
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
