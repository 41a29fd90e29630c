//! A request and its response, as a future.
use super::action::{action, operation_action, subject};
use super::cancellation_recorder;
use super::deadline::within;
use super::shared::Shared;
use super::trace::Trace;
use crate::error::{Error, ErrorKind, Outcome};
use crate::request::{Completion, EncodedRequest, Failure, OutgoingRequest, RequestId};
use bytes::Bytes;
use statestore_protocol::mqtt::Publish;
use statestore_protocol::property::{ResponseProperties, RpcError};
use statestore_protocol::{
    CommandRef, Condition, Hlc, Rejection, Reply, ServiceError, TransactionOperation,
};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A successful response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) reply: Reply,
    pub(crate) version: Option<Hlc>,
}

/// A future that sends a request when it is first polled and resolves to the response. Dropping it cancels the request as far
/// as possible.
#[derive(Debug)]
#[must_use = "nothing is sent before it is polled"]
pub(crate) struct Call<'a> {
    shared: &'a Shared,
    request: OutgoingRequest<'a>,
    timeout: Duration,
    deadline_ms: u64,
    id: Option<RequestId>,
    trace: Option<Box<Trace>>,
}

impl<'a> Call<'a> {
    /// Creates a request that ends after `timeout` at the latest, counted from the first poll.
    pub(crate) fn new(
        shared: &'a Shared,
        request: OutgoingRequest<'a>,
        timeout: Option<Duration>,
    ) -> Self {
        let timeout = timeout.unwrap_or(shared.settings.request_timeout);
        Self {
            shared,
            request,
            timeout,
            deadline_ms: 0,
            id: None,
            trace: None,
        }
    }

    fn start(&mut self, waker: &Waker) -> Result<(), Error> {
        let command = self.request.command;
        self.trace = Trace::start(command.verb(), subject(command));
        if self.timeout.is_zero() {
            let failure = Failure::new(
                ErrorKind::TimedOut,
                Outcome::NotDone,
                "its time-out is zero, so nothing was sent",
            );
            return Err(self.failed(failure));
        }
        let now_ms = self.shared.now_ms();
        // One millisecond more, because `now_ms` is rounded down: a deadline is never early.
        let part_ms = self.timeout.subsec_nanos().div_ceil(1_000_000) + 1;
        let timeout_ms = self.timeout.as_secs().saturating_mul(1000);
        self.deadline_ms = now_ms
            .saturating_add(timeout_ms)
            .saturating_add(part_ms.into())
            .min(u64::MAX - 1);
        if !self.request.ignores_fail_fast {
            self.shared.check_fail_fast(|| self.action())?;
        }
        let timestamp = self.shared.tick();
        let mut wakers = Vec::new();
        let (result, driver_waker) = {
            let mut core = self.shared.lock_state();
            let result = core.exchange.submit(
                &self.request,
                &timestamp,
                now_ms,
                self.deadline_ms,
                &mut wakers,
                waker,
            );
            (result, core.take_driver_waker())
        };
        wakers.into_iter().chain(driver_waker).for_each(Waker::wake);
        self.id = Some(result.map_err(|failure| self.failed(failure))?);
        Ok(())
    }

    fn finish(&self, completion: Completion) -> Result<Response, Error> {
        match completion {
            Completion::Failed(failure) => Err(self.failed(failure)),
            Completion::Response { publish, repeated } => {
                let response = self.read(&publish);
                if repeated {
                    // An earlier execution may have had another result.
                    response.map_err(|error| error.with_outcome(Outcome::Unknown))
                } else {
                    response
                }
            }
        }
    }

    #[cold]
    fn finish_traced(&mut self, completion: Completion) -> Result<Response, Error> {
        let result = self.finish(completion);
        self.end_trace(&result);
        result
    }

    #[cold]
    fn end_trace(&mut self, result: &Result<Response, Error>) {
        if let Some(trace) = self.trace.take() {
            trace.end(result);
        }
    }

    fn read(&self, publish: &Publish) -> Result<Response, Error> {
        let properties =
            ResponseProperties::parse(publish.user_property_bytes()).map_err(|error| {
                Error::new(
                    ErrorKind::Rpc,
                    rpc_outcome(&error),
                    self.action(),
                    error.to_string(),
                )
                .with_rpc_status(error.status)
            })?;
        if let Some(version) = &properties.version {
            self.shared.merge(version);
        }
        match Reply::decode(&publish.payload()) {
            Ok(Reply::Error(error)) => Err(Error::refused(self.action(), error)),
            Ok(Reply::Rejected {
                operation,
                reason: Rejection::Error(error),
            }) => match self.request.command {
                CommandRef::Transact { operations } if operation < operations.len() as u64 => {
                    Err(refused(operations, operation, error))
                }
                _ => Err(self.invalid("the response is one to TXN")),
            },
            Ok(reply) => Ok(Response {
                reply,
                version: properties.version,
            }),
            Err(error) => Err(self.invalid(error.to_string())),
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        let is_late = failure.kind == ErrorKind::TimedOut;
        let mut reason = failure.reason.into_owned();
        if is_late && !self.timeout.is_zero() {
            reason = format!("{reason} {}", within(self.timeout));
        }
        // While the connection is lost, the reason for the loss is the cause.
        let outage = is_late.then(|| self.shared.outage()).flatten();
        if let Some(outage) = &outage {
            reason = format!("{reason}; {outage}");
        }
        let error = Error::new(failure.kind, failure.outcome, self.action(), reason)
            .with_mqtt_reason(failure.mqtt_reason);
        match outage {
            Some(outage) => error.with_source(outage.cause),
            None => error,
        }
    }

    /// Returns the error for a response that does not match this request.
    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        invalid(self.request.command, reason)
    }

