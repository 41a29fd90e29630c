//! Answers again, instead of executing again, what a client redelivers.
//!
//! After a reconnect a client sends every publish again whose acknowledgement it has not seen, and the first
//! delivery may have been executed. So the answers to SET, DEL, VDEL and TXN are remembered, for each client id until
//! the client has acknowledged the response or its session ends, and no more of them than it may have
//! unacknowledged requests. None is forgotten for the sake of other clients. The DUP flag plays no part, since not
//! every sender of duplicates sets it.
//!
//! - **Whose requests**: those of clients whose session outlives the connection. Nobody else delivers anything again.
//! - **What counts as the same request**: the client id, the principal, the correlation data, and the content (payload,
//!   `__ts`, `__ft`) are the same. Correlation data that a careless client uses for a second, different request is
//!   executed; a redelivery is the same to the last byte, `__ts` included.
//! - **Reads** are executed again: they change nothing, and a newer value is as true an answer as an older one to a
//!   request that has not been answered yet.
//! - **KEYNOTIFY** is executed again as well, and must be: a redelivery comes on a new connection, and the watch
//!   ended with the former one. To answer `+OK` without watching would be a lie.
//! - **Refusals** (`-ERR`) are remembered like every other answer, so that a SET that was refused for a full store
//!   does not happen after all when its sender no longer expects it.
//!
//! - **Requests under way**: one whose outcome has not come yet is remembered as such, and the same request again waits
//!   for the same outcome. If nobody knows the outcome, nobody tries again here either.
//!
//! What is remembered is lost with the process.
use super::ServiceConfig;
use super::request::{Request, Response};
use crate::keyspace::Ticket;
use crate::keyspace::rules::Version;
use foldhash::quality::RandomState;
use hashbrown::HashTable;
use siphasher::sip128::SipHasher13;
use statestore_protocol::{Hlc, Rejection, Reply, ServiceError, Version as Given};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Memory of an answer, and of a client that has any.
const ANSWER_BYTES: usize = 128;
const CLIENT_BYTES: usize = 256;

/// A client that has none left keeps room for this many.
const KEPT_ROOM: usize = 8;

/// The remembered answers of all clients.
pub(super) struct Replay {
    clients: HashMap<Arc<str>, Ring, RandomState>,
    /// How many answers all rings hold.
    held: usize,
    /// What these take besides.
    held_bytes: usize,
    max_per_client: usize,
    correlation_hash: SipHasher13,
    content_hash: RandomState,
}

/// What identifies a request of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestId {
    /// The hash, keyed with a secret and so without collisions, of the correlation data, whatever its length.
    correlation: [u64; 2],
    content: u64,
}

/// The remembered answers of one client, oldest first.
#[derive(Default)]
struct Ring {
    /// Those that were received are gone.
    answers: VecDeque<Option<Answer>>,
    /// The number of the first of `answers`; they are numbered in the order of their arrival.
    first: u64,
    /// Numbers of answers by correlation.
    numbers: HashTable<u64>,
    /// What the answers take besides.
    bytes: usize,
}

struct Answer {
    id: RequestId,
    reply: WriteReply,
    version: Option<Version>,
}

/// What a state-changing request can get, small.
enum WriteReply {
    Ok,
    NotApplied,
    Count(u64),
    Error(Box<ServiceError>),
    Transacted(Box<[Option<Given>]>),
    Rejected(u64, Box<Rejection>),
    /// Nothing yet.
    UnderWay(Ticket),
    /// Nothing, for ever.
    Unknown,
}

/// What is known of a request that was delivered before.
#[derive(Debug)]
pub(super) enum Known {
    /// It was answered so.
    Answered(Response),
    /// It will have the outcome that this one has.
    UnderWay(Ticket),
    /// Nobody knows what became of it.
    Unknown,
}

/// Where the answer to a request that is under way is to be remembered.
#[derive(Debug)]
pub(super) struct Place {
    client: Arc<str>,
    number: u64,
}

