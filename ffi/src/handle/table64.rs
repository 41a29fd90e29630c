//! Names of 64 bits: a place in a table, and the generation of the object there.
use super::Object;
use statestore_embed::forks;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

// From the highest bit on: the type, the process that made the object, the generation of the place, the place.
const KIND_BITS: u32 = 6;
const FORK_BITS: u32 = 6;
const GENERATION_BITS: u32 = 28;
const SLOT_BITS: u32 = 24;

const _: () = assert!(usize::BITS == KIND_BITS + FORK_BITS + GENERATION_BITS + SLOT_BITS);

/// Number of places that are left free before one is reused. A stale handle becomes valid again only after its place
/// was used `1 << GENERATION_BITS` times, and therefore after this many times as many objects.
pub(super) const MIN_FREE_SLOTS: usize = 1024;

/// The objects of one type.
#[derive(Debug)]
pub(crate) struct Table<T>(RwLock<TableState<T>>);

#[derive(Debug)]
struct TableState<T> {
    slots: Vec<Slot<T>>,
    /// Maximum number of objects.
    capacity: usize,
    /// Free places. The place that was free for the longest time is used next, so that names are reused late.
    free: VecDeque<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: usize,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    /// Makes a table that holds as many objects as handles can distinguish.
    pub(crate) const fn new() -> Self {
        Self::with_capacity(1 << SLOT_BITS)
    }

    /// Makes a table that holds at most `capacity` objects.
    pub(crate) const fn with_capacity(capacity: usize) -> Self {
        Self(RwLock::new(TableState {
            slots: Vec::new(),
            capacity,
            free: VecDeque::new(),
        }))
    }

    fn write(&self) -> RwLockWriteGuard<'_, TableState<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Table<T> {
    /// Assigns a name to an object; `None` if there are too many.
    pub(super) fn insert(&self, object: Arc<T>) -> Option<usize> {
        let mut places = self.write();
        let parts = places.allocate()?;
        places.slots[parts.slot].object = Some(object);
        Some(parts.pack())
    }

    /// Reserves a name for an object that is made later; `None` if there are too many.
    pub(super) fn reserve(&self) -> Option<usize> {
        Some(self.write().allocate()?.pack())
    }

    /// Stores the object of a reserved name.
    pub(super) fn fill(&self, name: usize, object: Arc<T>) {
        self.write().slots[HandleBits::unpack(name).slot].object = Some(object);
    }

    /// Returns a reserved name that gets no object.
    pub(super) fn release(&self, name: usize) {
        self.write().free.push_back(HandleBits::unpack(name).slot);
    }

    pub(super) fn get(&self, name: usize) -> Option<Arc<T>> {
        let parts = HandleBits::unpack(name);
        let places = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = places.slots.get(parts.slot)?;
        (place.generation == parts.generation)
            .then(|| place.object.clone())
            .flatten()
    }

    pub(super) fn remove(&self, name: usize) -> Option<Arc<T>> {
        let parts = HandleBits::unpack(name);
        let mut places = self.write();
        let place = places.slots.get_mut(parts.slot)?;
        if place.generation != parts.generation {
            return None;
        }
        let object = place.object.take()?;
        place.generation = (place.generation + 1) & mask(GENERATION_BITS);
        places.free.push_back(parts.slot);
        Some(object)
    }

    /// Whether a name may belong to this type.
    pub(super) fn is_of_type(name: usize) -> bool {
        HandleBits::unpack(name).kind == usize::from(T::KIND)
    }

    /// Whether a name was assigned by an ancestor from which this process was forked.
    pub(super) fn is_inherited(name: usize) -> bool {
        HandleBits::unpack(name).fork != current_fork()
    }
}

impl<T: Object> TableState<T> {
    /// Takes a place for an object. Its name is valid as soon as the object is stored. `None` if all places are taken.
    fn allocate(&mut self) -> Option<HandleBits> {
        let place = if self.free.len() < MIN_FREE_SLOTS && self.slots.len() < self.capacity {
            self.slots.push(Slot {
                generation: 0,
                object: None,
            });
            self.slots.len() - 1
        } else {
            self.free.pop_front()?
        };
        Some(HandleBits {
            kind: T::KIND.into(),
            fork: current_fork(),
            generation: self.slots[place].generation,
            slot: place,
        })
    }
}

const fn mask(bits: u32) -> usize {
    (1 << bits) - 1
}

/// The parts of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HandleBits {
    kind: usize,
    fork: usize,
    generation: usize,
    slot: usize,
}

impl HandleBits {
    fn pack(self) -> usize {
        ((self.kind << FORK_BITS | self.fork) << GENERATION_BITS | self.generation) << SLOT_BITS
            | self.slot
    }

    fn unpack(name: usize) -> Self {
        Self {
            slot: name & mask(SLOT_BITS),
            generation: name >> SLOT_BITS & mask(GENERATION_BITS),
            fork: name >> (SLOT_BITS + GENERATION_BITS) & mask(FORK_BITS),
            kind: name >> (SLOT_BITS + GENERATION_BITS + FORK_BITS),
        }
    }
}

fn current_fork() -> usize {
    forks() as usize & mask(FORK_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_handle_bits_unpack_unchanged() {
        let parts = HandleBits {
            kind: mask(KIND_BITS),
            fork: 5,
            generation: mask(GENERATION_BITS),
            slot: 1,
        };
        assert_eq!(HandleBits::unpack(parts.pack()), parts);
    }

    #[test]
    fn a_freed_slot_is_reused_late() {
        struct Lone;
        struct Opaque;
        super::super::object!(Lone, Opaque, 59, "one at a time");
        let table = Lone::table().get();
        let mut last_seen = std::collections::HashMap::new();
        for turn in 0..4 * MIN_FREE_SLOTS {
            let name = table.insert(Arc::new(Lone)).unwrap();
            table.remove(name).unwrap();
            let before = last_seen.insert(HandleBits::unpack(name).slot, turn);
            assert!(
                before.is_none_or(|before| turn - before >= MIN_FREE_SLOTS),
                "used again after {before:?}, in turn {turn}"
            );
        }
        assert_eq!(last_seen.len(), MIN_FREE_SLOTS, "no more places than that");
    }
}
