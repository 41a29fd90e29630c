//! Results of exports: handles and values, written through pointers of the caller.
use crate::handle::{self, Object};
use crate::input::{self, SizedStruct};
use statestore_embed::Error;
use std::mem::{MaybeUninit, size_of};
use std::ptr;

/// A type with a value that a result has after a failure.
pub(crate) trait FailureValue {
    const FAILED: Self;
}

impl<T> FailureValue for *mut T {
    const FAILED: Self = ptr::null_mut();
}

impl FailureValue for bool {
    const FAILED: Self = false;
}

impl FailureValue for u64 {
    const FAILED: Self = 0;
}

impl FailureValue for i64 {
    const FAILED: Self = 0;
}

/// Initializes a result with the value after a failure, since a call may fail before it uses its results.
pub(crate) fn init_failed<T: FailureValue>(
    mut to: Option<&mut MaybeUninit<T>>,
) -> Option<&mut MaybeUninit<T>> {
    if let Some(to) = &mut to {
        to.write(T::FAILED);
    }
    to
}

/// The place for a handle. It is NULL until there is a handle, and therefore NULL after a failure.
pub(crate) struct HandleOut<'a, T: Object>(&'a mut *mut T::Opaque);

impl<'a, T: Object> HandleOut<'a, T> {
    /// Makes a place that may not be NULL.
    pub(crate) fn new(
        to: Option<&'a mut MaybeUninit<*mut T::Opaque>>,
        name: &str,
    ) -> Result<Self, Error> {
        Self::optional(to).ok_or_else(|| input::null(name))
    }

    /// Makes a place that may be NULL.
    pub(crate) fn optional(to: Option<&'a mut MaybeUninit<*mut T::Opaque>>) -> Option<Self> {
        to.map(|to| Self(to.write(ptr::null_mut())))
    }

    pub(crate) fn write(self, object: T) -> Result<(), Error> {
        *self.0 = handle::new(object)?;
        Ok(())
    }
}

/// Begins something, and writes its handle if the caller wants one. The handle is reserved before: once it has begun,
/// nothing can fail.
pub(crate) fn begin<T: Object>(
    to: Option<HandleOut<'_, T>>,
    begin: impl FnOnce() -> Result<T, Error>,
) -> Result<(), Error> {
    let Some(to) = to else {
        return begin().map(drop);
    };
    let place = handle::reserve()?;
    *to.0 = place.fill(begin()?);
    Ok(())
}

/// Writes a handle of an object if the caller wants one.
pub(crate) fn write_optional<T: Object>(
    to: Option<HandleOut<'_, T>>,
    object: Option<T>,
) -> Result<(), Error> {
    match (to, object) {
        (Some(to), Some(object)) => to.write(object),
        _ => Ok(()),
    }
}

/// Fills a struct of the caller up to its size; unknown fields become zero. `make` receives that size.
///
/// # Safety `to` is NULL or points to as many bytes as the size in it says.
pub(crate) unsafe fn fill<T: SizedStruct>(
    to: *mut T,
    name: &str,
    make: impl FnOnce(usize) -> Result<T, Error>,
) -> Result<(), Error> {
    if to.is_null() {
        return Err(input::null(name));
    }
    // SAFETY: the pointer is not NULL, and by the contract the struct begins with its size.
    let size = unsafe { input::size(to.cast(), T::NAME) }?;
    let known = make(size)?;
    let common = size.min(size_of::<T>());
    // SAFETY: by the contract there are `size` bytes. The first are filled from a struct that is at least as long, and
    // the rest become zero.
    unsafe {
        ptr::copy_nonoverlapping((&raw const known).cast::<u8>(), to.cast(), common);
        to.cast::<u8>().add(common).write_bytes(0, size - common);
    }
    Ok(())
}

/// Initializes the place for a value with its value after a failure.
pub(crate) fn init_with<'a, T>(
    to: Option<&'a mut MaybeUninit<T>>,
    otherwise: T,
    name: &str,
) -> Result<&'a mut T, Error> {
    match to {
        Some(to) => Ok(to.write(otherwise)),
        None => Err(input::null(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Table;
    use statestore_core::Outcome;
    use statestore_embed::{ErrorKind, PerProcess};

    struct SingleObject;
    struct OpaqueSingleObject;
    impl Object for SingleObject {
        type Opaque = OpaqueSingleObject;
        const NAME: &'static str = "the only one";
        const KIND: u8 = 60;
        fn table() -> &'static PerProcess<Table<Self>> {
            static TABLE: PerProcess<Table<SingleObject>> =
                PerProcess::new(Table::with_capacity(1), || Table::with_capacity(1));
            &TABLE
        }
    }

    #[test]
    fn an_operation_does_not_begin_without_a_free_handle() {
        let mut first = MaybeUninit::uninit();
        let failure = || Error::new(ErrorKind::Closed, Outcome::NotDone, "beginning", "closed");
        let failed =
            begin::<SingleObject>(HandleOut::optional(Some(&mut first)), || Err(failure()));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Closed);
        // The reservation was returned.
        begin(HandleOut::optional(Some(&mut first)), || Ok(SingleObject)).unwrap();

        let mut second = MaybeUninit::uninit();
        let full = begin::<SingleObject>(HandleOut::optional(Some(&mut second)), || unreachable!());
        assert_eq!(full.unwrap_err().kind(), ErrorKind::QueueFull);
        // A caller that wants no handle needs no reservation.
        begin(None, || Ok(SingleObject)).unwrap();
        // SAFETY: both were initialized when they became places for a handle.
        let (first, second) = unsafe { (first.assume_init(), second.assume_init()) };
        assert!(second.is_null());
        assert!(handle::free::<SingleObject>(first).is_some());
    }
}
