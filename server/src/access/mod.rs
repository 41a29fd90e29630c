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
mod users;

pub use authenticator::{Authenticator, Credentials};
pub use principal::Principal;
pub use users::{Users, UsersError, UsersSource};

pub(crate) use authenticator::Standing;
pub(crate) use logins::{Logins, Turn};
