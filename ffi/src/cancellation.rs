//! Threads that `pthread_cancel` would end in the middle of what they do.
use std::ffi::c_int;

#[cfg(target_os = "macos")]
const DISABLE: c_int = 0;
#[cfg(not(target_os = "macos"))]
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Keeps this thread from being cancelled during a call of the library, whose system calls would be the place for it: what
/// the call holds would be lost to the other threads. Who is cancelled meanwhile ends at the next place after the call.
pub(crate) struct Uncancellable {
    before: c_int,
}

impl Uncancellable {
    pub(crate) fn begin() -> Self {
        let mut before = DISABLE;
        // SAFETY: `before` is there to be written to; the calls between this and the end do not change the state.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for Uncancellable {
    fn drop(&mut self) {
        let mut disabled = DISABLE;
        // SAFETY: this is what it was, and `disabled` is there to be written to.
        unsafe { pthread_setcancelstate(self.before, &raw mut disabled) };
    }
}
