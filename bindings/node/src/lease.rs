//! Leases.
use crate::operation_table::{BeginResult, OperationTable};
use crate::reply::{Reply, TypedStream};
use napi_derive::napi;
use statestore_embed::Lease;
use std::rc::Rc;

/// A lease by its name.
#[napi]
pub struct NativeLease {
    operations: Rc<OperationTable>,
    lease: Lease,
}

impl NativeLease {
    pub(crate) fn new(operations: Rc<OperationTable>, lease: Lease) -> Self {
        Self { operations, lease }
    }
}

#[napi]
impl NativeLease {
    #[napi]
    pub fn acquire(&self) -> BeginResult {
        let acquire = self.lease.acquire();
        self.operations
            .submit("taking a lease", acquire, Reply::Acquisition)
    }

    #[napi]
    pub fn release(&self) -> BeginResult {
        let release = self.lease.release();
        self.operations
            .submit("giving a lease back", release, Reply::Release)
    }

    #[napi]
    pub fn holder(&self) -> BeginResult {
        let holder = self.lease.holder();
        self.operations
            .submit("asking who holds a lease", holder, Reply::Holding)
    }

    #[napi]
    pub fn observe(&self) -> BeginResult {
        let observe = self.lease.observe();
        self.operations
            .submit("following a lease", observe, |stream| {
                Reply::Stream(TypedStream::Holders(stream))
            })
    }
}
