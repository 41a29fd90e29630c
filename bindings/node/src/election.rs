//! Elections.
use crate::event_stream::TypedStream;
use crate::operation_table::{BeginResult, OperationTable};
use crate::reply::Reply;
use bytes::Bytes;
use napi_derive::napi;
use statestore_embed::{Election, OperationDescriptor};
use std::rc::Rc;

/// An election by its name.
#[napi]
pub struct NativeElection {
    desk: Rc<OperationTable>,
    election: Election,
}

impl NativeElection {
    pub(crate) fn new(desk: Rc<OperationTable>, election: Election) -> Self {
        Self { desk, election }
    }
}

#[napi]
impl NativeElection {
    #[napi]
    pub fn campaign(&self, value: &[u8]) -> BeginResult {
        let campaign = self.election.campaign(Bytes::copy_from_slice(value));
        self.desk.submit(
            OperationDescriptor::event("campaigning"),
            campaign,
            Reply::Guard,
        )
    }

    #[napi]
    pub fn leader(&self) -> BeginResult {
        let leader = self.election.leader();
        self.desk.submit("asking who leads", leader, Reply::Leader)
    }

    #[napi]
    pub fn observe(&self) -> BeginResult {
        let observe = self.election.observe();
        self.desk.submit("following an election", observe, |feed| {
            Reply::Feed(TypedStream::Leaders(feed))
        })
    }
}
