//! Remembered answers: a redelivered request gets the same answer again, and is not executed again.
//!
//! After a reconnect, a client sends every publish again whose acknowledgement it has not seen. The first delivery may
//! have been executed. Therefore the answers to SET, DEL, VDEL and TXN are remembered for each client id. They
//! are kept until the client has acknowledged the response or its session ends. The number of remembered answers is limited to the number
//! of unacknowledged requests that the client may have. Answers of one client are never dropped because of other
//! clients. The DUP flag is ignored, since not every sender of duplicates sets it.
//!
//! - **Covered clients**: those whose session outlives the connection. Other clients do not redeliver.
//! - **Identity of a request**: the client id, the principal, the correlation data, and the content (payload, `__ts`,
//!   `__ft`). If a careless client reuses correlation data for a second, different request, that request is executed. A
//!   redelivery is the same to the last byte, `__ts` included.
//! - **Reads** are executed again. They change nothing. As the request has not been answered yet, a newer value is as
//!   true an answer as an older one.
//! - **KEYNOTIFY** must be executed again as well: a redelivery comes on a new connection, and the watch ended with the
//!   former connection. The answer `+OK` without a watch would be wrong.
//! - **Rejections** (`-ERR`) are remembered like every other answer. Otherwise a SET that was rejected because the
//!   store was full could be executed later, when its sender no longer expects it.
//!
//! - **Pending requests** are remembered as pending. A redelivery waits for the same outcome. If the outcome is
//!   unknown, a redelivery is not executed either.
//!
//! Remembered answers are lost with the process.
use super::ServiceConfig;
use super::request::{ReplyEnvelope, Request};
use crate::keyspace::Ticket;
use crate::keyspace::rules::Version;
use foldhash::quality::RandomState;
use hashbrown::HashTable;
use siphasher::sip128::SipHasher13;
use statestore_protocol::{Hlc, Rejection, Reply, ServiceError, Version as Given};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Bytes of memory of an answer, and of a client that has any.
const CACHED_REPLY_BYTES: usize = 128;
const CLIENT_BYTES: usize = 256;

/// Capacity that a ring without answers keeps.
const MIN_CAPACITY: usize = 8;

/// The remembered answers of all clients.
pub(super) struct ReplayCache {
    clients: HashMap<Arc<str>, Ring, RandomState>,
    /// Number of answers in all rings.
    reply_count: usize,
    /// Bytes that these answers take beyond [`CACHED_REPLY_BYTES`].
    reply_bytes: usize,
    max_per_client: usize,
    correlation_hash: SipHasher13,
    content_hash: RandomState,
}

/// Identity of a request among those of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestId {
    /// Hash of the correlation data, whatever its length. It is keyed with a secret, and so without collisions.
    correlation: [u64; 2],
    content: u64,
}

/// The remembered answers of one client, oldest first.
#[derive(Default)]
struct Ring {
    /// Answers in the order of their numbers; `None` for answers that were forgotten.
    replies: VecDeque<Option<CachedReply>>,
    /// Number of the first of `replies`. Numbers follow the order of arrival.
    first: u64,
    /// Numbers of answers by correlation.
    numbers: HashTable<u64>,
    /// Bytes that the answers take beyond [`CACHED_REPLY_BYTES`].
    bytes: usize,
}

struct CachedReply {
    id: RequestId,
    reply: WriteReply,
    version: Option<Version>,
}

/// Compact form of the replies that a state-changing request can get.
enum WriteReply {
    Ok,
    NotApplied,
    Count(u64),
    Error(Box<ServiceError>),
    Transacted(Box<[Option<Given>]>),
    Rejected(u64, Box<Rejection>),
    /// No reply yet: the request is pending.
    Pending(Ticket),
    /// No reply ever: the outcome is unknown.
    Unknown,
}

/// Knowledge about a request that was delivered before.
#[derive(Debug)]
pub(super) enum PreviousDelivery {
    /// The request was answered with this response.
    Replied(ReplyEnvelope),
    /// The request is pending under this ticket, and a redelivery gets the same outcome.
    Pending(Ticket),
    /// The outcome is unknown.
    Unknown,
}

/// Slot in which the answer to a pending request is remembered.
#[derive(Debug)]
pub(super) struct ReplaySlot {
    client: Arc<str>,
    number: u64,
}

impl ReplayCache {
    pub(super) fn new(config: &ServiceConfig) -> Self {
        let [a, b] = config.hash_key;
        Self {
            clients: HashMap::default(),
            reply_count: 0,
            reply_bytes: 0,
            max_per_client: config.replay_per_client,
            // another key than that of the table
            correlation_hash: SipHasher13::new_with_keys(!a, !b),
            content_hash: RandomState::default(),
        }
    }

