//! Rights of one session.
use super::Allowed;
use statestore_protocol::Command;
use std::sync::Arc;

/// Rights of one session, besides being connected.
#[derive(Debug)]
pub struct Rights {
    /// Rights from templates without tokens, the same for all clients with the same rules.
    shared: Arc<Allowed>,
    /// Rights from templates with tokens, which are particular to the session.
    own: Option<Box<Allowed>>,
    /// Whether any key may be read or written. Each request checks it.
    may_use_store: bool,
}

impl Rights {
    pub(super) fn new(shared: Arc<Allowed>, own: Allowed) -> Self {
        let has_keys = |allowed: &Allowed| !allowed.read.is_empty() || !allowed.write.is_empty();
        Self {
            may_use_store: has_keys(&shared) || has_keys(&own),
            shared,
            own: (!own.is_empty()).then(|| own.into()),
        }
    }

    /// Returns rights that allow nothing.
    pub fn none() -> Arc<Self> {
        Arc::new(Self::new(Arc::default(), Allowed::default()))
    }

    fn any(&self, allows: impl Fn(&Allowed) -> bool) -> bool {
        allows(&self.shared) || self.own.as_deref().is_some_and(allows)
    }

    /// Returns whether the session may publish to an ordinary topic.
    pub fn may_publish(&self, topic: &str) -> bool {
        self.any(|allowed| allowed.publish.contain(topic))
    }

    /// Returns whether the session may subscribe to a filter, and thus to each topic that the filter matches.
    pub fn may_subscribe(&self, filter: &str) -> bool {
        self.any(|allowed| allowed.subscribe.contain(filter))
    }

    /// Returns whether the session may send requests to the store at all.
    pub fn may_use_store(&self) -> bool {
        self.may_use_store
    }

    /// Returns whether the session may see a key, its value and its changes.
    pub fn may_read(&self, key: &[u8]) -> bool {
        self.any(|allowed| allowed.read.contain(key))
    }

    /// Returns whether the session may set and delete a key.
    pub fn may_write(&self, key: &[u8]) -> bool {
        self.any(|allowed| allowed.write.contain(key))
    }

    /// Returns whether the session may send this command. A SCAN is allowed if any key may be read; its page is
    /// filtered separately.
    pub fn allow(&self, command: &Command) -> bool {
        match command {
            Command::Get { key, .. } | Command::Watch { key } => self.may_read(key),
            Command::Set { key, .. } | Command::Del { key, .. } | Command::Vdel { key, .. } => {
                self.may_write(key)
            }
            // The former only ends a watch of the client, and the latter reveals nothing about entries.
            Command::Unwatch { .. } | Command::Capabilities => true,
            Command::Scan { .. } => self.any(|allowed| !allowed.read.is_empty()),
            Command::Transact { operations } => {
                operations.iter().all(|it| self.may_write(it.key()))
            }
            _ => false,
        }
    }
}

impl Allowed {
    fn is_empty(&self) -> bool {
        self.publish.is_empty()
            && self.subscribe.is_empty()
            && self.read.is_empty()
            && self.write.is_empty()
    }
}
