//! Calls of callbacks with objects.
use crate::callback::{Callback, Closure};
use crate::error::{self, sst_error};
use crate::handle::{self, Object};
use crate::output::FailureValue;
use crate::status::sst_status;
use statestore_core::Outcome;
use statestore_embed::{Error, ErrorKind, HolderResult, StreamEnd};
use std::ffi::c_void;
use std::ptr;

/// The function of a callback that borrows an object.
type BorrowingFn<T> =
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const <T as Object>::Opaque);

/// The function of a callback that takes ownership of an object.
type OwningFn<T> =
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut <T as Object>::Opaque);

/// The function of a callback that receives a value.
type ValueFn<V> = unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, V);

/// Reports a value to a callback, or why there is none.
pub(crate) fn report_value<V, C>(callback: &Callback<C>, result: Result<V, Error>)
where
    V: FailureValue + Copy,
    C: Closure<Call = ValueFn<V>>,
{
    let value = *result.as_ref().unwrap_or(&V::FAILED);
    error::lend(result.err().as_ref(), |status, error| {
        // SAFETY: the function has that type and gets its own context.
        callback.call(|call, context| unsafe { call(context, status, error, value) });
    });
}

/// Lends an object to a callback for the duration of its call, or reports why there is none.
pub(crate) fn lend<T, C>(callback: &Callback<C>, result: Result<Option<T>, Error>)
where
    T: Object,
    C: Closure<Call = BorrowingFn<T>>,
{
    let handle = result.and_then(|object| object.map_or(Ok(ptr::null_mut()), handle::new));
    error::lend(handle.as_ref().err(), |status, error| {
        let handle = handle.as_ref().map_or(ptr::null_mut(), |handle| *handle);
        // SAFETY: the function has that type and gets its own context.
        callback.call(|call, context| unsafe { call(context, status, error, handle) });
        handle::free::<T>(handle);
    });
}

/// Returns the error that reports an end.
pub(crate) fn end_error(end: &StreamEnd) -> Error {
    end.error().unwrap_or_else(|| {
        let reason = "there is nothing more to come";
        Error::new(ErrorKind::Closed, Outcome::NotDone, "observing", reason)
    })
}

/// Reports the end of its stream to a callback, with the reason.
pub(crate) fn report_end<T, C>(callback: &Callback<C>, end: &StreamEnd)
where
    T: Object,
    C: Closure<Call = BorrowingFn<T>>,
{
    let error = end_error(end);
    error::lend_at_end(Some(&error), end.lost_reason(), |status, error| {
        // SAFETY: the function has that type and gets its own context.
        callback.call(|call, context| unsafe { call(context, status, error, ptr::null()) });
    });
}

/// Lends a holder to a callback, or NULL if there is no holder.
pub(crate) fn lend_holder<T, C, H>(callback: &Callback<C>, found: HolderResult<H>)
where
    T: Object + From<H>,
    C: Closure<Call = BorrowingFn<T>>,
{
    lend(callback, found.map(|found| found.map(T::from)));
}

/// Takes ownership of a callback, and returns the function that reports each observed holder to it.
pub(crate) fn report_holders<T, C, H>(
    callback: C,
) -> impl FnMut(Result<HolderResult<H>, &StreamEnd>) + Send + 'static + use<T, C, H>
where
    T: Object + From<H>,
    C: Closure<Call = BorrowingFn<T>> + 'static,
    H: 'static,
{
    let callback = Callback::new(callback);
    move |found| match found {
        Ok(found) => lend_holder::<T, C, H>(&callback, found),
        Err(end) => self::report_end::<T, C>(&callback, end),
    }
}

/// Passes an object to a callback, or reports why there is none. If the callback has no function to call, the handle is
/// freed.
pub(crate) fn pass<T, C>(callback: &Callback<C>, result: Result<T, Error>)
where
    T: Object,
    C: Closure<Call = OwningFn<T>>,
{
    pass_handle::<T, C>(callback, &result.and_then(handle::new));
}

/// Passes the handle of an object to a callback, as [`pass`] does.
pub(crate) fn pass_handle<T, C>(callback: &Callback<C>, handle: &Result<*mut T::Opaque, Error>)
where
    T: Object,
    C: Closure<Call = OwningFn<T>>,
{
    error::lend(handle.as_ref().err(), |status, error| {
        let handle = *handle.as_ref().unwrap_or(&ptr::null_mut());
        let mut is_taken = false;
        callback.call(|call, context| {
            is_taken = true;
            // SAFETY: the function has that type and gets its own context.
            unsafe { call(context, status, error, handle) }
        });
        if !is_taken {
            handle::free::<T>(handle);
        }
    });
}
