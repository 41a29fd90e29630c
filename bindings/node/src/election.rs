//! Elections.
use crate::desk::{Begun, Desk};
use crate::feed::Source;
use crate::reply::Reply;
use bytes::Bytes;
use napi_derive::napi;
use statestore_embed::{Action, Election};
use std::rc::Rc;

/// An election by its name.
#[napi]
pub struct NativeElection {
    desk: Rc<Desk>,
    election: Election,
}

impl NativeElection {
    pub(crate) fn new(desk: Rc<Desk>, election: Election) -> Self {
        Self { desk, election }
    }
}

#[napi]
impl NativeElection {
    #[napi]
    pub fn campaign(&self, value: &[u8]) -> Begun {
        let campaign = self.election.campaign(Bytes::copy_from_slice(value));
        self.desk
            .submit(Action::event("campaigning"), campaign, Reply::Guard)
    }

    #[napi]
    pub fn leader(&self) -> Begun {
        let leader = self.election.leader();
        self.desk.submit("asking who leads", leader, Reply::Leader)
    }

    #[napi]
    pub fn observe(&self) -> Begun {
        let observe = self.election.observe();
        self.desk.submit("following an election", observe, |feed| {
            Reply::Feed(Source::Leaders(feed))
        })
    }
}
