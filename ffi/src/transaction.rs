//! Transactions: lists of operations.
use crate::boundary;
use crate::del::{self, sst_del_options};
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::input;
use crate::output::HandleOut;
use crate::set::{self, sst_set_options};
use crate::status::sst_status;
use statestore_core::{DelOptions, Retry, SetOptions, Transaction};
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::{self, MaybeUninit};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Several SETs and DELs, of which sst_transact() executes all or none. Opaque.
///
/// A transaction belongs to no client. It can be sent several times, and extended in between. An operation that is
/// invalid because of an empty key is reported when the transaction is sent.
pub struct sst_transaction;

#[derive(Default)]
pub(crate) struct TransactionObject(Mutex<Arc<Transaction>>);

object!(TransactionObject, sst_transaction, 20, "a transaction");

impl TransactionObject {
    /// Returns the operations so far.
    pub(crate) fn operations(&self) -> Arc<Transaction> {
        Arc::clone(&self.lock())
    }

    fn add(&self, add: impl FnOnce(Transaction) -> Transaction) {
        let mut operations = self.lock();
        let operations = Arc::make_mut(&mut operations);
        *operations = add(mem::take(operations));
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Transaction>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the error for an option that a single operation cannot have.
fn transaction_option(name: &str) -> Error {
    input::invalid(
        name,
        "it is an option of sst_transact(), for all operations",
    )
}

fn check_set(options: &SetOptions) -> Result<(), Error> {
    if options.persist {
        return Err(transaction_option("persist"));
    }
    if options.coalesce {
        return Err(input::invalid(
            "coalesce",
            "a transaction cannot be replaced by a newer one",
        ));
    }
    check(options.timeout.is_some(), options.retry)
}

fn check_del(options: &DelOptions) -> Result<(), Error> {
    check(options.timeout.is_some(), options.retry)
}

fn check(has_timeout: bool, retry: Retry) -> Result<(), Error> {
    if has_timeout {
        return Err(transaction_option("timeout_ms"));
    }
    if retry != Retry::default() {
        return Err(transaction_option("retry"));
    }
    Ok(())
}

/// Makes a transaction without operations.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_new(
    transaction: Option<&mut MaybeUninit<*mut sst_transaction>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        HandleOut::<TransactionObject>::new(transaction, "transaction")?
            .write(TransactionObject::default())
    })
}

/// Adds a SET. It may have the options `condition`, `if_version`, `expires_in_ms` and `fencing_token`.
///
/// Errors: SST_INVALID_ARGUMENT for the other options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_transaction_set(
    transaction: *const sst_transaction,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    options: *const sst_set_options,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let transaction = handle::get::<TransactionObject>(transaction)?;
        // SAFETY: the header asks for NULL or as many bytes as their lengths say, and for a struct with its size.
        let (key, value, options) = unsafe { set::read(key, key_len, value, value_len, options) }?;
        check_set(&options)?;
        transaction.add(|operations| operations.set(key, value, &options));
        Ok(())
    })
}

/// Adds a DEL. It may have the options `if_version` and `fencing_token`. An absent key is not a failure, unless
/// `if_version` is set.
///
/// Errors: SST_INVALID_ARGUMENT for the other options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_transaction_del(
    transaction: *const sst_transaction,
    key: *const c_void,
    key_len: usize,
    options: *const sst_del_options,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let transaction = handle::get::<TransactionObject>(transaction)?;
        // SAFETY: the header asks for NULL or `key_len` bytes, and for a struct with its size.
        let (key, options) = unsafe { del::read(key, key_len, options) }?;
        check_del(&options)?;
        transaction.add(|operations| operations.del(key, &options));
        Ok(())
    })
}

/// Returns the number of operations.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_len(transaction: *const sst_transaction) -> usize {
    infallible::value(0, || {
        Ok(handle::get::<TransactionObject>(transaction)?
            .operations()
            .len())
    })
}

/// Frees a transaction. A call that is executing it continues.
#[unsafe(no_mangle)]
pub extern "C" fn sst_transaction_free(transaction: *mut sst_transaction) {
    infallible::run(|| drop(handle::free::<TransactionObject>(transaction)));
}
