//! Names of 64 bits: a place in a table, and the generation of the object there.
use super::Object;
use statestore_embed::forks;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

// From the highest bit on: the type, the process that made the object, the generation of the place, the place.
const KIND_BITS: u32 = 6;
const FORK_BITS: u32 = 6;
const GENERATION_BITS: u32 = 28;
const PLACE_BITS: u32 = 24;

const _: () = assert!(usize::BITS == KIND_BITS + FORK_BITS + GENERATION_BITS + PLACE_BITS);

/// Number of places that are left free before one is reused. A stale handle becomes valid again only after its place
/// was used `1 << GENERATION_BITS` times, and therefore after this many times as many objects.
pub(super) const FREE: usize = 1024;

/// The objects of one type.
#[derive(Debug)]
pub(crate) struct Table<T>(RwLock<Places<T>>);

#[derive(Debug)]
struct Places<T> {
    all: Vec<Place<T>>,
    /// Maximum number of objects.
    most: usize,
    /// Free places. The place that was free for the longest time is used next, so that names are reused late.
    free: VecDeque<usize>,
}

#[derive(Debug)]
struct Place<T> {
    generation: usize,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    /// Makes a table that holds as many objects as handles can distinguish.
    pub(crate) const fn new() -> Self {
        Self::holding(1 << PLACE_BITS)
    }

    /// Makes a table that holds at most `most` objects.
    pub(crate) const fn holding(most: usize) -> Self {
        Self(RwLock::new(Places {
            all: Vec::new(),
            most,
            free: VecDeque::new(),
        }))
    }

    fn write(&self) -> RwLockWriteGuard<'_, Places<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Table<T> {
    /// Assigns a name to an object; `None` if there are too many.
    pub(super) fn insert(&self, object: Arc<T>) -> Option<usize> {
        let mut places = self.write();
        let parts = places.take()?;
        places.all[parts.place].object = Some(object);
        Some(parts.pack())
    }

    /// Reserves a name for an object that is made later; `None` if there are too many.
    pub(super) fn reserve(&self) -> Option<usize> {
        Some(self.write().take()?.pack())
    }

    /// Stores the object of a reserved name.
    pub(super) fn fill(&self, name: usize, object: Arc<T>) {
        self.write().all[Parts::unpack(name).place].object = Some(object);
    }

    /// Returns a reserved name that gets no object.
    pub(super) fn give_back(&self, name: usize) {
        self.write().free.push_back(Parts::unpack(name).place);
    }

    pub(super) fn get(&self, name: usize) -> Option<Arc<T>> {
        let parts = Parts::unpack(name);
        let places = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = places.all.get(parts.place)?;
        (place.generation == parts.generation)
            .then(|| place.object.clone())
            .flatten()
    }

    pub(super) fn remove(&self, name: usize) -> Option<Arc<T>> {
        let parts = Parts::unpack(name);
        let mut places = self.write();
        let place = places.all.get_mut(parts.place)?;
        if place.generation != parts.generation {
            return None;
        }
        let object = place.object.take()?;
        place.generation = (place.generation + 1) & mask(GENERATION_BITS);
        places.free.push_back(parts.place);
        Some(object)
    }

    /// Whether a name may belong to this type.
    pub(super) fn is_of_type(name: usize) -> bool {
        Parts::unpack(name).kind == usize::from(T::KIND)
    }

    /// Whether a name was assigned by an ancestor from which this process was forked.
    pub(super) fn is_inherited(name: usize) -> bool {
        Parts::unpack(name).fork != this_fork()
    }
}

impl<T: Object> Places<T> {
    /// Takes a place for an object. Its name is valid as soon as the object is stored. `None` if all places are taken.
    fn take(&mut self) -> Option<Parts> {
        let place = if self.free.len() < FREE && self.all.len() < self.most {
            self.all.push(Place {
                generation: 0,
                object: None,
            });
            self.all.len() - 1
        } else {
            self.free.pop_front()?
        };
        Some(Parts {
            kind: T::KIND.into(),
            fork: this_fork(),
            generation: self.all[place].generation,
            place,
        })
    }
}

const fn mask(bits: u32) -> usize {
    (1 << bits) - 1
}

/// The parts of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    kind: usize,
    fork: usize,
    generation: usize,
    place: usize,
}

impl Parts {
    fn pack(self) -> usize {
        ((self.kind << FORK_BITS | self.fork) << GENERATION_BITS | self.generation) << PLACE_BITS
            | self.place
    }

    fn unpack(name: usize) -> Self {
        Self {
            place: name & mask(PLACE_BITS),
            generation: name >> PLACE_BITS & mask(GENERATION_BITS),
            fork: name >> (PLACE_BITS + GENERATION_BITS) & mask(FORK_BITS),
            kind: name >> (PLACE_BITS + GENERATION_BITS + FORK_BITS),
        }
    }
}

fn this_fork() -> usize {
    forks() as usize & mask(FORK_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_name_come_back() {
        let parts = Parts {
            kind: mask(KIND_BITS),
            fork: 5,
            generation: mask(GENERATION_BITS),
            place: 1,
        };
        assert_eq!(Parts::unpack(parts.pack()), parts);
    }

    #[test]
    fn a_place_is_left_free_for_long() {
        struct Lone;
        struct Opaque;
        super::super::object!(Lone, Opaque, 59, "one at a time");
        let table = Lone::table().get();
        let mut last_seen = std::collections::HashMap::new();
        for turn in 0..4 * FREE {
            let name = table.insert(Arc::new(Lone)).unwrap();
            table.remove(name).unwrap();
            let before = last_seen.insert(Parts::unpack(name).place, turn);
            assert!(
                before.is_none_or(|before| turn - before >= FREE),
                "used again after {before:?}, in turn {turn}"
            );
        }
        assert_eq!(last_seen.len(), FREE, "no more places than that");
    }
}
