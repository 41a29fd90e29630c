//! Errors of a binding: all errors of a client, and errors that occur only in a foreign language.
use statestore::{ErrorKind as ClientKind, Outcome, ReasonCode};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Declares the kinds, so that [`ErrorKind::ALL`] cannot lack one.
macro_rules! kinds {
    (
        own { $($(#[$meta:meta])* $own:ident = $code:literal,)+ }
        client { $($client:ident)+ }
    ) => {
        /// The kind of an [`Error`]: a kind of [`statestore::ErrorKind`], or one that only bindings have. The names and numbers
        /// are the same in every language (`tests/vectors/error_kinds.json`) and are never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum ErrorKind {
            $($(#[$meta])* $own = $code,)+
            $(#[doc = concat!("[`statestore::ErrorKind::", stringify!($client), "`]")] $client = ClientKind::$client.code(),)+
        }

        impl ErrorKind {
            /// All kinds, first those that only bindings know.
            pub const ALL: &[Self] = &[$(Self::$own,)+ $(Self::$client,)+];

            /// Returns whether the same call may succeed later without manual changes.
            pub const fn is_retryable(self) -> bool {
                match self {
                    $(Self::$own)|+ => false,
                    $(Self::$client => ClientKind::$client.is_retryable(),)+
                }
            }
        }

        impl From<ClientKind> for ErrorKind {
            fn from(kind: ClientKind) -> Self {
                match kind {
                    $(ClientKind::$client => Self::$client,)+
                    // A kind of the client that is not here is found by a test.
                    _ => Self::Internal,
                }
            }
        }
    };
}

kinds! {
    own {
        /// A handle was freed before, or has another type. Only in C.
        InvalidHandle = 3,
        /// The call would wait for itself, as in a callback of its own client. Not in Node.
        WrongThread = 4,
        /// The library detected a bug in itself, or the system provides no thread.
        Internal = 5,
        /// The client belongs to the parent of this forked process. Not in Node.
        Forked = 16,
        /// The caller cancelled the operation or its wait. Not in Rust.
        Cancelled = 25,
    }
    client {
        InvalidArgument InvalidSettings
        Unreachable ConnectionRefused NotAuthenticated SessionLost Closed Untrusted
        TimedOut QueueFull TooLarge Rejected NoStore Superseded
        InvalidResponse Rpc Unsupported
        LockHeld LockLost NotALock
        TimestampSkew FencingTokenRequired FencingTokenSkew FencingTokenLower QuotaExceeded Syntax NotAuthorized
        UnknownCommand WrongArguments MissingTimestamp MalformedTimestamp EmptyKey OtherRefusal
    }
}

impl ErrorKind {
    /// Returns the number of the kind.
    pub const fn code(self) -> u16 {
        self as u16
    }
}

/// The reason why an operation has no result: an error of the client, or one of the binding. It has the same details as
/// [`statestore::Error`].
#[derive(Clone)]
pub struct Error(Repr);

#[derive(Clone)]
enum Repr {
    Client(statestore::Error),
    Binding(Arc<BindingError>),
}

struct BindingError {
    kind: ErrorKind,
    outcome: Outcome,
    /// Attempted action and its object.
    action: String,
    /// Why it failed.
    reason: String,
}

impl Error {
    /// Creates an error of a binding. `action` is the attempted action with its object, `reason` why it failed.
    pub fn new(
        kind: ErrorKind,
        outcome: Outcome,
        action: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self(Repr::Binding(Arc::new(BindingError {
            kind,
            outcome,
            action: action.into(),
            reason: reason.into(),
        })))
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Repr::Client(error) => error.kind().into(),
            Repr::Binding(own) => own.kind,
        }
    }

    /// Returns whether the operation may have taken effect despite the error.
    pub fn outcome(&self) -> Outcome {
        match &self.0 {
            Repr::Client(error) => error.outcome(),
            Repr::Binding(own) => own.outcome,
        }
    }

    /// Returns whether a retry may succeed, like [`statestore::Error::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        match &self.0 {
            Repr::Client(error) => error.is_retryable(),
            Repr::Binding(own) => own.kind.is_retryable(),
        }
    }

    /// Returns the position of the refused operation, like [`statestore::Error::operation`].
    pub fn operation(&self) -> Option<usize> {
        match &self.0 {
            Repr::Client(error) => error.operation(),
            Repr::Binding(_) => None,
        }
    }

    /// Returns the number of the system's error behind it (`errno`), if there is one.
    pub fn os_error(&self) -> Option<i32> {
        let mut source = self.source();
        while let Some(error) = source {
            let number = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::raw_os_error);
            if number.is_some() {
                return number;
            }
            source = error.source();
        }
        None
    }

    /// Returns the reason code of the MQTT packet that reported the failure, if there is one.
    pub fn mqtt_reason(&self) -> Option<ReasonCode> {
        match &self.0 {
            Repr::Client(error) => error.mqtt_reason(),
            Repr::Binding(_) => None,
        }
    }
}

impl From<statestore::Error> for Error {
    fn from(error: statestore::Error) -> Self {
        Self(Repr::Client(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = match &self.0 {
            Repr::Client(error) => return fmt::Display::fmt(error, f),
            Repr::Binding(own) => own,
        };
        write!(f, "{}: {}", own.action, own.reason)?;
        match own.outcome {
            Outcome::NotDone => Ok(()),
            Outcome::Unknown => f.write_str("; it may have been executed nevertheless"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Client(error) => fmt::Debug::fmt(error, f),
            Repr::Binding(own) => f
                .debug_struct("Error")
                .field("kind", &own.kind)
                .field("outcome", &own.outcome)
                .field("action", &own.action)
                .field("reason", &own.reason)
                .finish(),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            Repr::Client(error) => error.source(),
            Repr::Binding(_) => None,
        }
    }
}
