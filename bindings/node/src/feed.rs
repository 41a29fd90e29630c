//! Streams of events: observations, states, holders, leaders.
use crate::desk::{Begun, Desk};
use crate::failure::Failure;
use crate::options::time;
use crate::reply::Reply;
use napi_derive::napi;
use statestore::{ConnectionState, Holding, Leader, LostReason, Observation, Outcome};
use statestore_embed::{Action, Error, ErrorKind, Feed};
use std::rc::Rc;
use std::time::Duration;

const WAITING: &str = "waiting for what happens";

/// The feeds that there are.
pub(crate) enum Source {
    Observations(Feed<Observation>),
    States(Feed<ConnectionState>),
    Holders(Feed<Result<Option<Holding>, Error>>),
    Leaders(Feed<Result<Option<Leader>, Error>>),
}

/// A feed. Its items wait in the library, with a bound, until they are fetched.
#[napi]
pub struct NativeFeed {
    desk: Rc<Desk>,
    source: Source,
}

impl NativeFeed {
    pub(crate) fn new(desk: Rc<Desk>, source: Source) -> Self {
        Self { desk, source }
    }

    fn wait<T: Send + 'static>(
        &self,
        next: impl Future<Output = Result<T, Error>> + Send + 'static,
        timeout: Option<Duration>,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> Begun {
        let Some(timeout) = timeout else {
            return self.desk.submit(Action::event(WAITING), next, reply);
        };
        // A later item is for the next call.
        let in_time = async move {
            let Ok(item) = tokio::time::timeout(timeout, next).await else {
                let reason = format!("nothing happened within {timeout:?}");
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    Outcome::NotDone,
                    WAITING,
                    reason,
                ));
            };
            item
        };
        self.desk.submit(Action::event(WAITING), in_time, reply)
    }
}

#[napi]
impl NativeFeed {
    /// Begins to wait for the next item, for at most `timeout` milliseconds.
    #[napi]
    pub fn next(&self, timeout: Option<f64>) -> Begun {
        let timeout = timeout.map(time);
        match &self.source {
            Source::Observations(feed) => self.wait(feed.next(), timeout, Reply::Observation),
            Source::States(feed) => self.wait(feed.next(), timeout, Reply::State),
            Source::Holders(feed) => self.wait(feed.next(), timeout, Reply::HolderNews),
            Source::Leaders(feed) => self.wait(feed.next(), timeout, Reply::LeaderNews),
        }
    }

    /// Returns the word for why it ended.
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

    /// Returns why the feed ended, if it did not end with its client. The last state of a connection contains this reason
    /// itself.
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

    /// Ends the feed for all consumers.
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
