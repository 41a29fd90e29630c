//! Names of operations.
use crate::registry::OperationKind;

/// The name of an operation, for its errors, and whether the operation waits for an event.
#[derive(Debug, Clone, Copy)]
pub struct OperationDescriptor {
    pub(crate) name: &'static str,
    pub(crate) kind: OperationKind,
}

impl OperationDescriptor {
    /// Names an operation that waits for an event, which may never happen: a change, a lock that another client holds, the loss of a
    /// lock. Neither [`drain`](crate::Client::drain) nor [`finish`](crate::Client::finish) waits for it.
    pub const fn event(name: &'static str) -> Self {
        let kind = OperationKind::Event;
        Self { name, kind }
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns whether the operation waits for an event.
    pub fn is_event(self) -> bool {
        self.kind == OperationKind::Event
    }
}

impl From<&'static str> for OperationDescriptor {
    fn from(name: &'static str) -> Self {
        let kind = OperationKind::Request;
        Self { name, kind }
    }
}
