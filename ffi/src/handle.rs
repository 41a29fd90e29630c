//! Handles: numbers that look like pointers.
//!
//! A handle names a place in a table and which of the objects that have been there it means. So one that was freed, or is
//! of another type, or was inherited by a fork, is found out before anything is touched.
use statestore_core::Outcome;
use statestore_embed::{Error, ErrorKind, PerProcess, forks};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{mem, ptr};

// From the highest bit on: what it is, in which process it was made, the how-manieth object in its place, its place.
const KIND_BITS: u32 = 6;
const FORK_BITS: u32 = 6;
const GENERATION_BITS: u32 = 28;
const PLACE_BITS: u32 = 24;

const _: () = assert!(
    usize::BITS == KIND_BITS + FORK_BITS + GENERATION_BITS + PLACE_BITS,
    "handles need pointers of 64 bits"
);

/// How many places are left free before one is used again. A stale handle would be good again after its place was used
/// `1 << GENERATION_BITS` times, and so after as many objects times this.
const FREE: usize = 1024;

/// A type of which there are handles.
pub(crate) trait Object: Sized + Send + Sync + 'static {
    /// The type in the header.
    type Opaque;
    /// What it is, in messages.
    const NAME: &'static str;
    /// A number that no other type has; not 0.
    const KIND: u8;
    /// Where the objects are.
    fn table() -> &'static PerProcess<Table<Self>>;
}

/// Declares the table of a type, the type in the header, and the function that frees a handle is left to its file.
macro_rules! object {
    ($type:ty, $opaque:ident, $kind:literal, $name:literal) => {
        impl $crate::handle::Object for $type {
            type Opaque = $opaque;
            const NAME: &'static str = $name;
            const KIND: u8 = $kind;
            fn table() -> &'static statestore_embed::PerProcess<$crate::handle::Table<Self>> {
                static TABLE: statestore_embed::PerProcess<$crate::handle::Table<$type>> =
                    statestore_embed::PerProcess::new(
                        $crate::handle::Table::new(),
                        $crate::handle::Table::new,
                    );
                &TABLE
            }
        }
    };
}
pub(crate) use object;

/// The objects of one type.
#[derive(Debug)]
pub(crate) struct Table<T>(RwLock<Places<T>>);

#[derive(Debug)]
struct Places<T> {
    all: Vec<Place<T>>,
    /// How many there may be.
    most: usize,
    /// The place that was free for the longest time is the next one, so that numbers come back late.
    free: VecDeque<usize>,
}

#[derive(Debug)]
struct Place<T> {
    generation: usize,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    /// As many as handles can tell apart.
    pub(crate) const fn new() -> Self {
        Self::holding(1 << PLACE_BITS)
    }

    /// No more than `most`.
    pub(crate) const fn holding(most: usize) -> Self {
        Self(RwLock::new(Places {
            all: Vec::new(),
            most,
            free: VecDeque::new(),
        }))
    }

    fn read(&self) -> RwLockReadGuard<'_, Places<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Places<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Places<T> {
    /// A place for an object; its handle is good as soon as the object is there. `None` if all are taken.
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

/// What a handle says.
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

    fn unpack(handle: usize) -> Self {
        Self {
            place: handle & mask(PLACE_BITS),
            generation: handle >> PLACE_BITS & mask(GENERATION_BITS),
            fork: handle >> (PLACE_BITS + GENERATION_BITS) & mask(FORK_BITS),
            kind: handle >> (PLACE_BITS + GENERATION_BITS + FORK_BITS),
        }
    }

    fn handle<T: Object>(self) -> *mut T::Opaque {
        ptr::without_provenance_mut(self.pack())
    }

    /// Whether it says that it means a `T`; NULL does not.
    fn is_of<T: Object>(self) -> bool {
        self.kind == usize::from(T::KIND)
    }
}

fn this_fork() -> usize {
    forks() as usize & mask(FORK_BITS)
}

/// A new handle of an object.
pub(crate) fn new<T: Object>(object: T) -> Result<*mut T::Opaque, Error> {
    share(Arc::new(object))
}

