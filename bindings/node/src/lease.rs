//! Leases.
use crate::desk::{Begun, Desk};
use crate::feed::Source;
use crate::reply::Reply;
use napi_derive::napi;
use statestore_embed::Lease;
use std::rc::Rc;

/// A lease by its name.
#[napi]
pub struct NativeLease {
    desk: Rc<Desk>,
    lease: Lease,
}

impl NativeLease {
    pub(crate) fn new(desk: Rc<Desk>, lease: Lease) -> Self {
        Self { desk, lease }
    }
}

#[napi]
impl NativeLease {
    #[napi]
    pub fn acquire(&self) -> Begun {
        let acquire = self.lease.acquire();
        self.desk
            .submit("taking a lease", acquire, Reply::Acquisition)
    }

    #[napi]
    pub fn release(&self) -> Begun {
        let release = self.lease.release();
        self.desk
            .submit("giving a lease back", release, Reply::Release)
    }

    #[napi]
    pub fn holder(&self) -> Begun {
        let holder = self.lease.holder();
        self.desk
            .submit("asking who holds a lease", holder, Reply::Holding)
    }

    #[napi]
    pub fn observe(&self) -> Begun {
        let observe = self.lease.observe();
        self.desk.submit("following a lease", observe, |feed| {
            Reply::Feed(Source::Holders(feed))
        })
    }
}
