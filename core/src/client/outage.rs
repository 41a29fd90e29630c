//! Lost connections.
use super::{ConnectionState, Shared};
use crate::error::{Error, ErrorKind, Outcome};
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::Instant;

/// A connection that is lost and not yet restored, or that could not be established so far.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Time since the loss; `None` if there was no connection before.
    lasted: Option<Duration>,
    /// The last failure: of the connection, or of an attempt to connect.
    pub(crate) cause: Error,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lasted, cause } = self;
        match lasted {
            Some(lasted) => write!(
                f,
                "the connection was lost {:.1} s ago: {cause}",
                lasted.as_secs_f64()
            ),
            None => write!(f, "there was no connection so far: {cause}"),
        }
    }
}

impl Outage {
    /// Returns the error of a call that must not wait for the end of the outage.
    pub(crate) fn fail_fast(self, action: String) -> Error {
        let reason = format!("it was not sent, because fail_fast is set and {self}");
        Error::new(ErrorKind::Unreachable, Outcome::NotDone, action, reason).with_source(self.cause)
    }
}

impl Shared {
    /// Records the start of an outage.
    pub(super) fn connection_lost(&self) {
        *self.lost_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns the outage, if the connection is lost.
    #[cold]
    pub(crate) fn outage(&self) -> Option<Outage> {
        let ConnectionState::Reconnecting(cause) = &*self.state.borrow() else {
            return None;
        };
        let lost_at = *self.lost_at.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Outage {
            lasted: lost_at.map(|at| at.elapsed()),
            cause: cause.clone(),
        })
    }

    /// Rejects a call of several requests while the connection is lost, if the setting `fail_fast` is on.
    pub(crate) fn check_fail_fast(&self, action: impl FnOnce() -> String) -> Result<(), Error> {
        if !self.settings.fail_fast {
            return Ok(());
        }
        match self.outage() {
            Some(outage) => Err(outage.fail_fast(action())),
            None => Ok(()),
        }
    }
}