/// A new handle of an object that others may have as well.
pub(crate) fn share<T: Object>(object: Arc<T>) -> Result<*mut T::Opaque, Error> {
    let mut table = T::table().get().write();
    // What the object stands for may have happened.
    let parts = table.take().ok_or_else(|| full::<T>(Outcome::Unknown))?;
    table.all[parts.place].object = Some(object);
    Ok(parts.handle::<T>())
}

/// Takes the place of an object that is yet to be made, so that its handle cannot fail any more.
pub(crate) fn reserve<T: Object>() -> Result<Reserved<T>, Error> {
    let table = T::table().get();
    let parts = table.write().take();
    let parts = parts.ok_or_else(|| full::<T>(Outcome::NotDone))?;
    Ok(Reserved { table, parts })
}

/// The place of an object that is yet to be made. Unless it is filled, it is given back.
pub(crate) struct Reserved<T: Object> {
    table: &'static Table<T>,
    parts: Parts,
}

impl<T: Object> Reserved<T> {
    /// The handle of the object.
    pub(crate) fn fill(self, object: T) -> *mut T::Opaque {
        self.table.write().all[self.parts.place].object = Some(Arc::new(object));
        let handle = self.parts.handle::<T>();
        // There is nothing to give back.
        mem::forget(self);
        handle
    }
}

impl<T: Object> Drop for Reserved<T> {
    fn drop(&mut self) {
        self.table.write().free.push_back(self.parts.place);
    }
}

/// Lends an object for the time of a call; NULL for none.
pub(crate) fn lend<T: Object, R>(
    object: Option<T>,
    call: impl FnOnce(*const T::Opaque) -> R,
) -> Result<R, Error> {
    let handle = object.map_or(Ok(ptr::null_mut()), new)?;
    let result = call(handle);
    free::<T>(handle);
    Ok(result)
}

/// The object of a handle.
pub(crate) fn get<T: Object>(handle: *const T::Opaque) -> Result<Arc<T>, Error> {
    let parts = check::<T>(handle.addr())?;
    let table = T::table().get().read();
    let object = table
        .all
        .get(parts.place)
        .filter(|place| place.generation == parts.generation)
        .and_then(|place| place.object.clone());
    drop(table);
    object.ok_or_else(|| invalid::<T>("it was freed"))
}

/// Frees a handle; its object, if the handle was good. NULL, and what was freed before, is left alone.
pub(crate) fn free<T: Object>(handle: *mut T::Opaque) -> Option<Arc<T>> {
    let parts = Parts::unpack(handle.addr());
    if !parts.is_of::<T>() || parts.fork != this_fork() {
        return None;
    }
    let mut table = T::table().get().write();
    let place = table.all.get_mut(parts.place)?;
    if place.generation != parts.generation {
        return None;
    }
    let object = place.object.take()?;
    place.generation = (place.generation + 1) & mask(GENERATION_BITS);
    table.free.push_back(parts.place);
    Some(object)
}

fn full<T: Object>(outcome: Outcome) -> Error {
    Error::new(
        ErrorKind::QueueFull,
        outcome,
        format!("making {}", T::NAME),
        "there are too many that nobody frees",
    )
}

fn check<T: Object>(handle: usize) -> Result<Parts, Error> {
    if handle == 0 {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            Outcome::NotDone,
            format!("using {}", T::NAME),
            "it is NULL",
        ));
    }
    let parts = Parts::unpack(handle);
    if !parts.is_of::<T>() {
        return Err(invalid::<T>("it is something else"));
    }
    if parts.fork != this_fork() {
        return Err(Error::new(
            ErrorKind::Forked,
            Outcome::NotDone,
            format!("using {}", T::NAME),
            "it belongs to the parent process; connect a new client in this process",
        ));
    }
    Ok(parts)
}

