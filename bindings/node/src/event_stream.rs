//! Streams of events: observations, states, holders, leaders.
use crate::failure::Failure;
use crate::operation_table::{BeginResult, OperationTable};
use crate::options::time;
use crate::reply::{Reply, TypedStream};
use napi_derive::napi;
use statestore::{LostReason, Outcome};
use statestore_embed::{Error, ErrorKind, OperationDescriptor};
use std::rc::Rc;
use std::time::Duration;

const WAITING: &str = "waiting for what happens";

/// A stream. Its items wait in the library, with a bound, until they are fetched.
#[napi]
pub struct NativeEventStream {
    operations: Rc<OperationTable>,
    source: TypedStream,
}

impl NativeEventStream {
    pub(crate) fn new(operations: Rc<OperationTable>, source: TypedStream) -> Self {
        Self { operations, source }
    }

    fn wait<T: Send + 'static>(
        &self,
        next: impl Future<Output = Result<T, Error>> + Send + 'static,
        timeout: Option<Duration>,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> BeginResult {
        let Some(timeout) = timeout else {
            return self
                .operations
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
        self.operations
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
            TypedStream::Observations(stream) => {
                self.wait(stream.next(), timeout, Reply::Observation)
            }
            TypedStream::MatchObservations(stream) => {
                self.wait(stream.next(), timeout, Reply::MatchObservation)
            }
            TypedStream::States(stream) => self.wait(stream.next(), timeout, Reply::State),
            TypedStream::Holders(stream) => self.wait(stream.next(), timeout, Reply::HolderEvent),
            TypedStream::Leaders(stream) => self.wait(stream.next(), timeout, Reply::LeaderEvent),
        }
    }

    /// Returns the word for why it ended.
    #[napi]
    pub fn lost_reason(&self) -> Option<&'static str> {
        let reason = match &self.source {
            TypedStream::Observations(stream) => stream.lost_reason(),
            TypedStream::MatchObservations(stream) => stream.lost_reason(),
            TypedStream::States(stream) => stream.lost_reason(),
            TypedStream::Holders(stream) => stream.lost_reason(),
            TypedStream::Leaders(stream) => stream.lost_reason(),
        };
        // A forked process gets the failure from everything else.
        reason.ok().flatten().map(LostReason::as_str)
    }

    /// Returns why the stream ended, if it did not end with its client. The last state of a connection contains this reason
    /// itself.
    #[napi]
    pub fn error(&self) -> Option<Failure> {
        let error = match &self.source {
            TypedStream::Observations(stream) => stream.error(),
            TypedStream::MatchObservations(stream) => stream.error(),
            TypedStream::States(_) => Ok(None),
            TypedStream::Holders(stream) => stream.error(),
            TypedStream::Leaders(stream) => stream.error(),
        };
        // A forked process gets the same failure from everything else.
        error.ok().flatten().map(Failure::from)
    }

    /// Ends the stream for all consumers.
    #[napi]
    pub fn stop(&self) {
        // In a forked process there is nothing to end.
        let _ = match &self.source {
            TypedStream::Observations(stream) => stream.stop(),
            TypedStream::MatchObservations(stream) => stream.stop(),
            TypedStream::States(stream) => stream.stop(),
            TypedStream::Holders(stream) => stream.stop(),
            TypedStream::Leaders(stream) => stream.stop(),
        };
    }
}
