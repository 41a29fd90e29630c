//! What is asked of the store, and what comes of it.
use crate::access::{Principal, Rights};
use crate::keyspace::{RequestDigest, Ticket};
use bytes::Bytes;
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, Event, Hlc, Rejection, Reply, ServiceError};
use std::sync::Arc;

/// A request on its way to the service, whatever way it came.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// Who asks what.
    pub request: Request<'a>,
    /// After this millisecond on the monotonic clock it is not to be executed any more.
    pub deadline_ms: Option<u64>,
    /// Whether there is room for what is answered.
    pub has_room: bool,
    /// Whether other servers over the same entries may be given the same request.
    pub is_shared: bool,
}

/// Why a request was not executed, as far as its payload has nothing to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its deadline had passed.
    Expired,
    /// There is no room for its answer.
    NoRoom,
    /// What has the entries does not answer.
    Away,
}

/// A commit by its number; numbers rise by one. What tells of the writes in it does not leave before it is durable.
/// 0 stands for "durable".
pub type Commit = u64;

/// The answer to a request that was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// What it says.
    pub response: Response,
    /// What it waits for.
    pub commit: Commit,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was executed, or refused for what it says.
    Answered(Answered),
    /// It was not executed, and will not be.
    Refused(Refusal),
    /// It was executed or not, or still will be: nobody knows. Nothing is to be said that sounds like one of these.
    Unknown,
}

/// What is known of a request when it was asked.
#[derive(Debug)]
pub enum Reception {
    /// Everything.
    Ended(Outcome),
    /// Its outcome comes later, from [`take_outcome`](super::Service::take_outcome) under this ticket.
    Later(Ticket),
}

impl Request<'_> {
    /// Names it for all servers that may be given it: as of whoever asks, since somebody else with the same client id has not asked it.
    #[inline(never)]
    pub(super) fn digest(&self) -> RequestDigest {
        let properties = &self.properties;
        let [timestamp, token] = [&properties.timestamp, &properties.fencing_token].map(|given| {
            let given = given.as_ref()?;
            Some(
                given
                    .as_ref()
                    .map_or_else(|_| String::new(), Hlc::to_string),
            )
        });
        let content = [
            Some(self.client.as_bytes()),
            Some(self.correlation),
            Some(&self.payload[..]),
            timestamp.as_deref().map(str::as_bytes),
            token.as_deref().map(str::as_bytes),
        ];
        let owner = self.principal.owner().parts();
        RequestDigest::of(content.into_iter().chain(owner.into_iter().map(Some)))
    }
}

/// One request, as it is executed.
#[derive(Debug)]
pub struct Request<'a> {
    /// Who asks. Watches and remembered answers are for whoever has this name.
    pub client: &'a Arc<str>,
    /// In whose name the client asks.
    pub principal: &'a Principal,
    /// What it may; `None` is everything.
    pub rights: Option<&'a Arc<Rights>>,
    /// What the client knows the request by; not empty, of any length.
    pub correlation: &'a [u8],
    /// The RESP3 payload.
    pub payload: &'a Bytes,
    /// User properties.
    pub properties: RequestProperties,
    /// Whether the client can deliver it again: its session outlives its connection.
    pub may_return: bool,
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The payload.
    pub reply: Reply,
    /// `__ts`, on the replies that carry one.
    pub version: Option<Hlc>,
    /// What it tells of the state of the store.
    pub shown: Shown,
    /// The number under which it is remembered for a redelivery, until
    /// [`answer_received`](super::Service::answer_received).
    pub answer: Option<u64>,
}

/// What of the store's state an answer tells, and with it of writes that a crash could still undo. That a key is absent
/// tells of the write that deleted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// Nothing that a write has changed: the answer is about the request alone.
    Nothing,
    /// What the last write of this key has made of it.
    Key(Bytes),
    /// What all writes together have made: a page of a scan, what became of a transaction, or that the store is full.
    Everything,
}

impl Shown {
    /// Takes the command, so that nobody else has to hold its key.
    pub(super) fn by(reply: &Reply, command: Command) -> Self {
        match (reply, command) {
            (
                Reply::Error(error)
                | Reply::Rejected {
                    reason: Rejection::Error(error),
                    ..
                },
                _,
            ) if *error == ServiceError::QuotaExceeded => Self::Everything,
            (
                Reply::Error(error)
                | Reply::Rejected {
                    reason: Rejection::Error(error),
                    ..
                },
                _,
            ) if !is_about_token(error) => Self::Nothing,
            // What a transaction has changed is in the newest commit.
            (_, Command::Scan { .. } | Command::Transact { .. }) => Self::Everything,
            // That a watch has begun does not come before what an earlier one has seen.
            (
                _,
                Command::Set { key, .. }
                | Command::Get { key, .. }
                | Command::Del { key, .. }
                | Command::Vdel { key, .. }
                | Command::Watch { key }
                | Command::Unwatch { key },
            ) => Self::Key(key),
            _ => Self::Nothing,
        }
    }
}

/// A change that watching clients are told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// Who watches, in the order of their client ids. A client that changes a key it watches is among them.
    pub clients: Arc<Vec<Arc<str>>>,
    /// The key.
    pub key: Bytes,
    /// The change.
    pub event: Event,
    /// Its version.
    pub version: Hlc,
}

impl From<Reply> for Response {
    /// A reply without a version that tells of nothing.
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            version: None,
            shown: Shown::Nothing,
            answer: None,
        }
    }
}

impl From<ServiceError> for Response {
    /// A refusal.
    fn from(error: ServiceError) -> Self {
        Reply::Error(error).into()
    }
}

/// Whether an error tells of the token that protects a key.
fn is_about_token(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::FencingTokenRequired | ServiceError::FencingTokenLower
    )
}

/// Whether a request with this payload could change an entry.
pub(crate) fn may_write(payload: &Bytes) -> bool {
    Command::decode(payload).is_ok_and(|command| changes_entries(&command))
}

/// Whether a command could change an entry. A redelivery of it is answered from memory.
pub(super) fn changes_entries(command: &Command) -> bool {
    matches!(
        command,
        Command::Set { .. } | Command::Del { .. } | Command::Vdel { .. } | Command::Transact { .. }
    )
}
