//! Results of releasing a lease.
use crate::callback::closure;
use crate::error::sst_error;
use crate::outcome::OperationOutcome;
use crate::output::FailureValue;
use crate::status::sst_status;
use statestore_core::Release;
use std::ffi::c_void;

/// Result of releasing a lease.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_release {
    /// The call failed: see the status. The lease expires when its time is over.
    SST_RELEASE_FAILED = 0,
    /// The lease was held, and is free now.
    SST_RELEASED = 1,
    /// The lease was not held any more: it had ended, or another client holds it.
    SST_NOT_HELD = 2,
}

impl FailureValue for sst_release {
    const FAILED: Self = Self::SST_RELEASE_FAILED;
}

impl OperationOutcome for Release {
    type ResultEnum = sst_release;

    fn result(&self) -> sst_release {
        match self {
            Self::Released => sst_release::SST_RELEASED,
            Self::NotHeld => sst_release::SST_NOT_HELD,
        }
    }
}

/// Callback that receives the result of releasing a lease.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_release {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            result: sst_release,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_release,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, sst_release)
);
