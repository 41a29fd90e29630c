//! Why an observer, a guard or a connection is over.
use std::fmt;

/// Declares the reasons, so that [`LostReason::ALL`] cannot lack one.
macro_rules! reasons {
    ($($(#[$meta:meta])* $name:ident = $code:literal $word:literal,)+) => {
        /// Why an [`Observer`](crate::Observer), a [`Guard`](crate::Guard) or the
        /// [connection](crate::ConnectionState::Closed) of a client is over for good.
        ///
        /// The words and numbers are the same in every language (`tests/vectors/lost_reasons.json`) and are never used
        /// twice. New reasons may appear.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum LostReason {
            $($(#[$meta])* $name = $code,)+
        }

        impl LostReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its word.
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
    /// The connection could not be made again within `reconnect_limit`.
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
    /// Its number.
    pub const fn code(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
