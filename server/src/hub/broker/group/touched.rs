//! Watches, and clients, that the log was about since the keeper was asked for what it knows: of these this server knows more than what
//! it will be told.
use crate::budget::{Charge, Gauge};
use bytes::Bytes;
use std::collections::HashSet;
use std::sync::Arc;

/// Memory of one besides its key.
const ONE_BYTES: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Touched {
    watches: HashSet<(Arc<str>, Bytes)>,
    clients: HashSet<Arc<str>>,
    charge: Option<Charge>,
}

impl Touched {
    /// The log was about a watch.
    pub(super) fn watch(&mut self, client: &Arc<str>, key: &Bytes, gauge: &Gauge) {
        let watch = (Arc::clone(client), key.clone());
        if !self.watches.contains(&watch) {
            // Otherwise it would keep the whole message.
            let key = Bytes::copy_from_slice(key);
            self.grow(key.len(), gauge);
            self.watches.insert((watch.0, key));
        }
    }

    /// All watches of a client have ended.
    pub(super) fn client(&mut self, client: Arc<str>, gauge: &Gauge) {
        let bytes = client.len();
        if self.clients.insert(client) {
            self.grow(bytes, gauge);
        }
    }

    fn grow(&mut self, bytes: usize, gauge: &Gauge) {
        let charge = self.charge.get_or_insert_with(|| Charge::new(gauge, 0));
        charge.set(charge.bytes() + bytes + ONE_BYTES);
    }

    /// Whether what the keeper says of a watch is out of date.
    pub(super) fn has(&self, client: &Arc<str>, key: &Bytes) -> bool {
        self.clients.contains(client) || self.watches.contains(&(Arc::clone(client), key.clone()))
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.charge.as_ref().map_or(0, Charge::bytes)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