    pub(super) fn identify(&self, request: &Request<'_>) -> RequestId {
        let properties = &request.properties;
        let content = self.content_hash.hash_one((
            request.principal.owner(),
            &request.payload[..],
            well_formed(properties.timestamp.as_ref()),
            well_formed(properties.fencing_token.as_ref()),
        ));
        RequestId {
            correlation: self
                .correlation_hash
                .hash(request.correlation)
                .as_u64()
                .into(),
            content,
        }
    }

    /// Returns the bytes of memory that all answers take.
    pub(super) fn bytes(&self) -> usize {
        self.reply_count * CACHED_REPLY_BYTES + self.reply_bytes + self.clients.len() * CLIENT_BYTES
    }

    /// Returns the bytes of memory that the answers of one client take.
    pub(super) fn bytes_of(&self, client: &str) -> usize {
        self.clients.get(client).map_or(0, |ring| {
            ring.numbers.len() * CACHED_REPLY_BYTES + ring.bytes + CLIENT_BYTES
        })
    }

    /// Returns the knowledge about this request, if the client has delivered it before.
    pub(super) fn find(&self, client: &str, id: &RequestId) -> Option<PreviousDelivery> {
        let ring = self.clients.get(client)?;
        let number = ring.find(id.correlation)?;
        let answer = ring.get(number).filter(|answer| answer.id == *id)?;
        let reply = match &answer.reply {
            WriteReply::Ok => Reply::Ok,
            WriteReply::NotApplied => Reply::NotApplied,
            WriteReply::Count(count) => Reply::Count(*count),
            WriteReply::Error(error) => Reply::Error((**error).clone()),
            WriteReply::Transacted(versions) => Reply::Transacted(versions.to_vec()),
            WriteReply::Rejected(operation, reason) => Reply::Rejected {
                operation: *operation,
                reason: (**reason).clone(),
            },
            WriteReply::Pending(ticket) => return Some(PreviousDelivery::Pending(*ticket)),
            WriteReply::Unknown => return Some(PreviousDelivery::Unknown),
        };
        Some(PreviousDelivery::Replied(ReplyEnvelope {
            version: answer.version.map(Hlc::store_version),
            replay_number: Some(number),
            ..reply.into()
        }))
    }

    /// Remembers an answer and returns its number. Forgets a former answer to the same correlation data.
    pub(super) fn remember(
        &mut self,
        client: &Arc<str>,
        id: RequestId,
        response: &ReplyEnvelope,
    ) -> Option<u64> {
        let reply = WriteReply::of(&response.reply)?;
        self.put(client, id, reply, version_of(response))
    }

    /// Remembers that the outcome of a request is unknown.
    pub(super) fn remember_unknown(&mut self, client: &Arc<str>, id: RequestId) {
        self.put(client, id, WriteReply::Unknown, None);
    }

    /// Remembers that a request is pending. Returns the slot for its answer.
    pub(super) fn remember_pending(
        &mut self,
        client: &Arc<str>,
        id: RequestId,
        ticket: Ticket,
    ) -> Option<ReplaySlot> {
        let number = self.put(client, id, WriteReply::Pending(ticket), None)?;
        let client = Arc::clone(client);
        Some(ReplaySlot { client, number })
    }

    fn put(
        &mut self,
        client: &Arc<str>,
        id: RequestId,
        reply: WriteReply,
        version: Option<Version>,
    ) -> Option<u64> {
        if self.max_per_client == 0 {
            return None;
        }
        let answer = CachedReply { id, reply, version };
        let ring = match self.clients.get_mut(&**client) {
            Some(ring) => ring,
            None => self.clients.entry(client.clone()).or_default(),
        };
        let (before, bytes_before) = (ring.numbers.len(), ring.bytes);
        let number = ring.put(answer, self.max_per_client);
        self.reply_count = self.reply_count + ring.numbers.len() - before;
        self.reply_bytes = self.reply_bytes + ring.bytes - bytes_before;
        Some(number)
    }

    /// Fills the slot of a pending request with its answer. Returns the number of the answer, if it is still to be
    /// remembered.
    pub(super) fn fill(
        &mut self,
        place: &ReplaySlot,
        ticket: Ticket,
        response: &ReplyEnvelope,
    ) -> Option<u64> {
        let reply = WriteReply::of(&response.reply)?;
        let bytes = reply.bytes();
        let answer = self.pending_mut(place, ticket)?;
        answer.reply = reply;
        answer.version = version_of(response);
        if let Some(ring) = self.clients.get_mut(&*place.client) {
            ring.bytes += bytes;
            self.reply_bytes += bytes;
        }
        Some(place.number)
    }

    /// Records that the outcome of a pending request is unknown.
    pub(super) fn fill_unknown(&mut self, place: &ReplaySlot, ticket: Ticket) {
        if let Some(answer) = self.pending_mut(place, ticket) {
            answer.reply = WriteReply::Unknown;
        }
    }

    /// Forgets a pending request that was not executed. A redelivery of it is a new request.
    pub(super) fn forget_pending(&mut self, place: &ReplaySlot, ticket: Ticket) {
        if self.pending_mut(place, ticket).is_some() {
            self.forget(&place.client, place.number);
        }
    }

