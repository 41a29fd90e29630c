//! Asking what a store can do besides the protocol that all stores have.
use super::Client;
use super::call::{Call, action};
use super::deadline::{Deadline, shown};
use crate::error::{Error, ErrorKind, Outcome};
use crate::request::Outgoing;
use statestore_protocol::{Capabilities, CommandRef, ServiceError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is known of the store.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// How many connections there were so far. The store behind the next one may be another.
    connections: AtomicU64,
    /// Of the store behind the connection of this number.
    capabilities: Mutex<Option<(u64, Capabilities)>>,
    /// Who asks has the lock, so that others do not ask as well.
    asking: tokio::sync::Mutex<()>,
}

impl Known {
    /// There is a new connection.
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> Result<Capabilities, u64> {
        let connection = self.connections.load(Ordering::Relaxed);
        match *self.lock() {
            Some((of, capabilities)) if of == connection => Ok(capabilities),
            _ => Err(connection),
        }
    }

    fn learn(&self, connection: u64, capabilities: Capabilities) {
        *self.lock() = Some((connection, capabilities));
    }

    /// The store is another one by now.
    fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, Capabilities)>> {
        self.capabilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// What the store can do besides the protocol that all stores have. A store that does not know the question can do none of it.
    ///
    /// The store is asked once for each connection. Dropping the future takes the request back; nothing is changed by it.
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        let deadline = Deadline::after(self.shared().request_timeout());
        self.capabilities_within(&deadline, true).await
    }

    /// `waits`: whether the request may wait until it can be sent.
    pub(crate) async fn capabilities_within(
        &self,
        deadline: &Deadline,
        waits: bool,
    ) -> Result<Capabilities, Error> {
        let known = &self.shared().known;
        if let Ok(capabilities) = known.get() {
            return Ok(capabilities);
        }
        let command = CommandRef::Capabilities;
        // Who may not wait does not wait for somebody else's answer either.
        let _asking = if waits {
            let timers = &self.shared().timers;
            let asking = timers.timeout(deadline.left(), known.asking.lock()).await;
            Some(asking.map_err(|_| too_late(command, deadline))?)
        } else {
            None
        };
        let connection = match known.get() {
            Ok(capabilities) => return Ok(capabilities),
            Err(connection) => connection,
        };
        let request = Outgoing {
            waits,
            ..Outgoing::new(command)
        };
        let mut ask = Call::new(self.shared(), request, Some(deadline.left()));
        let capabilities = match (&mut ask).await {
            Ok(response) => match response.reply.capabilities() {
                Some(capabilities) => capabilities,
                None => return Err(ask.invalid("the response is not one to CAPS")),
            },
            Err(error) if is_unknown_form(&error) => Capabilities::default(),
            Err(error) => return Err(error),
        };
        known.learn(connection, capabilities);
        Ok(capabilities)
    }

    /// The store does not know what it said that it knows, so it is another one by now: the next call asks again.
    pub(crate) fn forget_capabilities(&self) {
        self.shared().known.forget();
    }

    /// Makes a call that only some stores know, if what the store can do `permits` it.
    ///
    /// `command` is what the call is for, for errors. `call` gets the time that it may take, and what was permitted. It is made a second time if the store does not understand it, so that it is another
    /// one than the one that was asked.
    pub(super) async fn if_capable<P, T, F: Future<Output = Result<T, Error>>>(
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
            // Nothing else was sent so far.
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
            match call(deadline.left(), permitted).await {
                Err(error) if is_first && is_unknown_form(&error) => {
                    self.forget_capabilities();
                    is_first = false;
                }
                result => return result,
            }
        }
    }
}

/// Whether the store certainly did nothing, because it does not know such a request.
pub(crate) fn is_unknown_form(error: &Error) -> bool {
    error.outcome() == Outcome::NotDone
        && matches!(
            error.service_error(),
            Some(
                ServiceError::UnknownCommand | ServiceError::Syntax | ServiceError::WrongArguments
            )
        )
}

/// The store cannot do that.
pub(super) fn unsupported(command: CommandRef<'_>, reason: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        Outcome::NotDone,
        action(command),
        reason,
    )
}

/// Whether the store has conditions on versions.
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

fn too_late(command: CommandRef<'_>, deadline: &Deadline) -> Error {
    let reason = format!("no response within {:?}", shown(deadline.timeout));
    Error::new(
        ErrorKind::TimedOut,
        Outcome::NotDone,
        action(command),
        reason,
    )
}
