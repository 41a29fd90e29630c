//! What one session may do.
use super::Allowed;
use statestore_protocol::Command;
use std::sync::Arc;

/// What one session may do, besides being connected.
#[derive(Debug)]
pub struct Rights {
    /// By rules that say the same to everybody.
    shared: Arc<Allowed>,
    /// By rules in which its own name stands.
    own: Option<Box<Allowed>>,
    /// Asked for each request.
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

    /// Nothing at all.
    pub fn none() -> Arc<Self> {
        Arc::new(Self::new(Arc::default(), Allowed::default()))
    }

    fn any(&self, allows: impl Fn(&Allowed) -> bool) -> bool {
        allows(&self.shared) || self.own.as_deref().is_some_and(allows)
    }

    /// Whether it may publish to an ordinary topic.
    pub fn may_publish(&self, topic: &str) -> bool {
        self.any(|allowed| allowed.publish.contain(topic))
    }

    /// Whether it may subscribe to a filter: to each topic that the filter matches.
    pub fn may_subscribe(&self, filter: &str) -> bool {
        self.any(|allowed| allowed.subscribe.contain(filter))
    }

    /// Whether it may ask the store for anything at all.
    pub fn may_use_store(&self) -> bool {
        self.may_use_store
    }

    /// Whether it may see a key, its value and its changes.
    pub fn may_read(&self, key: &[u8]) -> bool {
        self.any(|allowed| allowed.read.contain(key))
    }

    /// Whether it may set and delete a key.
    pub fn may_write(&self, key: &[u8]) -> bool {
        self.any(|allowed| allowed.write.contain(key))
    }

    /// Whether it may ask for this. A SCAN is for whoever may read something; what it shows is another matter.
    pub fn allow(&self, command: &Command) -> bool {
        match command {
            Command::Get { key, .. } | Command::Watch { key } => self.may_read(key),
            Command::Set { key, .. } | Command::Del { key, .. } | Command::Vdel { key, .. } => {
                self.may_write(key)
            }
            // The one only ends what it had, the other tells nothing of what there is.
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
