//! In whose name something is done.
use std::sync::Arc;

/// In whose name something is done: a user that the [`Authenticator`](super::Authenticator) knows, or, where it knows
/// none, nobody's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    /// A user.
    pub fn user(name: Arc<str>) -> Self {
        Self(Some(name))
    }

    /// The name of the user, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}
