//! A request as passed by its caller.
use super::Retry;
use statestore_protocol::CommandRef;

/// Whether a request is sent again in another session, if the outcome of the first time is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResendPolicy {
    Never,
    /// Sent again: executing it twice has the effect of executing it once.
    Idempotent,
    /// Sent again, even though it may be executed twice.
    Risky,
}

/// A request to send.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct OutgoingRequest<'a> {
    pub(crate) command: CommandRef<'a>,
    /// `__ft`
    pub(crate) fencing_token: Option<&'a str>,
    /// `aio-persistence`
    pub(crate) persist: bool,
    pub(crate) retry: Retry,
    /// Whether the request may wait for its turn.
    pub(crate) may_wait: bool,
    /// Whether the request waits for a lost connection in spite of the setting `fail_fast`.
    pub(crate) ignores_fail_fast: bool,
    /// Whether a newer request of the same key may replace this one while the connection is lost.
    pub(crate) coalesce: bool,
}

impl<'a> OutgoingRequest<'a> {
    /// Creates a request without options.
    pub(crate) fn new(command: CommandRef<'a>) -> Self {
        Self {
            command,
            fencing_token: None,
            persist: false,
            retry: Retry::default(),
            may_wait: true,
            ignores_fail_fast: false,
            coalesce: false,
        }
    }

    /// Returns the key, if the request may wait and a newer request of that key may replace it during an outage.
    pub(super) fn coalesced_key(&self) -> Option<&'a [u8]> {
        match self.command {
            CommandRef::Set { key, .. } if self.coalesce && self.may_wait => Some(key),
            _ => None,
        }
    }

    /// Returns whether the request is sent again as a new one; see [`Retry`].
    pub(super) fn resend_policy(&self) -> ResendPolicy {
        match self.retry {
            Retry::Never => ResendPolicy::Never,
            _ if self.is_harmless() => ResendPolicy::Idempotent,
            Retry::Safe => ResendPolicy::Never,
            Retry::Always => ResendPolicy::Risky,
        }
    }

    /// Returns whether it is harmless to execute the request twice, or late.
    pub(crate) fn is_harmless(&self) -> bool {
        match self.command {
            CommandRef::Get { .. }
            | CommandRef::GetMany { .. }
            | CommandRef::Scan { .. }
            | CommandRef::Watch { .. }
            | CommandRef::Unwatch { .. }
            | CommandRef::WatchPattern { .. }
            | CommandRef::UnwatchPattern { .. }
            | CommandRef::Capabilities => true,
            CommandRef::Set { .. }
            | CommandRef::Del { .. }
            | CommandRef::Vdel { .. }
            | CommandRef::Transact { .. } => false,
        }
    }
}