    fn pending_mut(&mut self, place: &ReplaySlot, ticket: Ticket) -> Option<&mut CachedReply> {
        let ring = self.clients.get_mut(&*place.client)?;
        // If the session has ended meanwhile, the slot is gone, and the numbers of the next session start again.
        ring.get_mut(place.number)
            .filter(|answer| matches!(answer.reply, WriteReply::Pending(it) if it == ticket))
    }

    /// Forgets the answer with this number.
    pub(super) fn forget(&mut self, client: &str, number: u64) {
        if let Some(ring) = self.clients.get_mut(client) {
            let before = ring.bytes;
            self.reply_count -= usize::from(ring.forget(number));
            self.reply_bytes -= before - ring.bytes;
        }
    }

    pub(super) fn forget_client(&mut self, client: &str) {
        if let Some(ring) = self.clients.remove(client) {
            self.reply_count -= ring.numbers.len();
            self.reply_bytes -= ring.bytes;
        }
    }
}

fn version_of(response: &ReplyEnvelope) -> Option<Version> {
    let version = response.version.as_ref()?;
    Some((version.wall_ms(), version.counter()))
}

fn well_formed<E>(property: Option<&Result<Hlc, E>>) -> Option<&Hlc> {
    property.and_then(|hlc| hlc.as_ref().ok())
}

impl Ring {
    /// Returns the number of the answer to this correlation data.
    fn find(&self, correlation: [u64; 2]) -> Option<u64> {
        let is_it = |&number: &u64| {
            let answer = self.get(number);
            answer.is_some_and(|answer| answer.id.correlation == correlation)
        };
        self.numbers.find(correlation[0], is_it).copied()
    }

    /// Adds an answer and returns its number. Forgets all answers before the last `max`.
    fn put(&mut self, answer: CachedReply, max: usize) -> u64 {
        if let Some(former) = self.find(answer.id.correlation) {
            self.forget(former);
        }
        if self.replies.len() >= max {
            self.forget(self.first);
        }
        let number = self.first + self.replies.len() as u64;
        let correlation = answer.id.correlation;
        self.bytes += answer.reply.bytes();
        self.replies.push_back(Some(answer));
        let (answers, first) = (&self.replies, self.first);
        self.numbers
            .insert_unique(correlation[0], number, |&number| {
                let answer = answers[offset(number, first)].as_ref();
                answer.map_or(0, |answer| answer.id.correlation[0])
            });
        number
    }

    /// Forgets the answer with this number. Returns whether there was one.
    fn forget(&mut self, number: u64) -> bool {
        if number < self.first || offset(number, self.first) >= self.replies.len() {
            return false;
        }
        let Some(answer) = self.replies[offset(number, self.first)].take() else {
            return false;
        };
        self.bytes -= answer.reply.bytes();
        let hash = answer.id.correlation[0];
        if let Ok(found) = self.numbers.find_entry(hash, |&other| other == number) {
            found.remove();
        }
        while let Some(None) = self.replies.front() {
            self.replies.pop_front();
            self.first += 1;
        }
        if self.replies.is_empty() && self.replies.capacity() > MIN_CAPACITY {
            self.replies = VecDeque::new();
            self.numbers = HashTable::new();
        }
        true
    }

    fn get(&self, number: u64) -> Option<&CachedReply> {
        self.replies[offset(number, self.first)].as_ref()
    }

    /// Returns the answer with this number, if it has not been forgotten.
    fn get_mut(&mut self, number: u64) -> Option<&mut CachedReply> {
        let offset = number.checked_sub(self.first)?;
        self.replies
            .get_mut(usize::try_from(offset).ok()?)?
            .as_mut()
    }
}

/// Returns the index of the answer with this number in a ring that begins with `first`.
// a ring is no longer than memory
#[allow(clippy::cast_possible_truncation)]
fn offset(number: u64, first: u64) -> usize {
    (number - first) as usize
}

impl WriteReply {
    /// Returns the compact form of a reply; `None` for replies that only reads get.
    fn of(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Ok => Some(Self::Ok),
            Reply::NotApplied => Some(Self::NotApplied),
            Reply::Count(count) => Some(Self::Count(*count)),
            Reply::Error(error) => Some(Self::Error(Box::new(error.clone()))),
            Reply::Transacted(versions) => Some(Self::Transacted(versions[..].into())),
            Reply::Rejected { operation, reason } => {
                Some(Self::Rejected(*operation, Box::new(reason.clone())))
            }
            _ => None,
        }
    }

    /// Returns the bytes that the reply takes beyond [`CACHED_REPLY_BYTES`], which include an error.
    fn bytes(&self) -> usize {
        match self {
            Self::Transacted(versions) => size_of_val::<[_]>(versions),
            _ => 0,
        }
    }
}