fn invalid<T: Object>(reason: &str) -> Error {
    Error::new(
        ErrorKind::InvalidHandle,
        Outcome::NotDone,
        format!("using {}", T::NAME),
        reason,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing;
    struct Opaque;
    object!(Thing, Opaque, 61, "a thing");

    struct Other;
    struct OpaqueOther;
    object!(Other, OpaqueOther, 62, "another thing");

    struct Few;
    struct OpaqueFew;
    impl Object for Few {
        type Opaque = OpaqueFew;
        const NAME: &'static str = "one of a few";
        const KIND: u8 = 63;
        fn table() -> &'static PerProcess<Table<Self>> {
            static TABLE: PerProcess<Table<Few>> =
                PerProcess::new(Table::holding(2), || Table::holding(2));
            &TABLE
        }
    }

    fn kind<T>(result: Result<Arc<T>, Error>) -> ErrorKind {
        result.err().unwrap().kind()
    }

    #[test]
    fn a_handle_is_good_until_it_is_freed() {
        let one = new(Thing).unwrap();
        let two = new(Thing).unwrap();
        assert_ne!(one, two);
        assert!(get::<Thing>(one).is_ok());
        assert!(free::<Thing>(one).is_some());
        assert!(
            free::<Thing>(one).is_none(),
            "a second time changes nothing"
        );
        assert_eq!(kind(get::<Thing>(one)), ErrorKind::InvalidHandle);
        let three = new(Thing).unwrap();
        assert_ne!(one, three);
        assert!(free::<Thing>(one).is_none());
        assert!(get::<Thing>(three).is_ok() && get::<Thing>(two).is_ok());
    }

    #[test]
    fn a_place_is_left_free_for_long() {
        struct Lone;
        struct OpaqueLone;
        object!(Lone, OpaqueLone, 59, "one at a time");
        let mut last_seen = std::collections::HashMap::new();
        for turn in 0..4 * FREE {
            let handle = new(Lone).unwrap();
            free::<Lone>(handle).unwrap();
            let before = last_seen.insert(Parts::unpack(handle.addr()).place, turn);
            assert!(
                before.is_none_or(|before| turn - before >= FREE),
                "used again after {before:?}, in turn {turn}"
            );
        }
        assert_eq!(last_seen.len(), FREE, "no more places than that");
    }

    #[test]
    fn what_is_no_handle_of_the_type_is_refused() {
        let other = new(Other).unwrap();
        assert_eq!(kind(get::<Thing>(other.cast())), ErrorKind::InvalidHandle);
        assert_eq!(kind(get::<Thing>(ptr::null())), ErrorKind::InvalidArgument);
        let heap = Box::new(0_u64);
        assert_eq!(
            kind(get::<Thing>(ptr::from_ref(&*heap).cast())),
            ErrorKind::InvalidHandle
        );
        assert!(free::<Thing>(ptr::null_mut()).is_none());
    }

    #[test]
    fn what_is_reserved_is_there_when_it_is_needed() {
        let one = new(Few).unwrap();
        let reserved = reserve::<Few>().unwrap();
        for full in [new(Few).err(), reserve::<Few>().err()] {
            assert_eq!(full.unwrap().kind(), ErrorKind::QueueFull);
        }
        assert_eq!(
            reserve::<Few>().err().unwrap().outcome(),
            Outcome::NotDone,
            "nothing was begun"
        );
        let two = reserved.fill(Few);
        assert_ne!(one, two);
        assert!(get::<Few>(one).is_ok() && get::<Few>(two).is_ok());

        // What cannot be lent is not taken for something that is absent.
        assert_eq!(
            lend(Some(Few), |_| ()).unwrap_err().kind(),
            ErrorKind::QueueFull
        );
        assert!(lend(None::<Few>, <*const OpaqueFew>::is_null).unwrap());

        // A place that is not needed is given back, and so is that of a handle.
        free::<Few>(two).unwrap();
        drop(reserve::<Few>().unwrap());
        let three = new(Few).unwrap();
        assert_eq!(kind(get::<Few>(two)), ErrorKind::InvalidHandle);
        assert!(get::<Few>(three).is_ok());
        assert!(reserve::<Few>().is_err());
    }

    #[test]
    fn the_parts_of_a_handle_come_back() {
        let parts = Parts {
            kind: mask(KIND_BITS),
            fork: 5,
            generation: mask(GENERATION_BITS),
            place: 1,
        };
        assert_eq!(Parts::unpack(parts.pack()), parts);
    }
}
