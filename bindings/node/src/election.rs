//! Elections.
use crate::operation_table::{BeginResult, OperationTable};
use crate::reply::{Reply, TypedStream};
use bytes::Bytes;
use napi_derive::napi;
use statestore_embed::{Election, OperationDescriptor};
use std::rc::Rc;

/// An election by its name.
#[napi]
pub struct NativeElection {
    operations: Rc<OperationTable>,
    election: Election,
}

impl NativeElection {
    pub(crate) fn new(operations: Rc<OperationTable>, election: Election) -> Self {
        Self {
            operations,
            election,
        }
    }
}

#[napi]
impl NativeElection {
    #[napi]
    pub fn campaign(&self, value: &[u8]) -> BeginResult {
        let campaign = self.election.campaign(Bytes::copy_from_slice(value));
        self.operations.submit(
            OperationDescriptor::event("campaigning"),
            campaign,
            Reply::Guard,
        )
    }

    #[napi]
    pub fn leader(&self) -> BeginResult {
        let leader = self.election.leader();
        self.operations
            .submit("asking who leads", leader, Reply::Leader)
    }

    #[napi]
    pub fn observe(&self) -> BeginResult {
        let observe = self.election.observe();
        self.operations
            .submit("following an election", observe, |stream| {
                Reply::Stream(TypedStream::Leaders(stream))
            })
    }
}
