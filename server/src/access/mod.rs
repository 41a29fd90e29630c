//! Who may connect, and in whose name everything is done that comes over a connection.
//!
//! ```text
//!   CONNECT ─▶ Logins: when? ─▶ Authenticator: who? ─▶ Principal ─▶ session ─▶ every request
//! ```
//!
//! This room knows neither connections nor sessions. Another way to know a client is another variant of
//! [`Authenticator`].
mod authenticator;
mod logins;
mod principal;

pub use authenticator::{Authenticator, Credentials, Users, UsersError};
pub use principal::Principal;

pub(crate) use logins::{Logins, Turn};
