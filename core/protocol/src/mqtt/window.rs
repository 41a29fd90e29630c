//! The PUBLISHes with QoS 1 that are not yet acknowledged (MQTT 5, sections 4.4 and 4.9).
use super::PacketId;

/// PUBLISHes in flight, in the order in which they were first sent, each with a `T`.
///
/// At most the peer's Receive Maximum is unacknowledged on one connection. After a reconnect, earlier PUBLISHes are sent
/// again before new ones, in their order and within the new limit. The packet identifiers may be in any order and should
/// be small, as [`PacketIds`](super::PacketIds) allocates them; all operations take constant time.
#[derive(Debug, Clone)]
pub struct Window<T> {
    /// At index `id - 1`.
    slots: Vec<Option<Entry<T>>>,
    oldest: u16,
    newest: u16,
    /// The oldest PUBLISH that has not been sent again on this connection; 0 if there is none.
    resend: u16,
    len: usize,
    outstanding: u16,
    limit: u16,
}

#[derive(Debug, Clone)]
struct Entry<T> {
    value: T,
    older: u16,
    newer: u16,
    /// Sent on this connection.
    sent: bool,
}

impl<T> Window<T> {
    /// Creates an empty window for a peer with this Receive Maximum.
    pub fn new(receive_maximum: u16) -> Self {
        Self {
            slots: Vec::new(),
            oldest: 0,
            newest: 0,
            resend: 0,
            len: 0,
            outstanding: 0,
            limit: receive_maximum,
        }
    }

    /// Returns whether a new PUBLISH may be sent now.
    pub fn has_capacity(&self) -> bool {
        self.resend == 0 && self.outstanding < self.limit
    }
    /// Returns the number of new PUBLISHes that may be sent now.
    pub fn capacity(&self) -> usize {
        if self.has_capacity() {
            usize::from(self.limit - self.outstanding)
        } else {
            0
        }
    }
    /// Returns whether PUBLISHes are to be sent again.
    pub fn has_resend(&self) -> bool {
        self.resend != 0
    }
    /// Returns the number of unacknowledged PUBLISHes, sent on this connection or not.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether all PUBLISHes are acknowledged.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the peer's Receive Maximum.
    pub fn limit(&self) -> u16 {
        self.limit
    }

    /// Adds a PUBLISH that is being sent. Returns the value as an error if there is no room or the identifier is in the window.
    pub fn push(&mut self, id: PacketId, value: T) -> Result<(), T> {
        let index = usize::from(id.get()) - 1;
        if !self.has_capacity() || matches!(self.slots.get(index), Some(Some(_))) {
            return Err(value);
        }
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(Entry {
            value,
            older: self.newest,
            newer: 0,
            sent: true,
        });
        match self.entry(self.newest) {
            Some(newest) => newest.newer = id.get(),
            None => self.oldest = id.get(),
        }
        self.newest = id.get();
        self.len += 1;
        self.outstanding += 1;
        Ok(())
    }

    /// Removes the PUBLISH that a PUBACK names; `None` if it is not in the window.
    pub fn acknowledge(&mut self, id: PacketId) -> Option<T> {
        let entry = self.slots.get_mut(usize::from(id.get()) - 1)?.take()?;
        match self.entry(entry.older) {
            Some(older) => older.newer = entry.newer,
            None => self.oldest = entry.newer,
        }
        match self.entry(entry.newer) {
            Some(newer) => newer.older = entry.older,
            None => self.newest = entry.older,
        }
        if self.resend == id.get() {
            self.resend = entry.newer;
        }
        self.len -= 1;
        if entry.sent {
            self.outstanding -= 1;
        }
        Some(entry.value)
    }

    /// Starts a new connection of the same session: all PUBLISHes are to be sent again, within the new Receive Maximum.
    pub fn reconnected(&mut self, receive_maximum: u16) {
        self.limit = receive_maximum;
        self.outstanding = 0;
        self.resend = self.oldest;
        for entry in self.slots.iter_mut().flatten() {
            entry.sent = false;
        }
    }

    /// Returns the next PUBLISH to be sent again, if the Receive Maximum has room for one.
    pub fn next_resend(&mut self) -> Option<(PacketId, &mut T)> {
        if self.outstanding >= self.limit {
            return None;
        }
        let id = PacketId::new(self.resend)?;
        self.outstanding += 1;
        let entry = self.slots.get_mut(usize::from(id.get()) - 1)?.as_mut()?;
        entry.sent = true;
        self.resend = entry.newer;
        Some((id, &mut entry.value))
    }

    /// Returns the `T` of a PUBLISH in the window, and whether it was sent on this connection.
    pub fn get_mut(&mut self, id: PacketId) -> Option<(bool, &mut T)> {
        let entry = self.slots.get_mut(usize::from(id.get()) - 1)?.as_mut()?;
        Some((entry.sent, &mut entry.value))
    }

    /// Returns each `T` of a PUBLISH that was sent on this connection, in no particular order.
    pub fn sent_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots
            .iter_mut()
            .flatten()
            .filter(|entry| entry.sent)
            .map(|entry| &mut entry.value)
    }

    /// Returns all PUBLISHes, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (PacketId, &T)> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let id = PacketId::new(next)?;
            let entry = self.slots.get(usize::from(id.get()) - 1)?.as_ref()?;
            next = entry.newer;
            Some((id, &entry.value))
        })
    }

    /// Empties the window after the loss of the session, oldest PUBLISH first.
    pub fn drain(&mut self) -> impl Iterator<Item = (PacketId, T)> {
        std::iter::from_fn(move || {
            let id = PacketId::new(self.oldest)?;
            Some((id, self.acknowledge(id)?))
        })
    }

    fn entry(&mut self, id: u16) -> Option<&mut Entry<T>> {
        let id = PacketId::new(id)?;
        self.slots.get_mut(usize::from(id.get()) - 1)?.as_mut()
    }
}
