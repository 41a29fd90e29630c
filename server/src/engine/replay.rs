//! Answers again, instead of executing again, what a client redelivers.
//!
//! After a reconnect a client sends every publish again whose acknowledgement it has not seen, and the first
//! delivery may have been executed. So the answers to SET, DEL and VDEL are remembered: per client id in a ring of
//! bounded length, over all client ids in a bounded number. The DUP flag plays no part, since not every sender of
//! duplicates sets it.
//!
//! - **What counts as the same request**: the client id, the correlation data, and the content (payload, `__ts`,
//!   `__ft`) are the same. Correlation data that a careless client uses for a second, different request is
//!   executed; a redelivery is the same to the last byte, `__ts` included.
//! - **Reads** are executed again: they change nothing, and a newer value is as true an answer as an older one to a
//!   request that has not been answered yet.
//! - **KEYNOTIFY** is executed again as well, and must be: a redelivery comes on a new connection, and the watch
//!   ended with the former one. To answer `+OK` without watching would be a lie.
//! - **Refusals** (`-ERR`) are remembered like every other answer, so that a SET that was refused for a full store
//!   does not happen after all when its sender no longer expects it.
//!
//! What is remembered is lost with the process.
use super::rules::Version;
use super::{EngineConfig, Request, Response};
use foldhash::quality::RandomState;
use hashbrown::HashTable;
use indexmap::IndexMap;
use siphasher::sip128::SipHasher13;
use statestore::protocol::{Hlc, Reply, ServiceError};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

/// The remembered answers of all clients.
pub(super) struct Replay {
    clients: IndexMap<Arc<str>, Ring>,
    /// How many answers all rings hold.
    held: usize,
    max_held: usize,
    max_per_client: usize,
    /// The client that is asked next whether its answers can go.
    hand: usize,
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
    answers: VecDeque<Answer>,
    /// The number of the first of `answers`; they are numbered in the order of their arrival.
    first: u64,
    /// Numbers of answers by correlation.
    numbers: HashTable<u64>,
    /// Whether it was used since the hand went by.
    is_used: bool,
}

struct Answer {
    id: RequestId,
    reply: WriteReply,
    version: Option<Version>,
}

/// The replies that a state-changing request can get, small.
enum WriteReply {
    Ok,
    NotApplied,
    Count(u64),
    Error(Box<ServiceError>),
}

impl Replay {
    pub(super) fn new(config: &EngineConfig) -> Self {
        let [a, b] = config.hash_key;
        Self {
            clients: IndexMap::new(),
            held: 0,
            max_held: config.replay_total,
            max_per_client: config.replay_per_client.min(config.replay_total),
            hand: 0,
            // another key than that of the table
            correlation_hash: SipHasher13::new_with_keys(!a, !b),
            content_hash: RandomState::default(),
        }
    }

    pub(super) fn identify(&self, request: &Request<'_>) -> RequestId {
        let properties = &request.properties;
        let content = self.content_hash.hash_one((
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

    /// The answer that the client got to this request before.
    pub(super) fn answer(&mut self, client: &str, id: &RequestId) -> Option<Response> {
        let ring = self.clients.get_mut(client)?;
        let answer = &ring.answers[ring.find(id.correlation)?];
        if answer.id != *id {
            return None;
        }
        let response = Response {
            version: answer.version.map(Hlc::store_version),
            ..answer.reply.to_reply().into()
        };
        ring.is_used = true;
        Some(response)
    }

    /// Remembers an answer. A former one to the same correlation data is forgotten.
    pub(super) fn remember(&mut self, client: &Arc<str>, id: RequestId, response: &Response) {
        if self.max_per_client == 0 {
            return;
        }
        let Some(reply) = WriteReply::of(&response.reply) else {
            return;
        };
        let version = response.version.as_ref();
        let answer = Answer {
            id,
            reply,
            version: version.map(|hlc| (hlc.wall_ms(), hlc.counter())),
        };
        let ring = match self.clients.get_index_of(&**client) {
            Some(index) => &mut self.clients[index],
            None => self.clients.entry(client.clone()).or_default(),
        };
        ring.is_used = true;
        if ring.put(answer, self.max_per_client) {
            self.held += 1;
        }
        while self.held > self.max_held {
            self.evict(client);
        }
    }

    pub(super) fn session_ended(&mut self, client: &str) {
        if let Some(ring) = self.clients.swap_remove(client) {
            self.held -= ring.answers.len();
        }
    }

    /// Forgets the answers of a client other than `keep` that did not use them since the hand went by last.
    fn evict(&mut self, keep: &str) {
        if self.hand >= self.clients.len() {
            self.hand = 0;
        }
        let (client, ring) = &mut self.clients.get_index_mut(self.hand).expect("in range");
        if &***client == keep || std::mem::take(&mut ring.is_used) {
            self.hand += 1;
        } else {
            self.held -= ring.answers.len();
            self.clients.swap_remove_index(self.hand);
        }
    }
}

fn well_formed<E>(property: Option<&Result<Hlc, E>>) -> Option<&Hlc> {
    property.and_then(|hlc| hlc.as_ref().ok())
}

impl Ring {
    fn find(&self, correlation: [u64; 2]) -> Option<usize> {
        let number = self.numbers.find(correlation[0], |&number| {
            self.answer(number).id.correlation == correlation
        })?;
        Some(self.index(*number))
    }

    /// Says whether there is one answer more than before.
    fn put(&mut self, answer: Answer, max: usize) -> bool {
        if let Some(index) = self.find(answer.id.correlation) {
            self.answers[index] = answer;
            return false;
        }
        let is_full = self.answers.len() >= max;
        if is_full {
            self.forget_first();
        }
        let number = self.first + self.answers.len() as u64;
        let correlation = answer.id.correlation;
        self.answers.push_back(answer);
        let (answers, first) = (&self.answers, self.first);
        self.numbers
            .insert_unique(correlation[0], number, |&number| {
                answers[offset(number, first)].id.correlation[0]
            });
        !is_full
    }

    fn forget_first(&mut self) {
        let Some(answer) = self.answers.pop_front() else {
            return;
        };
        let first = self.first;
        self.first += 1;
        let hash = answer.id.correlation[0];
        if let Ok(found) = self.numbers.find_entry(hash, |&number| number == first) {
            found.remove();
        }
    }

    fn answer(&self, number: u64) -> &Answer {
        &self.answers[self.index(number)]
    }

    fn index(&self, number: u64) -> usize {
        offset(number, self.first)
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
            _ => None,
        }
    }

    fn to_reply(&self) -> Reply {
        match self {
            Self::Ok => Reply::Ok,
            Self::NotApplied => Reply::NotApplied,
            Self::Count(count) => Reply::Count(*count),
            Self::Error(error) => Reply::Error((**error).clone()),
        }
    }
}
