//! A held lease: a lock, or the leadership of an election.
use crate::convert;
use crate::failure::{Failure, throw};
use crate::operation_table::{BeginResult, OperationTable};
use crate::options::{self, DelInput, SetInput, UpdateInput};
use crate::reply::Reply;
use bytes::Bytes;
use napi::bindgen_prelude::{Array, Either};
use napi::{Env, Result};
use napi_derive::napi;
use statestore::LostReason;
use statestore_embed::{Guard, OperationDescriptor, WorkOutcome};
use std::rc::Rc;

const WAITING_FOR_THE_END: &str = "waiting for the end of a lease";

/// A guard.
#[napi]
pub struct NativeGuard {
    operations: Rc<OperationTable>,
    guard: Guard,
}

impl NativeGuard {
    pub(crate) fn new(operations: Rc<OperationTable>, guard: Guard) -> Self {
        Self { operations, guard }
    }
}

#[napi]
impl NativeGuard {
    /// Returns the name of the holder and its client id.
    #[napi]
    pub fn holder<'env>(&self, env: &'env Env) -> Result<Array<'env>> {
        let holder = self.guard.holder().map_err(|error| throw(env, error))?;
        convert::holder(env, holder)
    }

    #[napi]
    pub fn token(&self, env: &Env) -> Result<String> {
        let token = self.guard.token().map_err(|error| throw(env, error))?;
        Ok(token.to_string())
    }

    #[napi]
    pub fn is_valid(&self) -> bool {
        // A forked process holds nothing.
        self.guard.is_valid().unwrap_or_default()
    }

    /// Returns why the lease is no longer valid.
    #[napi]
    pub fn reason(&self, env: &Env) -> Result<Option<Failure>> {
        let reason = self.guard.reason().map_err(|error| throw(env, error))?;
        Ok(reason.map(Failure::from))
    }

    /// Returns the word for why the lease is no longer valid.
    #[napi]
    pub fn lost_reason(&self) -> Option<&'static str> {
        // A forked process gets the failure from everything else.
        let reason = self.guard.lost_reason().ok().flatten();
        reason.map(LostReason::as_str)
    }

    /// Returns the error for work that succeeded although the lease was lost.
    #[napi]
    pub fn loss(&self, env: &Env) -> Result<Option<Failure>> {
        let loss = self.guard.loss().map_err(|error| throw(env, error))?;
        Ok(loss.map(Failure::from))
    }

    /// Releases the lease at the end of work under it.
    #[napi]
    pub fn finish(&self, has_failed: bool) -> BeginResult {
        let finish = self.guard.finish(WorkOutcome::from_block(has_failed), None);
        self.operations
            .submit_return("giving a lease back", finish, Reply::Done)
    }

    /// Begins to wait until the lease is no longer valid.
    #[napi]
    pub fn lost(&self) -> BeginResult {
        self.operations.submit(
            OperationDescriptor::event(WAITING_FOR_THE_END),
            self.guard.lost(),
            Reply::Lost,
        )
    }

    /// Waits like [`lost`](Self::lost), without the limit on operations under way. Called once for each guard.
    #[napi]
    pub fn watch(&self) -> BeginResult {
        self.operations.submit_return(
            OperationDescriptor::event(WAITING_FOR_THE_END),
            self.guard.lost(),
            Reply::Lost,
        )
    }

    #[napi]
    pub fn renew(&self) -> BeginResult {
        self.operations
            .submit("renewing a lease", self.guard.renew(), Reply::Version)
    }

    #[napi]
    pub fn set(&self, key: &[u8], value: &[u8], options: Option<SetInput>) -> BeginResult {
        let options = match options::set(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let set = self.guard.set(key, value, options);
        self.operations
            .submit("setting under a lease", set, Reply::Set)
    }

    #[napi]
    pub fn update(&self, key: &[u8], options: Option<UpdateInput>) -> BeginResult {
        let (key, options) = (Bytes::copy_from_slice(key), options::update(options));
        self.operations.update(Some(&self.guard), key, options)
    }

    #[napi]
    pub fn del(&self, key: &[u8], options: Option<DelInput>) -> BeginResult {
        let options = match options::del(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let del = self.guard.del(Bytes::copy_from_slice(key), options);
        self.operations
            .submit("deleting under a lease", del, Reply::Del)
    }

    #[napi]
    pub fn vdel(&self, key: &[u8], value: &[u8], options: Option<DelInput>) -> BeginResult {
        let options = match options::del(options) {
            Ok(options) => options,
            Err(error) => return Either::B(error.into()),
        };
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let vdel = self.guard.vdel(key, value, options);
        self.operations
            .submit("deleting under a lease", vdel, Reply::Vdel)
    }

    /// Begins to proclaim a value, for the leadership of an election.
    #[napi]
    pub fn proclaim(&self, value: &[u8]) -> BeginResult {
        let proclaim = self.guard.proclaim(Bytes::copy_from_slice(value));
        self.operations.submit("proclaiming", proclaim, Reply::Set)
    }

    #[napi]
    pub fn release(&self, timeout: Option<f64>) -> BeginResult {
        let release = self.guard.release(timeout.map(options::time));
        self.operations
            .submit_return("giving a lease back", release, Reply::Release)
    }

    #[napi]
    pub fn leave(&self) -> BeginResult {
        self.operations
            .submit_return("leaving a lease", self.guard.leave(), Reply::Done)
    }
}
