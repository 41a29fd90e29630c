//! Requests to the store, and their outcomes.
use crate::keyspace::{RequestDigest, Ticket};
use bytes::Bytes;
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, Event, Hlc, Rejection, Reply, ServiceError};
use statestored_access::{Principal, Rights};
use std::sync::Arc;

/// A request on its way to the service, from any transport.
#[derive(Debug)]
pub struct RequestEnvelope<'a> {
    /// The request.
    pub request: Request<'a>,
    /// Deadline in milliseconds of the monotonic clock. After it, the request is not executed any more.
    pub deadline_ms: Option<u64>,
    /// Whether there is room for the answer.
    pub has_capacity: bool,
    /// Maximum number of payload bytes of a response that can be a part of the result: to an MGET, or a page of a SCAN. It has
    /// at least one key or entry. Other responses may be larger.
    pub max_reply_bytes: usize,
    /// Whether other servers over the same entries may receive the same request.
    pub is_shared: bool,
}

/// Reason why a request was not executed, independent of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotExecutedReason {
    /// The deadline had passed.
    Expired,
    /// There is no room for the answer.
    NoCapacity,
    /// The engine that has the entries does not answer.
    Unavailable,
}

/// The error text for a command that could change an entry while the store is read-only.
pub const READ_ONLY: &str = "the store is read-only because its disk is full; free space on the server's disk, then try again";

/// Number of a commit; numbers rise by one. Answers and notifications that reveal its writes are not sent before it is
/// durable. The value 0 means "durable".
pub type CommitIndex = u64;

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The request was executed, or rejected because of its content.
    Replied(ReplyEnvelope),
    /// The request was not executed, and will not be.
    Refused(NotExecutedReason),
    /// The request may or may not have been executed, or may still be. Send no response: any response would claim one
    /// of these.
    Unknown,
}

/// Result of [`submit`](super::Service::submit).
#[derive(Debug)]
pub enum RequestProgress {
    /// The outcome, known at once.
    Complete(Outcome),
    /// The outcome comes later, from [`take_outcome`](super::Service::take_outcome) under this ticket.
    Pending(Ticket),
}

impl Request<'_> {
    /// Returns a digest that identifies the request on all servers that may receive it. The digest covers the owner,
    /// because another principal with the same client id makes other requests.
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
        let owner = self.principal.owner().identity_parts();
        RequestDigest::of(content.into_iter().chain(owner.into_iter().map(Some)))
    }
}

/// A request to be executed.
#[derive(Debug)]
pub struct Request<'a> {
    /// Client id of the sender. Watches and remembered answers belong to this client id.
    pub client: &'a Arc<str>,
    /// Principal on whose behalf the client asks.
    pub principal: &'a Principal,
    /// Rights of the client; `None` allows everything.
    pub rights: Option<&'a Arc<Rights>>,
    /// Correlation data of the request; not empty, of any length.
    pub correlation: &'a [u8],
    /// The RESP3 payload.
    pub payload: &'a Bytes,
    /// User properties.
    pub properties: RequestProperties,
    /// Whether the client can deliver the request again: its session outlives its connection.
    pub may_be_redelivered: bool,
}

/// The answer to a request that was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyEnvelope {
    /// The payload.
    pub reply: Reply,
    /// `__ts`, on the replies that carry one.
    pub version: Option<Hlc>,
    /// The commit that the response waits for.
    pub commit_index: CommitIndex,
    /// Number under which the response is remembered for a redelivery, until
    /// [`forget_reply`](super::Service::forget_reply).
    pub replay_number: Option<u64>,
}

/// State of the store that an answer reveals. The answer thereby depends on writes that a crash could still undo: that
/// a key is absent reveals the write that deleted it.
pub(super) enum RevealedState {
    /// No state that a write has changed: the answer is about the request alone.
    Nothing,
    /// The state of this key after its last write.
    Key(Bytes),
    /// The states of these keys after their last writes.
    Keys(Vec<Bytes>),
    /// The state after all writes: a page of a scan, the result of a transaction, or that the store is full.
    Everything,
}

