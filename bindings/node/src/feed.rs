//! What happens again and again: observations, states, holders, leaders.
use crate::desk::{Begun, Desk};
use crate::failure::Failure;
use crate::reply::Reply;
use napi_derive::napi;
use statestore::{ConnectionState, Holding, Leader, LostReason, Observation};
use statestore_embed::{Error, Feed};
use std::rc::Rc;

/// The feeds that there are.
pub(crate) enum Source {
    Observations(Feed<Observation>),
    States(Feed<ConnectionState>),
    Holders(Feed<Result<Option<Holding>, Error>>),
    Leaders(Feed<Result<Option<Leader>, Error>>),
}

/// A feed. What it brings waits in the library, bounded, until it is asked for.
#[napi]
pub struct NativeFeed {
    desk: Rc<Desk>,
    source: Source,
}

impl NativeFeed {
    pub(crate) fn new(desk: Rc<Desk>, source: Source) -> Self {
        Self { desk, source }
    }
}

#[napi]
impl NativeFeed {
    /// Begins to wait for the next item.
    #[napi]
    pub fn next(&self) -> Begun {
        const ACTION: &str = "waiting for what happens";
        match &self.source {
            Source::Observations(feed) => self.desk.submit(ACTION, feed.next(), Reply::Observation),
            Source::States(feed) => self.desk.submit(ACTION, feed.next(), Reply::State),
            Source::Holders(feed) => self.desk.submit(ACTION, feed.next(), Reply::HolderNews),
            Source::Leaders(feed) => self.desk.submit(ACTION, feed.next(), Reply::LeaderNews),
        }
    }

    /// The word for why it ended.
    #[napi]
    pub fn lost_reason(&self) -> Option<&'static str> {
        let reason = match &self.source {
            Source::Observations(feed) => feed.lost_reason(),
            Source::States(feed) => feed.lost_reason(),
            Source::Holders(feed) => feed.lost_reason(),
            Source::Leaders(feed) => feed.lost_reason(),
        };
        // A forked process gets the failure from everything else.
        reason.ok().flatten().map(LostReason::as_str)
    }

    /// Why it ended, if it did not end with its client. The last state tells that itself.
    #[napi]
    pub fn error(&self) -> Option<Failure> {
        let error = match &self.source {
            Source::Observations(feed) => feed.error(),
            Source::States(_) => Ok(None),
            Source::Holders(feed) => feed.error(),
            Source::Leaders(feed) => feed.error(),
        };
        // A forked process gets the same failure from everything else.
        error.ok().flatten().map(Failure::from)
    }

    /// Ends it, also for those who wait.
    #[napi]
    pub fn stop(&self) {
        // In a forked process there is nothing to end.
        let _ = match &self.source {
            Source::Observations(feed) => feed.stop(),
            Source::States(feed) => feed.stop(),
            Source::Holders(feed) => feed.stop(),
            Source::Leaders(feed) => feed.stop(),
        };
    }
}
