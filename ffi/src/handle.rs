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
mod table32;
#[cfg(target_pointer_width = "64")]
mod table64;

#[cfg(target_pointer_width = "32")]
pub(crate) use table32::Table;
#[cfg(target_pointer_width = "64")]
pub(crate) use table64::Table;

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
        .ok_or_else(|| table_full::<T>(Outcome::Unknown))
}

/// Converts a name to a handle: a number that is never an address.
fn handle<T: Object>(name: usize) -> *mut T::Opaque {
    ptr::without_provenance_mut(name)
}

/// Reserves a handle for an object that is made later, so that making the handle cannot fail then.
pub(crate) fn reserve<T: Object>() -> Result<ReservedHandle<T>, Error> {
    let table = T::table().get();
    let name = table.reserve();
    let name = name.ok_or_else(|| table_full::<T>(Outcome::NotDone))?;
    Ok(ReservedHandle { table, name })
}

/// A reserved handle. Dropping it returns the handle unless it was filled.
pub(crate) struct ReservedHandle<T: Object> {
    table: &'static Table<T>,
    name: usize,
}

impl<T: Object> ReservedHandle<T> {
    /// Stores the object and returns its handle.
    pub(crate) fn fill(self, object: T) -> *mut T::Opaque {
        self.table.fill(self.name, Arc::new(object));
        let handle = handle::<T>(self.name);
        // The handle is used, so it must not be returned.
        mem::forget(self);
        handle
    }
}

impl<T: Object> Drop for ReservedHandle<T> {
    fn drop(&mut self) {
        self.table.release(self.name);
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

fn table_full<T: Object>(outcome: Outcome) -> Error {
    Error::new(
        ErrorKind::QueueFull,
        outcome,
        format!("making {}", T::NAME),
        "too many objects exist; free those that are not needed",
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

    struct TestObject;
    struct Opaque;
    object!(TestObject, Opaque, 61, "a thing");

    struct OtherObject;
    struct OpaqueOther;
    object!(OtherObject, OpaqueOther, 62, "another thing");

    struct LimitedObject;
    struct OpaqueLimited;
    impl Object for LimitedObject {
        type Opaque = OpaqueLimited;
        const NAME: &'static str = "one of a few";
        const KIND: u8 = 63;
        fn table() -> &'static PerProcess<Table<Self>> {
            static TABLE: PerProcess<Table<LimitedObject>> =
                PerProcess::new(Table::with_capacity(2), || Table::with_capacity(2));
            &TABLE
        }
    }

    fn kind<T>(result: Result<Arc<T>, Error>) -> ErrorKind {
        result.err().unwrap().kind()
    }

    #[test]
    fn a_handle_is_valid_until_it_is_freed() {
        let one = new(TestObject).unwrap();
        let two = new(TestObject).unwrap();
        assert_ne!(one, two);
        assert!(get::<TestObject>(one).is_ok());
        assert!(free::<TestObject>(one).is_some());
        assert!(
            free::<TestObject>(one).is_none(),
            "a second time changes nothing"
        );
        assert_eq!(kind(get::<TestObject>(one)), ErrorKind::InvalidHandle);
        let three = new(TestObject).unwrap();
        assert_ne!(one, three);
        assert!(free::<TestObject>(one).is_none());
        assert!(get::<TestObject>(three).is_ok() && get::<TestObject>(two).is_ok());
    }

    #[test]
    fn a_handle_of_another_type_is_rejected() {
        let other = new(OtherObject).unwrap();
        assert_eq!(
            kind(get::<TestObject>(other.cast())),
            ErrorKind::InvalidHandle
        );
        assert_eq!(
            kind(get::<TestObject>(ptr::null())),
            ErrorKind::InvalidArgument
        );
        let heap = Box::new(0_u64);
        assert_eq!(
            kind(get::<TestObject>(ptr::from_ref(&*heap).cast())),
            ErrorKind::InvalidHandle
        );
        assert!(free::<TestObject>(ptr::null_mut()).is_none());
    }

    #[test]
    fn a_reserved_handle_can_be_filled_when_the_table_is_full() {
        let one = new(LimitedObject).unwrap();
        let reserved = reserve::<LimitedObject>().unwrap();
        for full in [new(LimitedObject).err(), reserve::<LimitedObject>().err()] {
            assert_eq!(full.unwrap().kind(), ErrorKind::QueueFull);
        }
        assert_eq!(
            reserve::<LimitedObject>().err().unwrap().outcome(),
            Outcome::NotDone,
            "nothing was begun"
        );
        let two = reserved.fill(LimitedObject);
        assert_ne!(one, two);
        assert!(get::<LimitedObject>(one).is_ok() && get::<LimitedObject>(two).is_ok());

        // An object that cannot be lent is an error, not an absent object.
        assert_eq!(
            lend(Some(LimitedObject), |_| ()).unwrap_err().kind(),
            ErrorKind::QueueFull
        );
        assert!(lend(None::<LimitedObject>, <*const OpaqueLimited>::is_null).unwrap());

        // An unused reservation is returned, and so is a freed handle.
        free::<LimitedObject>(two).unwrap();
        drop(reserve::<LimitedObject>().unwrap());
        let three = new(LimitedObject).unwrap();
        assert_eq!(kind(get::<LimitedObject>(two)), ErrorKind::InvalidHandle);
        assert!(get::<LimitedObject>(three).is_ok());
        assert!(reserve::<LimitedObject>().is_err());
    }

    #[test]
    fn a_32_bit_handle_is_valid_until_it_is_freed() {
        static TABLE: table32::Table<TestObject> = table32::Table::with_capacity(2);
        let (one, two) = (TABLE.insert(Arc::new(TestObject)), TABLE.reserve());
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one != 0 && two > one && TABLE.insert(Arc::new(TestObject)).is_none());
        assert!(TABLE.get(two).is_none() && TABLE.remove(two).is_none());
        TABLE.fill(two, Arc::new(TestObject));
        assert!(TABLE.get(two).is_some() && TABLE.remove(one).is_some());
        assert!(TABLE.get(one).is_none() && TABLE.remove(one).is_none());
        // There is room again, with a new name.
        let three = TABLE.reserve().unwrap();
        assert!(three > two);
        TABLE.release(three);
        assert!(TABLE.insert(Arc::new(TestObject)).unwrap() > three);
        assert!(!table32::Table::<TestObject>::is_inherited(one));
        assert!(table32::Table::<TestObject>::is_of_type(one));
    }
}