impl RevealedState {
    /// Returns the state that a reply reveals. Takes the command, so that its key need not be held elsewhere.
    pub(super) fn revealed_by(reply: &Reply, command: Command) -> Self {
        match (error_of(reply), command) {
            (Some(ServiceError::QuotaExceeded), _) => Self::Everything,
            // Other errors, except those about the token that protects a key.
            (Some(error), _)
                if !matches!(
                    error,
                    ServiceError::FencingTokenRequired | ServiceError::FencingTokenLower
                ) =>
            {
                Self::Nothing
            }
            // The changes of a transaction are in the newest commit.
            // The reply to a watch of a pattern must not overtake earlier changes of any key that matches.
            (
                _,
                Command::Scan { .. }
                | Command::Transact { .. }
                | Command::WatchPattern { .. }
                | Command::UnwatchPattern { .. },
            ) => Self::Everything,
            // The reply that begins a watch must not overtake changes that an earlier watch has seen.
            (
                _,
                Command::Set { key, .. }
                | Command::Get { key, .. }
                | Command::Del { key, .. }
                | Command::Vdel { key, .. }
                | Command::Watch { key }
                | Command::Unwatch { key },
            ) => Self::Key(key),
            (_, Command::GetMany { keys }) => Self::Keys(keys),
            _ => Self::Nothing,
        }
    }
}

/// The watches through which the clients of a notification get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationScope {
    /// All clients watch the key itself.
    Key,
    /// Some clients watch a pattern that the key matches. A client is notified only if it may read the key.
    Matching,
    /// All clients watch the pattern that the notification has in place of a key.
    Pattern,
}

/// A change of which watching clients are notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeNotification {
    /// Watching clients, in the order of their client ids. A client that changes a key it watches is among them.
    pub clients: Arc<Vec<Arc<str>>>,
    /// The watches of these clients.
    pub scope: NotificationScope,
    /// The key, or the pattern of an [`Event::Resync`].
    pub key: Bytes,
    /// The change.
    pub event: Event,
    /// Version of the change.
    pub version: Hlc,
}

impl ChangeNotification {
    /// Notifies clients that changes of keys which match this pattern may be missing.
    pub fn resync(pattern: &[u8], clients: &Arc<Vec<Arc<str>>>) -> Self {
        Self {
            clients: Arc::clone(clients),
            scope: NotificationScope::Pattern,
            key: Bytes::copy_from_slice(pattern),
            event: Event::Resync,
            version: Hlc::store_version((0, 0)),
        }
    }
}

impl From<Reply> for ReplyEnvelope {
    /// Returns a response without a version, which waits for no commit.
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            version: None,
            commit_index: 0,
            replay_number: None,
        }
    }
}

impl From<ServiceError> for ReplyEnvelope {
    /// Returns a response with this error.
    fn from(error: ServiceError) -> Self {
        Reply::Error(error).into()
    }
}

/// Returns the error with which a request, or an operation of a transaction, was rejected.
pub fn error_of(reply: &Reply) -> Option<&ServiceError> {
    match reply {
        Reply::Error(error)
        | Reply::Rejected {
            reason: Rejection::Error(error),
            ..
        } => Some(error),
        _ => None,
    }
}

/// Returns whether a request with this payload could change an entry.
pub fn may_write(payload: &Bytes) -> bool {
    Command::decode(payload).is_ok_and(|command| changes_entries(&command))
}

/// Returns whether a command could change an entry. A redelivery of such a command is answered from memory.
pub(super) fn changes_entries(command: &Command) -> bool {
    matches!(
        command,
        Command::Set { .. } | Command::Del { .. } | Command::Vdel { .. } | Command::Transact { .. }
    )
}
