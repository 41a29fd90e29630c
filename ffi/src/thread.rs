//! Threads of the library.
use crate::boundary;
use crate::callback::{Callback, closure};
use statestore_embed::on_thread_start;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, PoisonError};

/// Is called on each thread that the library begins, before anything else there: for its name, its priority, the
/// processors that it runs on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_thread {
    pub context: *mut c_void,
    /// Called once for each thread, on that thread, one call after the other. `name` says what it is for, as the system is
    /// told it, cut off to 15 bytes: "statestore" for the connections, "statestore-calls" for the callbacks of a client,
    /// "statestore-log", "statestore-files" for look-ups of names and reading files, "statestore-wait" for calls that wait
    /// at the end of the process. The call must be quick and must not call what blocks.
    pub call: Option<unsafe extern "C" fn(context: *mut c_void, name: *const c_char)>,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_thread,
    unsafe extern "C" fn(*mut c_void, *const c_char)
);

/// Has a callback called at the start of each thread that the library begins from now on in this process; in place of
/// the one that was set before. Set it before the first client. With `call` NULL nobody is called any more. A forked
/// child has to set it anew.
///
/// The thread for the connections should have at least the priority of those that wait for its results. The one before
/// is dropped when its last call has returned.
#[unsafe(no_mangle)]
pub extern "C" fn sst_thread_set(callback: sst_on_thread) {
    let is_none = callback.call.is_none();
    let callback = Mutex::new(Callback::new(callback));
    boundary::run(move || {
        if is_none {
            on_thread_start(None);
            return;
        }
        on_thread_start(Some(Box::new(move |name| {
            let name = CString::new(name).unwrap_or_default();
            let callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: a function of that type, with its context, and a text that outlives the call.
            callback.call(|call, context| unsafe { call(context, name.as_ptr()) });
        })));
    });
}
