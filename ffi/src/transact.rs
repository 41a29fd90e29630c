//! TXN.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::{TimestampObject, sst_hlc};
use crate::infallible;
use crate::input::{self, milliseconds, sized};
use crate::operation::{begin, sst_operation, wait};
use crate::output::{self, HandleOut};
use crate::set;
use crate::status::sst_status;
use crate::transaction::{TransactionObject, sst_transaction};
use statestore_core::{TransactOptions, TransactionOutcome};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Options of sst_transact().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_transact_options {
    pub size: usize,
    /// Time limit of the request (default: that of the settings).
    pub timeout_ms: u64,
    /// Not zero: asks the store to keep the keys on disk.
    pub persist: u32,
    /// Whether the request is sent again if the session is lost, an sst_retry.
    pub retry: u32,
}

sized!(sst_transact_options, retry: u32);

/// # Safety As [`input::options`] asks.
unsafe fn options(given: *const sst_transact_options) -> Result<TransactOptions, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    Ok(TransactOptions::new()
        .timeout(milliseconds(given.timeout_ms, "timeout_ms")?)
        .persist(given.persist != 0)
        .retry(set::retry(given.retry)?))
}

/// The outcome of a transaction. Opaque.
pub struct sst_transaction_outcome;

struct TransactionOutcomeObject(TransactionOutcome);

object!(
    TransactionOutcomeObject,
    sst_transaction_outcome,
    21,
    "the outcome of a transaction"
);

/// Returns whether the operations were executed. If not, the condition of one was not met, and nothing changed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_outcome_is_applied(
    outcome: *const sst_transaction_outcome,
) -> bool {
    infallible::value(false, || {
        Ok(handle::get::<TransactionOutcomeObject>(outcome)?
            .0
            .is_applied())
    })
}

/// Returns the number of operations that were executed: all, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_outcome_len(outcome: *const sst_transaction_outcome) -> usize {
    infallible::value(0, || {
        match &handle::get::<TransactionOutcomeObject>(outcome)?.0 {
            TransactionOutcome::Applied(versions) => Ok(versions.len()),
            TransactionOutcome::NotApplied { .. } => Ok(0),
        }
    })
}

/// Returns the version of the change of an executed operation; `*version` is NULL for a DEL of an absent key.
///
/// Errors: SST_INVALID_ARGUMENT if the index is too large, or the transaction was not executed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_outcome_version_at(
    outcome: *const sst_transaction_outcome,
    index: usize,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let to = HandleOut::<TimestampObject>::new(version, "version")?;
        let outcome = handle::get::<TransactionOutcomeObject>(outcome)?;
        let versions = match &outcome.0 {
            TransactionOutcome::Applied(versions) => versions.as_slice(),
            TransactionOutcome::NotApplied { .. } => &[],
        };
        let Some(version) = versions.get(index) else {
            let count = versions.len();
            return Err(input::invalid("index", format!("it is {index} of {count}")));
        };
        output::write_optional(Some(to), version.as_ref().map(TimestampObject::new))
    })
}

/// Returns the index of the operation whose condition was not met, counted from 0; -1 if all were executed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_outcome_operation(
    outcome: *const sst_transaction_outcome,
) -> i64 {
    infallible::value(-1, || {
        match handle::get::<TransactionOutcomeObject>(outcome)?.0 {
            TransactionOutcome::Applied(_) => Ok(-1),
            TransactionOutcome::NotApplied { operation, .. } => {
                Ok(i64::try_from(operation).unwrap_or(i64::MAX))
            }
        }
    })
}

/// Returns the version of the key of the operation whose condition was not met.
///
/// `*version` is NULL if the key is absent, or if all operations were executed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_outcome_version(
    outcome: *const sst_transaction_outcome,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let to = HandleOut::<TimestampObject>::new(version, "version")?;
        let version = match &handle::get::<TransactionOutcomeObject>(outcome)?.0 {
            TransactionOutcome::Applied(_) => None,
            TransactionOutcome::NotApplied { version, .. } => {
                version.as_ref().map(TimestampObject::new)
            }
        };
        output::write_optional(Some(to), version)
    })
}

/// Frees the outcome of a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_outcome_free(outcome: *mut sst_transaction_outcome) {
    infallible::run(|| drop(handle::free::<TransactionOutcomeObject>(outcome)));
}

/// Callback that receives the outcome of a transaction.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_transaction_outcome {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            outcome: *const sst_transaction_outcome,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_transaction_outcome,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *const sst_transaction_outcome)
);

/// Executes all operations of a transaction in their order, or none.
///
/// Other clients see all of them or none. A later operation sees the effects of the earlier ones. A condition that is
/// not met is an outcome, not an error.
///
/// Blocks: until the answer, at most for the time-out. Errors: those of sst_set() and sst_del(), and these:
///
/// - SST_UNSUPPORTED if the store has no transactions (see sst_client_capabilities()).
/// - SST_INVALID_ARGUMENT for a transaction without operations, with more than the store takes, or with an invalid
///   operation.
///
/// If one operation is invalid or rejected by the store, sst_error_operation() returns its index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_transact(
    client: *const sst_client,
    transaction: *const sst_transaction,
    options: *const sst_transact_options,
    outcome: Option<&mut MaybeUninit<*mut sst_transaction_outcome>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let outcome = output::init_failed(outcome);
    boundary::with_client(error, client, |client| {
        let to = HandleOut::<TransactionOutcomeObject>::new(outcome, "outcome")?;
        let operations = handle::get::<TransactionObject>(transaction)?.operations();
        // SAFETY: the header asks for a struct with its size.
        let options = unsafe { self::options(options) }?;
        let core = client.core()?;
        let transact = core.transact_with(&operations, &options);
        to.write(TransactionOutcomeObject(wait(
            client,
            "transacting",
            transact,
        )?))
    })
}

/// Begins sst_transact(). Operations that are added to the transaction afterwards are not part of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_transact_async(
    client: *const sst_client,
    transaction: *const sst_transaction,
    options: *const sst_transact_options,
    callback: sst_on_transaction_outcome,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        let operations = handle::get::<TransactionObject>(transaction)?.operations();
        // SAFETY: the header asks for a struct with its size.
        let options = unsafe { self::options(options) }?;
        let transact = client.transact(Arc::unwrap_or_clone(operations), options);
        begin(
            client,
            "transacting",
            transact,
            callback,
            operation,
            |callback, result| {
                completion::lend(
                    callback,
                    result.map(|outcome| Some(TransactionOutcomeObject(outcome))),
                );
            },
        )
    })
}
