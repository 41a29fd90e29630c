//! Reasons for the end of an observer, a guard or a connection.
use std::fmt;

/// Declares the reasons, so that [`LostReason::ALL`] is always complete.
macro_rules! reasons {
    ($($(#[$meta:meta])* $name:ident = $code:literal $word:literal,)+) => {
        /// Reason for the end of an [`Observer`](crate::Observer), a [`Guard`](crate::Guard) or the
        /// [connection](crate::ConnectionState::Closed) of a client.
        ///
        /// The words and numbers are the same in every language (`tests/vectors/lost_reasons.json`) and are never reused. New
        /// reasons may be added.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum LostReason {
            $($(#[$meta])* $name = $code,)+
        }

        impl LostReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the word of the reason.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

reasons! {
    /// The client or the observer was closed, or the runtime that drove the client was shut down.
    Closed = 1 "closed",
    /// Another connection with the same client id took the session over.
    TakenOver = 2 "taken_over",
    /// The connection could not be made within `reconnect_limit`, or a `lazy` one within `connect_limit`.
    GaveUp = 3 "gave_up",
    /// The broker or the store refused the credentials, the subscription or the watch.
    Refused = 4 "refused",
    /// The lease was given back, or left to expire.
    Released = 5 "released",
    /// The lease expired before it could be renewed.
    Expired = 6 "expired",
    /// Another client holds the lease, or the store no longer had it.
    Taken = 7 "taken",
}

impl LostReason {
    /// Returns the number of the reason.
    pub const fn code(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
