//! What an export gives: handles and values, through pointers of the caller.
use crate::handle::{self, Object};
use crate::input;
use crate::state::sst_state;
use statestore_core::Error;
use std::mem::MaybeUninit;
use std::ptr;

/// What a caller finds in the place of a result after a failure.
pub(crate) trait Failed {
    const FAILED: Self;
}

impl<T> Failed for *mut T {
    const FAILED: Self = ptr::null_mut();
}

impl Failed for sst_state {
    const FAILED: Self = Self::SST_STATE_UNKNOWN;
}

/// The place of a result, which says from now on that the call failed: it may do so before it looks at its results.
pub(crate) fn failed<T: Failed>(
    mut to: Option<&mut MaybeUninit<T>>,
) -> Option<&mut MaybeUninit<T>> {
    if let Some(to) = &mut to {
        to.write(T::FAILED);
    }
    to
}

/// Where a handle goes. It is NULL until there is one, so that it is NULL after a failure.
pub(crate) struct Out<'a, T: Object>(&'a mut *mut T::Opaque);

impl<'a, T: Object> Out<'a, T> {
    /// One that may not be NULL.
    pub(crate) fn new(
        to: Option<&'a mut MaybeUninit<*mut T::Opaque>>,
        name: &str,
    ) -> Result<Self, Error> {
        Self::optional(to).ok_or_else(|| input::null(name))
    }

    /// One that nobody may want.
    pub(crate) fn optional(to: Option<&'a mut MaybeUninit<*mut T::Opaque>>) -> Option<Self> {
        to.map(|to| Self(to.write(ptr::null_mut())))
    }

    pub(crate) fn give(self, object: T) -> Result<(), Error> {
        *self.0 = handle::new(object)?;
        Ok(())
    }
}

/// Gives an object to those who want it.
pub(crate) fn give<T: Object>(to: Option<Out<'_, T>>, object: Option<T>) -> Result<(), Error> {
    match (to, object) {
        (Some(to), Some(object)) => to.give(object),
        _ => Ok(()),
    }
}

/// Where a value goes, which is first what it is after a failure.
pub(crate) fn place<'a, T>(
    to: Option<&'a mut MaybeUninit<T>>,
    otherwise: T,
    name: &str,
) -> Result<&'a mut T, Error> {
    match to {
        Some(to) => Ok(to.write(otherwise)),
        None => Err(input::null(name)),
    }
}
