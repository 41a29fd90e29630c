//! Updates of a key under a lease.
use crate::boundary;
use crate::callback::Callback;
use crate::error::sst_error;
use crate::guard::{GuardObject, sst_guard};
use crate::hlc::sst_hlc;
use crate::input;
use crate::operation::sst_operation;
use crate::outcome::ResultOut;
use crate::output;
use crate::revocable_callback::Revoke;
use crate::status::sst_status;
use crate::update::{
    self, ChangeCallback, UpdateTarget, sst_changer, sst_on_update, sst_update_options,
    sst_update_result,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Computes a new value of a key from its present one, as sst_update() does, and protects the key.
///
/// From now on, writes and deletions of the key need this guard's token or a higher one.
///
/// Blocks: until it is done, at most for the time-out, and while `changer` runs; no request takes longer than the lease
/// is certain. Errors: as sst_update(); SST_LOCK_LOST if the lease is not certainly held any more;
/// SST_FENCING_TOKEN_LOWER if a newer holder has written the key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_update(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    options: *const sst_update_options,
    changer: sst_changer,
    result: Option<&mut MaybeUninit<sst_update_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    let is_missing = changer.call.is_none();
    let changer = ChangeCallback::new(Callback::new(changer));
    let status = boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { update::read(key, key_len, options) }?;
        if is_missing {
            return Err(input::null("changer.call"));
        }
        let outcome = UpdateTarget::with_guard(client, &guard).wait(key, options, &changer)?;
        results.write(&outcome)
    });
    changer.revoke();
    status
}

/// Begins sst_guard_update(). `changer` is dropped before `callback` is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_guard_update_async(
    guard: *const sst_guard,
    key: *const c_void,
    key_len: usize,
    options: *const sst_update_options,
    changer: sst_changer,
    callback: sst_on_update,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    let is_missing = changer.call.is_none();
    let changer = ChangeCallback::new(Callback::new(changer));
    let status = boundary::with_object::<GuardObject>(error, guard, |guard, client| {
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { update::read(key, key_len, options) }?;
        if is_missing {
            return Err(input::null("changer.call"));
        }
        UpdateTarget::with_guard(client, &guard).begin(key, options, &changer, callback, operation)
    });
    if status != sst_status::SST_OK {
        changer.revoke();
    }
    status
}
