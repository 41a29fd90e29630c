//! VDEL.
use crate::boundary;
use crate::callback::Callback;
use crate::client::sst_client;
use crate::del::{self, sst_del_options, sst_del_result, sst_on_del};
use crate::error::sst_error;
use crate::hlc::sst_hlc;
use crate::input;
use crate::operation::{begin, sst_operation, wait};
use crate::outcome::{self, OperationOutcome, ResultOut};
use crate::output;
use crate::status::sst_status;
use bytes::Bytes;
use statestore_core::{DelOptions, Hlc, VdelOutcome};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;

impl OperationOutcome for VdelOutcome {
    type ResultEnum = sst_del_result;

    fn result(&self) -> sst_del_result {
        match self {
            Self::Deleted { .. } => sst_del_result::SST_DEL_DELETED,
            Self::Absent => sst_del_result::SST_DEL_ABSENT,
            Self::Mismatch { .. } => sst_del_result::SST_DEL_MISMATCH,
        }
    }

    fn version(&self) -> Option<&Hlc> {
        match self {
            Self::Deleted { version } | Self::Mismatch { version } => version.as_ref(),
            Self::Absent => None,
        }
    }
}

/// Reads the arguments of a VDEL.
///
/// # Safety As [`input::key_value`] and [`del::options`] ask.
pub(crate) unsafe fn read<'a>(
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_del_options,
) -> Result<(&'a [u8], &'a [u8], DelOptions), Error> {
    // SAFETY: by the contract.
    let (key, value) = unsafe { input::key_value(key, key_len, value, value_len) }?;
    // SAFETY: by the contract.
    Ok((key, value, unsafe { del::options(options) }?))
}

/// Deletes a key if it holds this value.
///
/// `*version` is the version of the deletion, if the store reports it. For SST_DEL_MISMATCH it is the version of the
/// key, or NULL if the options have no `if_version`. An absent key is SST_DEL_ABSENT, also with `if_version`.
///
/// Blocks: until the answer, at most for the time-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_vdel(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_del_options,
    result: Option<&mut MaybeUninit<sst_del_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let results = ResultOut::with_version(result, version);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let (key, value, options) = unsafe { read(key, key_len, value, value_len, options) }?;
        let vdel = client.core()?.vdel_with(key, value, &options);
        results.write(&wait(client, "deleting", vdel)?)
    })
}

/// Begins sst_vdel().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_vdel_async(
    client: *const sst_client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_del_options,
    callback: sst_on_del,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let (key, value, options) = unsafe { read(key, key_len, value, value_len, options) }?;
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let vdel = client.vdel(key, value, options);
        begin(
            client,
            "deleting",
            vdel,
            callback,
            operation,
            outcome::report_with_version,
        )
    })
}
