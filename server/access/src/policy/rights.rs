//! Rights of one session.
use super::GrantedRights;
use statestore_protocol::Command;
use std::sync::Arc;

/// Rights of one session, besides being connected.
#[derive(Debug)]
pub struct Rights {
    /// Rights from templates without tokens, the same for all clients with the same rules.
    common: Arc<GrantedRights>,
    /// Rights from templates with tokens, which are particular to the session.
    personal: Option<Box<GrantedRights>>,
    /// Whether any key may be read or written. Each request checks it.
    may_use_store: bool,
}

impl Rights {
    pub(super) fn new(common: Arc<GrantedRights>, personal: GrantedRights) -> Self {
        let has_keys =
            |allowed: &GrantedRights| !allowed.read.is_empty() || !allowed.write.is_empty();
        Self {
            may_use_store: has_keys(&common) || has_keys(&personal),
            common,
            personal: (!personal.is_empty()).then(|| personal.into()),
        }
    }

    /// Returns rights that allow nothing.
    pub fn none() -> Arc<Self> {
        Arc::new(Self::new(Arc::default(), GrantedRights::default()))
    }

    fn any(&self, allows: impl Fn(&GrantedRights) -> bool) -> bool {
        allows(&self.common) || self.personal.as_deref().is_some_and(allows)
    }

    /// Returns whether the session may publish to an ordinary topic.
    pub fn may_publish(&self, topic: &str) -> bool {
        self.any(|allowed| allowed.publish.contains(topic))
    }

    /// Returns whether the session may subscribe to a filter, and thus to each topic that the filter matches.
    pub fn may_subscribe(&self, filter: &str) -> bool {
        self.any(|allowed| allowed.subscribe.contains(filter))
    }

    /// Returns whether the session may send requests to the store at all.
    pub fn may_use_store(&self) -> bool {
        self.may_use_store
    }

    /// Returns whether the session may see a key, its value and its changes.
    pub fn may_read(&self, key: &[u8]) -> bool {
        self.any(|allowed| allowed.read.contains(key))
    }

    /// Returns whether the session may set and delete a key.
    pub fn may_write(&self, key: &[u8]) -> bool {
        self.any(|allowed| allowed.write.contains(key))
    }

    /// Returns whether the session may send this command. A SCAN and a watch of a pattern are allowed if any key may be
    /// read; the page and the notifications are filtered separately.
    pub fn allows(&self, command: &Command) -> bool {
        match command {
            Command::Get { key, .. } | Command::Watch { key } => self.may_read(key),
            Command::GetMany { keys } => keys.iter().all(|key| self.may_read(key)),
            Command::Set { key, .. } | Command::Del { key, .. } | Command::Vdel { key, .. } => {
                self.may_write(key)
            }
            // These only end a watch of the client, or reveal nothing about entries.
            Command::Unwatch { .. } | Command::UnwatchPattern { .. } | Command::Capabilities => {
                true
            }
            Command::Scan { .. } | Command::WatchPattern { .. } => {
                self.any(|allowed| !allowed.read.is_empty())
            }
            Command::Transact { operations } => {
                operations.iter().all(|it| self.may_write(it.key()))
            }
            _ => false,
        }
    }
}

impl GrantedRights {
    fn is_empty(&self) -> bool {
        self.publish.is_empty()
            && self.subscribe.is_empty()
            && self.read.is_empty()
            && self.write.is_empty()
    }
}
