//! Protection against `pthread_cancel` during calls of the library.
use std::ffi::c_int;

#[cfg(target_os = "macos")]
const DISABLE: c_int = 0;
#[cfg(not(target_os = "macos"))]
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Defers cancellation of this thread during a call of the library.
///
/// The system calls of the library are cancellation points: a thread that ended there would never release what the call
/// holds. A thread that is cancelled meanwhile ends at the first cancellation point after the call.
pub(crate) struct CancellationGuard {
    before: c_int,
}

impl CancellationGuard {
    pub(crate) fn begin() -> Self {
        let mut before = DISABLE;
        // SAFETY: `before` is writable; the calls between this one and `drop` do not change the state.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for CancellationGuard {
    fn drop(&mut self) {
        let mut disabled = DISABLE;
        // SAFETY: `self.before` is the former state, and `disabled` is writable.
        unsafe { pthread_setcancelstate(self.before, &raw mut disabled) };
    }
}
