//! What giving a lease back found.
use crate::callback::{Callback, closure};
use crate::error::{self, sst_error};
use crate::status::sst_status;
use statestore_core::Release;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// What giving a lease back found.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum sst_release {
    /// It failed: see the status. The lease ends when its time is over.
    #[default]
    SST_RELEASE_FAILED = 0,
    /// The lease was held, and is free now.
    SST_RELEASED = 1,
    /// It was not held any more: it had ended, or somebody else has it.
    SST_NOT_HELD = 2,
}

impl From<Release> for sst_release {
    fn from(release: Release) -> Self {
        match release {
            Release::Released => Self::SST_RELEASED,
            Release::NotHeld => Self::SST_NOT_HELD,
        }
    }
}

/// Is called with what giving a lease back found. For what a callback may do see "Callbacks" at the top.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_release {
    /// Handed to both functions.
    pub context: *mut c_void,
    /// Called once; may be NULL. `error` is borrowed for the call, and NULL if `status` is SST_OK.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            result: sst_release,
        ),
    >,
    /// Called once after the last call, or instead of it; may be NULL.
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_release,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, sst_release)
);

/// Where a blocking release writes its result.
pub(crate) fn place(result: Option<&mut MaybeUninit<sst_release>>) -> Option<&mut sst_release> {
    result.map(|result| result.write(sst_release::SST_RELEASE_FAILED))
}

pub(crate) fn give(to: Option<&mut sst_release>, release: Release) {
    if let Some(to) = to {
        *to = release.into();
    }
}

/// Tells a callback what giving a lease back found.
pub(crate) fn tell(callback: &Callback<sst_on_release>, result: Result<Release, Error>) {
    let (result, failed) = error::split(result.map(sst_release::from));
    error::lend(failed.as_ref(), |status, error| {
        // SAFETY: a function of that type, with its context.
        callback.call(|call, context| unsafe { call(context, status, error, result) });
    });
}
