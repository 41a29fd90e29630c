//! Streams of events: observations, states, holders, leaders.
use crate::failure::Failure;
use crate::operation_table::{BeginResult, OperationTable};
use crate::options::time;
use crate::reply::Reply;
use napi_derive::napi;
use statestore::{ConnectionState, Holding, Leader, LostReason, Observation, Outcome};
use statestore_embed::{Error, ErrorKind, EventStream, OperationDescriptor};
use std::rc::Rc;
use std::time::Duration;

const WAITING: &str = "waiting for what happens";

/// The feeds that there are.
pub(crate) enum TypedStream {
    Observations(EventStream<Observation>),
    States(EventStream<ConnectionState>),
    Holders(EventStream<Result<Option<Holding>, Error>>),
    Leaders(EventStream<Result<Option<Leader>, Error>>),
}

/// A feed. Its items wait in the library, with a bound, until they are fetched.
#[napi]
pub struct NativeEventStream {
    desk: Rc<OperationTable>,
    source: TypedStream,
}

impl NativeEventStream {
    pub(crate) fn new(desk: Rc<OperationTable>, source: TypedStream) -> Self {
        Self { desk, source }
    }

    fn wait<T: Send + 'static>(
        &self,
        next: impl Future<Output = Result<T, Error>> + Send + 'static,
        timeout: Option<Duration>,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> BeginResult {
        let Some(timeout) = timeout else {
            return self
                .desk
                .submit(OperationDescriptor::event(WAITING), next, reply);
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
        self.desk
            .submit(OperationDescriptor::event(WAITING), in_time, reply)
    }
}

#[napi]
impl NativeEventStream {
    /// Begins to wait for the next item, for at most `timeout` milliseconds.
    #[napi]
    pub fn next(&self, timeout: Option<f64>) -> BeginResult {
        let timeout = timeout.map(time);
        match &self.source {
            TypedStream::Observations(feed) => self.wait(feed.next(), timeout, Reply::Observation),
            TypedStream::States(feed) => self.wait(feed.next(), timeout, Reply::State),
            TypedStream::Holders(feed) => self.wait(feed.next(), timeout, Reply::HolderEvent),
            TypedStream::Leaders(feed) => self.wait(feed.next(), timeout, Reply::LeaderEvent),
        }
    }

    /// Returns the word for why it ended.
    #[napi]
    pub fn lost_reason(&self) -> Option<&'static str> {
        let reason = match &self.source {
            TypedStream::Observations(feed) => feed.lost_reason(),
            TypedStream::States(feed) => feed.lost_reason(),
            TypedStream::Holders(feed) => feed.lost_reason(),
            TypedStream::Leaders(feed) => feed.lost_reason(),
        };
        // A forked process gets the failure from everything else.
        reason.ok().flatten().map(LostReason::as_str)
    }

    /// Returns why the feed ended, if it did not end with its client. The last state of a connection contains this reason
    /// itself.
    #[napi]
    pub fn error(&self) -> Option<Failure> {
        let error = match &self.source {
            TypedStream::Observations(feed) => feed.error(),
            TypedStream::States(_) => Ok(None),
            TypedStream::Holders(feed) => feed.error(),
            TypedStream::Leaders(feed) => feed.error(),
        };
        // A forked process gets the same failure from everything else.
        error.ok().flatten().map(Failure::from)
    }

    /// Ends the feed for all consumers.
    #[napi]
    pub fn stop(&self) {
        // In a forked process there is nothing to end.
        let _ = match &self.source {
            TypedStream::Observations(feed) => feed.stop(),
            TypedStream::States(feed) => feed.stop(),
            TypedStream::Holders(feed) => feed.stop(),
            TypedStream::Leaders(feed) => feed.stop(),
        };
    }
}
