//! Handles: numbers that look like pointers.
//!
//! A handle names one object in a table, and never another one. A handle that was freed, has another type, or was
//! inherited across a fork is therefore detected before any object is touched.
use statestore_core::Outcome;
use statestore_embed::{Error, ErrorKind, PerProcess};
use std::sync::Arc;
use std::{mem, ptr};

// Tests need both modules on every machine.
#[cfg(any(target_pointer_width = "32", test))]
mod numbers;
#[cfg(target_pointer_width = "64")]
mod places;

#[cfg(target_pointer_width = "32")]
pub(crate) use numbers::Table;
#[cfg(target_pointer_width = "64")]
pub(crate) use places::Table;

/// A type whose objects have handles.
pub(crate) trait Object: Sized + Send + Sync + 'static {
    /// The type in the header.
    type Opaque;
    /// Name of the type in error messages.
    const NAME: &'static str;
    /// Number of the type: unique, and not 0.
    #[cfg_attr(
        target_pointer_width = "32",
        allow(dead_code, reason = "handles of 32 bits do not say what they are of")
    )]
    const KIND: u8;
    /// Returns the table of the objects.
    fn table() -> &'static PerProcess<Table<Self>>;
}

/// Declares the table of a type. Its file declares the type in the header and the function that frees a handle.
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

/// Makes a handle of an object.
pub(crate) fn new<T: Object>(object: T) -> Result<*mut T::Opaque, Error> {
    share(Arc::new(object))
}

/// Makes a handle of an object that may be shared.
pub(crate) fn share<T: Object>(object: Arc<T>) -> Result<*mut T::Opaque, Error> {
    let name = T::table().get().insert(object);
    // The operation that made the object may have been executed.
    name.map(handle::<T>)
        .ok_or_else(|| full::<T>(Outcome::Unknown))
}

/// Converts a name to a handle: a number that is never an address.
fn handle<T: Object>(name: usize) -> *mut T::Opaque {
    ptr::without_provenance_mut(name)
}

/// Reserves a handle for an object that is made later, so that making the handle cannot fail then.
pub(crate) fn reserve<T: Object>() -> Result<Reserved<T>, Error> {
    let table = T::table().get();
    let name = table.reserve();
    let name = name.ok_or_else(|| full::<T>(Outcome::NotDone))?;
    Ok(Reserved { table, name })
}

/// A reserved handle. Dropping it returns the handle unless it was filled.
pub(crate) struct Reserved<T: Object> {
    table: &'static Table<T>,
    name: usize,
}

impl<T: Object> Reserved<T> {
    /// Stores the object and returns its handle.
    pub(crate) fn fill(self, object: T) -> *mut T::Opaque {
        self.table.fill(self.name, Arc::new(object));
        let handle = handle::<T>(self.name);
        // The handle is used, so it must not be returned.
        mem::forget(self);
        handle
    }
}

impl<T: Object> Drop for Reserved<T> {
    fn drop(&mut self) {
        self.table.give_back(self.name);
    }
}

/// Lends an object for the duration of a call; NULL for none.
pub(crate) fn lend<T: Object, R>(
    object: Option<T>,
    call: impl FnOnce(*const T::Opaque) -> R,
) -> Result<R, Error> {
    let handle = object.map_or(Ok(ptr::null_mut()), new)?;
    let result = call(handle);
    free::<T>(handle);
    Ok(result)
}

/// Returns the object of a handle.
pub(crate) fn get<T: Object>(handle: *const T::Opaque) -> Result<Arc<T>, Error> {
    let name = check::<T>(handle.addr())?;
    let object = T::table().get().get(name);
    object.ok_or_else(|| invalid::<T>("it was freed"))
}

/// Frees a handle, and returns its object if the handle was valid. Ignores NULL and handles that were freed before.
pub(crate) fn free<T: Object>(handle: *mut T::Opaque) -> Option<Arc<T>> {
    let name = handle.addr();
    if name == 0 || !Table::<T>::is_of_type(name) || Table::<T>::is_inherited(name) {
        return None;
    }
    T::table().get().remove(name)
}

fn full<T: Object>(outcome: Outcome) -> Error {
    Error::new(
        ErrorKind::QueueFull,
        outcome,
        format!("making {}", T::NAME),
        "there are too many that nobody frees",
    )
}

fn check<T: Object>(name: usize) -> Result<usize, Error> {
    if name == 0 {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            Outcome::NotDone,
            format!("using {}", T::NAME),
            "it is NULL",
        ));
    }
    if !Table::<T>::is_of_type(name) {
        return Err(invalid::<T>("it is something else"));
    }
    if Table::<T>::is_inherited(name) {
        return Err(Error::new(
            ErrorKind::Forked,
            Outcome::NotDone,
            format!("using {}", T::NAME),
            "it belongs to the parent process; connect a new client in this process",
        ));
    }
    Ok(name)
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

        // An object that cannot be lent is an error, not an absent object.
        assert_eq!(
            lend(Some(Few), |_| ()).unwrap_err().kind(),
            ErrorKind::QueueFull
        );
        assert!(lend(None::<Few>, <*const OpaqueFew>::is_null).unwrap());

        // An unused reservation is returned, and so is a freed handle.
        free::<Few>(two).unwrap();
        drop(reserve::<Few>().unwrap());
        let three = new(Few).unwrap();
        assert_eq!(kind(get::<Few>(two)), ErrorKind::InvalidHandle);
        assert!(get::<Few>(three).is_ok());
        assert!(reserve::<Few>().is_err());
    }

    #[test]
    fn a_name_of_32_bits_is_good_until_it_is_freed() {
        static TABLE: numbers::Table<Thing> = numbers::Table::holding(2);
        let (one, two) = (TABLE.insert(Arc::new(Thing)), TABLE.reserve());
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one != 0 && two > one && TABLE.insert(Arc::new(Thing)).is_none());
        assert!(TABLE.get(two).is_none() && TABLE.remove(two).is_none());
        TABLE.fill(two, Arc::new(Thing));
        assert!(TABLE.get(two).is_some() && TABLE.remove(one).is_some());
        assert!(TABLE.get(one).is_none() && TABLE.remove(one).is_none());
        // There is room again, with a new name.
        let three = TABLE.reserve().unwrap();
        assert!(three > two);
        TABLE.give_back(three);
        assert!(TABLE.insert(Arc::new(Thing)).unwrap() > three);
        assert!(!numbers::Table::<Thing>::is_inherited(one));
        assert!(numbers::Table::<Thing>::is_of_type(one));
    }
}
