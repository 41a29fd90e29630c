//! Holders of leases.
use crate::boundary;
use crate::bytes::sst_slice;
use crate::callback::closure;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::{TimestampObject, sst_hlc};
use crate::infallible;
use crate::output::HandleOut;
use crate::status::sst_status;
use statestore_core::Holding;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The present holder of a lease. Opaque.
pub struct sst_holding;

pub(crate) struct HoldingObject(Holding);

object!(HoldingObject, sst_holding, 13, "a holding");

impl From<Holding> for HoldingObject {
    fn from(holding: Holding) -> Self {
        Self(holding)
    }
}

/// Returns the name of the holder: the value of the lease's key.
#[unsafe(no_mangle)]
pub extern "C" fn sst_holding_holder(holding: *const sst_holding) -> sst_slice {
    infallible::value(sst_slice::NONE, || {
        Ok(sst_slice::from_bytes(
            handle::get::<HoldingObject>(holding)?.0.holder.name(),
        ))
    })
}

/// Returns the version of the lease, from when it was taken or last renewed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_holding_version(
    holding: *const sst_holding,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let version = HandleOut::<TimestampObject>::new(version, "version")?;
        version.write(TimestampObject::new(
            &handle::get::<HoldingObject>(holding)?.0.version,
        ))
    })
}

/// Frees a holding.
#[unsafe(no_mangle)]
pub extern "C" fn sst_holding_free(holding: *mut sst_holding) {
    infallible::run(|| drop(handle::free::<HoldingObject>(holding)));
}

/// Callback that receives the holder of a lease.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_holding {
    pub context: *mut c_void,
    /// Called any number of times for sst_lease_observe() and its twin, and at their end with SST_CLOSED. `holding` is
    /// NULL if the lease has no holder.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            holding: *const sst_holding,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_holding,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_holding)
);