impl Replay {
    pub(super) fn new(config: &ServiceConfig) -> Self {
        let [a, b] = config.hash_key;
        Self {
            clients: HashMap::default(),
            held: 0,
            held_bytes: 0,
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

    /// Bytes of memory that all answers take.
    pub(super) fn bytes(&self) -> usize {
        self.held * ANSWER_BYTES + self.held_bytes + self.clients.len() * CLIENT_BYTES
    }

    /// Bytes of memory that the answers of one client take.
    pub(super) fn bytes_of(&self, client: &str) -> usize {
        self.clients.get(client).map_or(0, |ring| {
            ring.numbers.len() * ANSWER_BYTES + ring.bytes + CLIENT_BYTES
        })
    }

    /// What is known of this request, if the client has delivered it before.
    pub(super) fn find(&self, client: &str, id: &RequestId) -> Option<Known> {
        let ring = self.clients.get(client)?;
        let number = ring.find(id.correlation)?;
        let answer = ring.answer(number).filter(|answer| answer.id == *id)?;
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
            WriteReply::UnderWay(ticket) => return Some(Known::UnderWay(*ticket)),
            WriteReply::Unknown => return Some(Known::Unknown),
        };
        Some(Known::Answered(Response {
            version: answer.version.map(Hlc::store_version),
            answer: Some(number),
            ..reply.into()
        }))
    }

    /// Remembers an answer and gives it a number. A former one to the same correlation data is forgotten.
    pub(super) fn remember(
        &mut self,
        client: &Arc<str>,
        id: RequestId,
        response: &Response,
    ) -> Option<u64> {
        let reply = WriteReply::of(&response.reply)?;
        self.put(client, id, reply, version_of(response))
    }

    /// Remembers that nobody knows what became of a request.
    pub(super) fn remember_unknown(&mut self, client: &Arc<str>, id: RequestId) {
        self.put(client, id, WriteReply::Unknown, None);
    }

    /// Remembers that a request is under way.
    pub(super) fn remember_under_way(
        &mut self,
        client: &Arc<str>,
        id: RequestId,
        ticket: Ticket,
    ) -> Option<Place> {
        let number = self.put(client, id, WriteReply::UnderWay(ticket), None)?;
        let client = Arc::clone(client);
        Some(Place { client, number })
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
        let answer = Answer { id, reply, version };
        let ring = match self.clients.get_mut(&**client) {
            Some(ring) => ring,
            None => self.clients.entry(client.clone()).or_default(),
        };
        let (before, bytes_before) = (ring.numbers.len(), ring.bytes);
        let number = ring.put(answer, self.max_per_client);
        self.held = self.held + ring.numbers.len() - before;
        self.held_bytes = self.held_bytes + ring.bytes - bytes_before;
        Some(number)
    }

    /// What was under way under this ticket is answered. Gives the number of the answer, if it is still to be remembered.
    pub(super) fn answered(
        &mut self,
        place: &Place,
        ticket: Ticket,
        response: &Response,
    ) -> Option<u64> {
        let reply = WriteReply::of(&response.reply)?;
        let bytes = reply.bytes();
        let answer = self.under_way(place, ticket)?;
        answer.reply = reply;
        answer.version = version_of(response);
        if let Some(ring) = self.clients.get_mut(&*place.client) {
            ring.bytes += bytes;
            self.held_bytes += bytes;
        }
        Some(place.number)
    }

    /// Nobody will know what became of what was under way under this ticket.
    pub(super) fn became_unknown(&mut self, place: &Place, ticket: Ticket) {
        if let Some(answer) = self.under_way(place, ticket) {
            answer.reply = WriteReply::Unknown;
        }
    }

    /// What was under way under this ticket did not happen: if it comes again, it is a new request.
    pub(super) fn did_not_happen(&mut self, place: &Place, ticket: Ticket) {
        if self.under_way(place, ticket).is_some() {
            self.forget(&place.client, place.number);
        }
    }

    fn under_way(&mut self, place: &Place, ticket: Ticket) -> Option<&mut Answer> {
        let ring = self.clients.get_mut(&*place.client)?;
        // A session that ended meanwhile has taken the place with it; the next one counts anew.
        ring.answer_mut(place.number)
            .filter(|answer| matches!(answer.reply, WriteReply::UnderWay(it) if it == ticket))
    }

    /// Forgets the answer with this number.
    pub(super) fn forget(&mut self, client: &str, number: u64) {
        if let Some(ring) = self.clients.get_mut(client) {
            let before = ring.bytes;
            self.held -= usize::from(ring.forget(number));
            self.held_bytes -= before - ring.bytes;
        }
    }

    pub(super) fn session_ended(&mut self, client: &str) {
        if let Some(ring) = self.clients.remove(client) {
            self.held -= ring.numbers.len();
            self.held_bytes -= ring.bytes;
        }
    }
}

fn version_of(response: &Response) -> Option<Version> {
    let version = response.version.as_ref()?;
    Some((version.wall_ms(), version.counter()))
}

fn well_formed<E>(property: Option<&Result<Hlc, E>>) -> Option<&Hlc> {
    property.and_then(|hlc| hlc.as_ref().ok())
}

impl Ring {
    /// The number of the answer to this correlation data.
    fn find(&self, correlation: [u64; 2]) -> Option<u64> {
        let is_it = |&number: &u64| {
            let answer = self.answer(number);
            answer.is_some_and(|answer| answer.id.correlation == correlation)
        };
        self.numbers.find(correlation[0], is_it).copied()
    }

