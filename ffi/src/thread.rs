//! Threads of the library.
use crate::callback::{Callback, closure};
use crate::infallible;
use statestore_embed::on_thread_start;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, PoisonError};

/// Callback that is called on each thread that the library begins, before anything else there. It can set the name of
/// the thread, its priority, and the processors that it runs on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_thread {
    pub context: *mut c_void,
    /// Called once for each thread, on that thread, one call after the other. The call must be quick and must not call
    /// functions that block.
    ///
    /// `name` is the purpose of the thread, as the system gets it, cut off to 15 bytes:
    ///
    /// - "statestore" for the connections,
    /// - "statestore-calls" for the callbacks of a client,
    /// - "statestore-log" for the log callback,
    /// - "statestore-files" for look-ups of names and reading files,
    /// - "statestore-wait" for calls that wait at the end of the process.
    pub call: Option<unsafe extern "C" fn(context: *mut c_void, name: *const c_char)>,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_thread,
    unsafe extern "C" fn(*mut c_void, *const c_char)
);

/// Sets the callback for the start of each thread that the library begins from now on in this process, in place of the
/// previous one.
///
/// Set it before the first client. With `call` NULL no function is called any more. A forked child has to set its own
/// callback. The previous callback is dropped when its last call has returned.
///
/// The thread for the connections should have at least the priority of the threads that wait for its results.
#[unsafe(no_mangle)]
pub extern "C" fn sst_thread_set(callback: sst_on_thread) {
    let is_none = callback.call.is_none();
    let callback = Mutex::new(Callback::new(callback));
    infallible::run(move || {
        if is_none {
            on_thread_start(None);
            return;
        }
        on_thread_start(Some(Box::new(move |name| {
            let name = CString::new(name).unwrap_or_default();
            let callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the function has that type and gets its own context; the text outlives the call.
            callback.call(|call, context| unsafe { call(context, name.as_ptr()) });
        })));
    });
}