    /// Returns whether the request changes nothing that its caller needs to know about.
    pub(super) fn is_harmless(&self) -> bool {
        self.request.is_harmless()
    }

    /// Returns whether the request has a condition on a version.
    pub(super) fn is_if_version(&self) -> bool {
        match self.request.command {
            CommandRef::Set { options, .. } => matches!(options.condition, Condition::IfVersion(_)),
            CommandRef::Del { if_version, .. } | CommandRef::Vdel { if_version, .. } => {
                if_version.is_some()
            }
            _ => false,
        }
    }

    /// Returns the keys of an MGET; none for other requests.
    pub(super) fn keys(&self) -> &'a [Bytes] {
        match self.request.command {
            CommandRef::GetMany { keys } => keys,
            _ => &[],
        }
    }

    /// Returns whether the request is a GET with the option for the remaining time.
    pub(super) fn requests_remaining_time(&self) -> bool {
        matches!(
            self.request.command,
            CommandRef::Get {
                remaining: true,
                ..
            }
        )
    }

    pub(super) fn action(&self) -> String {
        action(self.request.command)
    }
}

/// Returns the error for a response that does not match this command.
pub(crate) fn invalid(command: CommandRef<'_>, reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidResponse,
        Outcome::Unknown,
        action(command),
        reason,
    )
}

/// Returns the error for an argument that cannot be sent.
pub(crate) fn invalid_argument(command: CommandRef<'_>, reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Outcome::NotDone,
        action(command),
        reason,
    )
}

/// Rejects a value that is longer than the settings allow.
pub(crate) fn check_value(
    shared: &Shared,
    command: CommandRef<'_>,
    value: &[u8],
) -> Result<(), Error> {
    let limit = shared.settings.max_value_bytes;
    if value.len() <= limit {
        return Ok(());
    }
    let reason = format!("a value of {} bytes; {limit} are allowed", value.len());
    Err(Error::new(
        ErrorKind::TooLarge,
        Outcome::NotDone,
        action(command),
        reason,
    ))
}

/// Returns the error for an operation that the store rejected, so that nothing was done.
fn refused(operations: &[TransactionOperation], operation: u64, error: ServiceError) -> Error {
    let operation = usize::try_from(operation).unwrap_or(usize::MAX);
    Error::refused(operation_action(operations, operation), error).with_operation(operation)
}

/// Returns whether a request may have been executed although the RPC layer reported an error.
fn rpc_outcome(error: &RpcError) -> Outcome {
    match error.status {
        Some(400 | 415 | 505) => Outcome::NotDone,
        _ => Outcome::Unknown,
    }
}

impl Future for Call<'_> {
    type Output = Result<Response, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(id) = this.id else {
            return match this.start(context.waker()) {
                Ok(()) => Poll::Pending,
                Err(error) => {
                    let result = Err(error);
                    this.end_trace(&result);
                    Poll::Ready(result)
                }
            };
        };
        let mut wakers = Vec::new();
        let (poll, driver_waker) = {
            let mut core = this.shared.lock_state();
            let pack = || {
                let packed = Box::new(EncodedRequest::new(&this.request, &this.shared.tick()));
                (packed, this.shared.now_ms())
            };
            if let Some(trace) = &mut this.trace {
                trace.attempts(core.exchange.attempts(id));
            }
            let poll = core.exchange.poll(id, pack, &mut wakers, context.waker());
            // A completed request leaves the driver nothing to do.
            let driver_waker = if poll.is_ready() {
                None
            } else {
                core.take_driver_waker()
            };
            (poll, driver_waker)
        };
        wakers.into_iter().chain(driver_waker).for_each(Waker::wake);
        poll.map(|completion| {
            this.id = None;
            if this.trace.is_some() {
                this.finish_traced(completion)
            } else {
                this.finish(completion)
            }
        })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let trace = self.trace.take();
            let mut wakers = Vec::new();
            let (outcome, attempts, driver_waker) = {
                let mut core = self.shared.lock_state();
                let attempts = trace.as_ref().map(|_| core.exchange.attempts(id));
                let outcome = core.exchange.abandon(id, self.shared.now_ms(), &mut wakers);
                (outcome, attempts, core.take_driver_waker())
            };
            wakers.into_iter().chain(driver_waker).for_each(Waker::wake);
            if let Some(mut trace) = trace {
                trace.attempts(attempts.unwrap_or_default());
                trace.cancel();
            }
            cancellation_recorder::record(if self.is_harmless() {
                Outcome::NotDone
            } else {
                outcome
            });
        }
    }
}
