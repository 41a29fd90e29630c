//! A request as its caller gives it.
use super::Again;
use crate::client::Retry;
use statestore_protocol::CommandRef;

/// A request as it is sent.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct Outgoing<'a> {
    pub(crate) command: CommandRef<'a>,
    /// `__ft`
    pub(crate) fencing_token: Option<&'a str>,
    /// `aio-persistence`
    pub(crate) persist: bool,
    pub(crate) retry: Retry,
    /// It may wait for its turn to be sent.
    pub(crate) waits: bool,
    /// It waits for a lost connection in spite of the setting `fail_fast`.
    pub(crate) waits_out_outages: bool,
    /// While there is no connection, a newer one of the same key may take its place.
    pub(crate) coalesce: bool,
}

impl<'a> Outgoing<'a> {
    /// A command without any options.
    pub(crate) fn new(command: CommandRef<'a>) -> Self {
        Self {
            command,
            fencing_token: None,
            persist: false,
            retry: Retry::default(),
            waits: true,
            waits_out_outages: false,
            coalesce: false,
        }
    }

    /// The key, if it may wait, and only the newest request of that key is to be sent once there is a connection again.
    pub(super) fn coalesced_key(&self) -> Option<&'a [u8]> {
        match self.command {
            CommandRef::Set { key, .. } if self.coalesce && self.waits => Some(key),
            _ => None,
        }
    }

    /// Whether it is sent a second time, as another request; see [`Retry`].
    pub(super) fn again(&self) -> Again {
        match self.retry {
            Retry::Never => Again::No,
            _ if self.is_harmless() => Again::Harmless,
            Retry::Safe => Again::No,
            Retry::Always => Again::Risky,
        }
    }

    /// Whether it does no harm to be executed twice, or late.
    pub(crate) fn is_harmless(&self) -> bool {
        match self.command {
            CommandRef::Get { .. }
            | CommandRef::Scan { .. }
            | CommandRef::Watch { .. }
            | CommandRef::Unwatch { .. }
            | CommandRef::Capabilities => true,
            CommandRef::Set { .. }
            | CommandRef::Del { .. }
            | CommandRef::Vdel { .. }
            | CommandRef::Transact { .. } => false,
        }
    }
}
