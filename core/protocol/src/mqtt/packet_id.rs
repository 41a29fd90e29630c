//! Packet identifiers (MQTT 5, section 2.2.1).
use std::num::NonZeroU16;

/// Names a packet until it is acknowledged; never 0.
pub type PacketId = NonZeroU16;

/// Hands out packet identifiers, each to one packet at a time.
///
/// All operations take constant time. A returned identifier is given out again last, and memory follows the most that
/// were in use at a time: two bytes each.
#[derive(Debug, Clone, Default)]
pub struct PacketIds {
    /// For each identifier, at index `id - 1`: itself if it is in use, else the free one after it, or 0.
    links: Vec<u16>,
    first_free: u16,
    last_free: u16,
    in_use: usize,
}

impl PacketIds {
    /// Creates a set in which all identifiers are free.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates an unused identifier; `None` if all 65,535 are in use.
    pub fn allocate(&mut self) -> Option<PacketId> {
        let id = if let Some(id) = PacketId::new(self.first_free) {
            let link = self.link(id)?;
            self.first_free = *link;
            *self.link(id)? = id.get();
            if self.first_free == 0 {
                self.last_free = 0;
            }
            id
        } else {
            let id = PacketId::new(u16::try_from(self.links.len() + 1).ok()?)?;
            self.links.push(id.get());
            id
        };
        self.in_use += 1;
        Some(id)
    }

    /// Takes an identifier back; `false` if it is not in use.
    pub fn release(&mut self, id: PacketId) -> bool {
        if !self.is_in_use(id) {
            return false;
        }
        if let Some(link) = self.link(id) {
            *link = 0;
        }
        match PacketId::new(self.last_free).and_then(|last| self.link(last)) {
            Some(last) => *last = id.get(),
            None => self.first_free = id.get(),
        }
        self.last_free = id.get();
        self.in_use -= 1;
        true
    }

    /// Returns whether it was allocated and not released.
    pub fn is_in_use(&self, id: PacketId) -> bool {
        self.links.get(usize::from(id.get()) - 1) == Some(&id.get())
    }

    /// Returns the number of identifiers in use.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    fn link(&mut self, id: PacketId) -> Option<&mut u16> {
        self.links.get_mut(usize::from(id.get()) - 1)
    }
}