    /// Gives the answer a number. Those before the last `max` go.
    fn put(&mut self, answer: Answer, max: usize) -> u64 {
        if let Some(former) = self.find(answer.id.correlation) {
            self.forget(former);
        }
        if self.answers.len() >= max {
            self.forget(self.first);
        }
        let number = self.first + self.answers.len() as u64;
        let correlation = answer.id.correlation;
        self.bytes += answer.reply.bytes();
        self.answers.push_back(Some(answer));
        let (answers, first) = (&self.answers, self.first);
        self.numbers
            .insert_unique(correlation[0], number, |&number| {
                let answer = answers[offset(number, first)].as_ref();
                answer.map_or(0, |answer| answer.id.correlation[0])
            });
        number
    }

    /// Says whether there was one with this number.
    fn forget(&mut self, number: u64) -> bool {
        if number < self.first || offset(number, self.first) >= self.answers.len() {
            return false;
        }
        let Some(answer) = self.answers[offset(number, self.first)].take() else {
            return false;
        };
        self.bytes -= answer.reply.bytes();
        let hash = answer.id.correlation[0];
        if let Ok(found) = self.numbers.find_entry(hash, |&other| other == number) {
            found.remove();
        }
        while let Some(None) = self.answers.front() {
            self.answers.pop_front();
            self.first += 1;
        }
        if self.answers.is_empty() && self.answers.capacity() > KEPT_ROOM {
            self.answers = VecDeque::new();
            self.numbers = HashTable::new();
        }
        true
    }

    fn answer(&self, number: u64) -> Option<&Answer> {
        self.answers[offset(number, self.first)].as_ref()
    }

    /// The same, if there still is one with this number.
    fn answer_mut(&mut self, number: u64) -> Option<&mut Answer> {
        let offset = number.checked_sub(self.first)?;
        self.answers
            .get_mut(usize::try_from(offset).ok()?)?
            .as_mut()
    }
}

/// Where in a ring that begins with `first` the answer with this number is.
// a ring is no longer than memory
#[allow(clippy::cast_possible_truncation)]
fn offset(number: u64, first: u64) -> usize {
    (number - first) as usize
}

impl WriteReply {
    /// `None` for the replies that only reads get.
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

    /// What it takes besides [`ANSWER_BYTES`], which are enough for an error.
    fn bytes(&self) -> usize {
        match self {
            Self::Transacted(versions) => size_of_val::<[_]>(versions),
            _ => 0,
        }
    }
}
