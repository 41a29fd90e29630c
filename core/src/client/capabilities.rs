//! Query of the optional capabilities of a store.
use super::Client;
use super::action::action;
use super::call::Call;
use super::deadline::{Deadline, within};
use crate::error::{Error, ErrorKind, Outcome};
use crate::request::OutgoingRequest;
use statestore_protocol::{Capabilities, CommandRef, ServiceError};
use std::time::Duration;

impl Client {
    /// Returns the optional capabilities of the store. A store that does not know the query has none of them.
    ///
    /// The client queries the store once for each connection. Dropping the future withdraws the request, which changes nothing.
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        let deadline = Deadline::after(self.shared().request_timeout());
        self.capabilities_within(&deadline, true).await
    }

    /// Like [`capabilities`](Self::capabilities), with a deadline. `waits` is whether the request may wait until it can be
    /// sent.
    pub(crate) async fn capabilities_within(
        &self,
        deadline: &Deadline,
        waits: bool,
    ) -> Result<Capabilities, Error> {
        let known = &self.shared().capabilities;
        if let Ok(capabilities) = known.get() {
            return Ok(capabilities);
        }
        let command = CommandRef::Capabilities;
        // A call that may not wait does not wait for a concurrent query either.
        let _query_guard = if waits {
            let timers = &self.shared().runtime;
            let acquired = timers
                .timeout(deadline.remaining(), known.query_lock.lock())
                .await;
            Some(acquired.map_err(|_| timeout_error(command, deadline))?)
        } else {
            None
        };
        let connection = match known.get() {
            Ok(capabilities) => return Ok(capabilities),
            Err(connection) => connection,
        };
        let request = OutgoingRequest {
            may_wait: waits,
            ..OutgoingRequest::new(command)
        };
        let mut call = Call::new(self.shared(), request, Some(deadline.remaining()));
        let capabilities = match (&mut call).await {
            Ok(response) => match response.reply.capabilities() {
                Some(capabilities) => capabilities,
                None => return Err(call.invalid("the response is not one to CAPS")),
            },
            Err(error) if is_unsupported_request(&error) => Capabilities::default(),
            Err(error) => return Err(error),
        };
        known.insert(connection, capabilities);
        Ok(capabilities)
    }

    /// Discards the capabilities after the store rejected a command that it had reported as supported. The store was replaced,
    /// and the next call queries the new one.
    pub(crate) fn invalidate_capabilities(&self) {
        self.shared().capabilities.invalidate();
    }

    /// Makes a call that only some stores support, if the capabilities of this store `permit` it.
    ///
    /// `command` names the call in errors. `call` gets the time that it may take, and the result of `permits`. If the store
    /// rejects the form of the request, the store was replaced since the query: the client queries it again and repeats the
    /// call.
    pub(super) async fn call_if_supported<P, T, F: Future<Output = Result<T, Error>>>(
        &self,
        deadline: &Deadline,
        waits: bool,
        command: CommandRef<'_>,
        permits: impl Fn(&Capabilities) -> Result<P, Error>,
        mut call: impl FnMut(Duration, P) -> F,
    ) -> Result<T, Error> {
        let mut is_first = true;
        loop {
            let capabilities = self.capabilities_within(deadline, waits).await;
            // No other request was sent so far.
            let capabilities = capabilities.map_err(|error| {
                let reason = format!(
                    "{} failed: {}",
                    action(CommandRef::Capabilities),
                    error.reason()
                );
                error
                    .with_outcome(Outcome::NotDone)
                    .with_action(action(command), reason)
            })?;
            let permitted = permits(&capabilities)?;
            match call(deadline.remaining(), permitted).await {
                Err(error) if is_first && is_unsupported_request(&error) => {
                    self.invalidate_capabilities();
                    is_first = false;
                }
                result => return result,
            }
        }
    }
}

/// Returns whether the store rejected a request that it does not know, and so did nothing.
pub(crate) fn is_unsupported_request(error: &Error) -> bool {
    error.outcome() == Outcome::NotDone
        && matches!(
            error.service_error(),
            Some(
                ServiceError::UnknownCommand | ServiceError::Syntax | ServiceError::WrongArguments
            )
        )
}

/// Returns the error for a capability that the store lacks.
pub(super) fn unsupported(command: CommandRef<'_>, reason: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        Outcome::NotDone,
        action(command),
        reason,
    )
}

/// Returns a check whether the store supports conditions on versions.
pub(super) fn permits_conditions(
    command: CommandRef<'_>,
) -> impl Fn(&Capabilities) -> Result<(), Error> {
    move |store| {
        if store.conditions {
            return Ok(());
        }
        let reason = "the store has no conditions on versions";
        Err(unsupported(command, reason))
    }
}

fn timeout_error(command: CommandRef<'_>, deadline: &Deadline) -> Error {
    let reason = format!("no response {}", within(deadline.timeout));
    Error::new(
        ErrorKind::TimedOut,
        Outcome::NotDone,
        action(command),
        reason,
    )
}
