//! Storage of entries: the lowest layer, which depends only on the types that a storage keeps.
//!
//! ```text
//!   service ──operate, page, follow──▶ Keyspace ──▶ rules: (entry or none, operation, clocks) -> (reply, entry or none)
//!      ▲                                  │
//!      └── EventSink: ends, changes, work ┤
//!                                         ├─ embedded: table, packed entries, deadlines
//!                                         └─ shared: an engine elsewhere, by compare-and-swap
//! ```
//!
//! [`Keyspace`] is the interface: the service sends requests, and the keyspace reports their outcomes and all changes, its own and
//! those of other writers.
//!
//! - The [`embedded`] keyspace is the usual one. It has all entries in this process's memory. Changes go to a
//!   [storage](statestored_storage), from which they are restored at start.
//! - The shared keyspace (`statestored-shared`) has its entries in an engine elsewhere, which other servers change too. It reads an entry and applies
//!   the [`rules`], a pure function of one entry. Then it commits by compare-and-swap on what it read, and retries on a conflict.
mod digest;
pub mod embedded;
mod engine_metrics;
mod entry_list;
mod keyspace_metrics;
mod operation;
mod page;
mod quota;
mod quota_usage;
pub mod rules;

pub use digest::RequestDigest;
pub use embedded::{EmbeddedKeyspace, KeyspaceLimits, PrefixLimit};
pub use engine_metrics::{EngineMetrics, EngineProblem, RequestKind, RequestResult};
pub use entry_list::{EntryList, MAX_VALUE_BYTES};
pub use keyspace_metrics::KeyspaceMetrics;
pub use operation::OwnedOperation;
pub use page::{KeyFilter, MAX_ENTRY_PAGE_BYTES, PageRequest, PageTokens};
pub use quota::Quota;
pub use quota_usage::{QuotaUsage, used_ratio};

use bytes::Bytes;
use rules::{Operation, Version};
use statestore_protocol::{Capabilities, Hlc, Reply, ServiceError};
use statestored_common::ClockReading;
use statestored_storage::{Expiry, Record};
use std::collections::HashMap;
use std::fmt::Debug;
use std::task::{Context, Poll};

/// Identifier of a pending request to a keyspace, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A map by ticket. Its hash is fast and not resistant to chosen keys: no client chooses tickets.
pub type ByTicket<Value> = HashMap<Ticket, Value, foldhash::fast::RandomState>;

/// Parameters common to all requests to a keyspace.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext {
    /// Identifier of the request, under which a later end is reported.
    pub ticket: Ticket,
    /// Time of the request.
    pub now: ClockReading,
    /// Time after which the caller no longer waits for the end, in milliseconds of the monotonic clock.
    pub deadline_ms: Option<u64>,
    /// Digest of the request, if other servers over the same entries may receive it too. The first server that answers it answers
    /// for all of them. A keyspace whose entries are not shared ignores it.
    pub digest: Option<RequestDigest>,
}

/// The end of a request to a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    /// The operation was executed, or the rules rejected it.
    Answered {
        /// The payload of the response.
        reply: Reply,
        /// `__ts` of the response.
        version: Option<Version>,
    },
    /// The deadline passed before anything was done. The operation did not happen and will not happen.
    Expired,
    /// The engine that has the entries does not answer. The operation did not happen and will not happen.
    Unavailable,
    /// The outcome is unknown and stays unknown: the operation may have happened, or may still happen.
    Unknown,
}

impl Completion {
    /// Creates an answer without a version.
    pub fn reply(reply: Reply) -> Self {
        Self::Answered {
            reply,
            version: None,
        }
    }
}

/// A change of an entry.
#[derive(Debug, Clone, Copy)]
pub struct ChangeEvent<'a> {
    /// Key of the entry.
    pub key: &'a Bytes,
    /// Version of the change. The changes of a key are reported in the order of their versions.
    pub version: Version,
    /// State of the entry after the change.
    pub state: EntryState<'a>,
}

/// The state of an entry after a change.
#[derive(Debug, Clone, Copy)]
pub enum EntryState<'a> {
    /// The entry was created or replaced.
    Set {
        /// Value of the entry.
        value: &'a Bytes,
        /// The fencing token that protects it.
        token: Option<&'a Hlc>,
        /// Time at which it expires.
        expiry: Option<Expiry>,
        /// Whether the entry was created: as far as this process knows, none existed before. Used for counting only.
        is_new: bool,
    },
    /// The entry was deleted, or it expired.
    Removed {
        /// Highest version of all deletions so far, including this one.
        floor: Version,
    },
}

/// Number of entries, and the memory that they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of keys, including expired ones that have not been removed yet.
    pub keys: u64,
    /// Bytes of memory that the entries take in this process.
    pub bytes: u64,
}

/// An entry as shown to operators of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryView {
    /// First bytes of the value.
    pub value: Bytes,
    /// Length of the whole value.
    pub value_bytes: usize,
    /// Version of the entry.
    pub version: Version,
    /// The fencing token that protects it.
    pub fence: Fence,
    /// Milliseconds until it expires.
    pub expires_in_ms: Option<u64>,
    /// Time at which an entry that expires got this value, in milliseconds since the Unix epoch, as far as this process knows.
    /// Renewals do not change it.
    pub since_ms: Option<u64>,
}

/// The protection of an entry by a fencing token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fence {
    /// No fencing token.
    None,
    /// The fencing token, as text.
    Token(String),
    /// A fencing token or none: the source of the entry does not show it.
    Unknown,
}

/// A receiver of the events of a keyspace.
pub trait EventSink {
    /// Reports a change of an entry: by a request to this keyspace, by another writer of the engine, or by expiry.
    fn changed(&mut self, change: &ChangeEvent<'_>);
    /// Reports a change of a key that is not [followed](Keyspace::follow), or whose followers have seen it. It concerns followed
    /// [patterns](Keyspace::follow_pattern) only.
    fn changed_unfollowed(&mut self, _change: &ChangeEvent<'_>) {}
    /// Reports that changes may have been missed of keys that match followed [patterns](Keyspace::follow_pattern). Later changes are
    /// reported again.
    fn changes_missed(&mut self) {}
    /// Reports an entry that a [storage](statestored_storage) has to store again: only its [end](Expiry::at_wall_ms) differs.
    fn expiry_rewritten(&mut self, _record: Record) {}
    /// Reports the end of a pending request.
    fn completed(&mut self, ticket: Ticket, end: Completion);
    /// Reports work beyond that of a usual operation, in steps of roughly a nanosecond.
    fn add_work(&mut self, steps: usize);
}

/// Entries by key, in this process or in an engine elsewhere: a state machine without sockets, threads and clocks.
///
/// Every request ends exactly once. Either the call returns the end, or a later call of [`advance`](Self::advance) reports it
/// under the ticket of the request. A pending request continues even if its caller no longer waits.
///
/// # Guarantees of every keyspace
///
/// - Operations on one key take effect in the order of their requests, and end in that order. Exception: a change of a
///   [followed](Self::follow) key ends when it is reported, so it may end after operations that were requested later.
///   The keyspace executes them one by one, or several in one commit. Operations on different keys have no order.
/// - A [GET](Operation::Get) that may be eventual does not wait. Its answer may be any state that the entry had, but none older
///   than a state that was answered or reported here before.
/// - Every other operation returns the outcome of [`Operation::apply`] for the entry at one moment between the request and its end.
///   The clocks are those of that moment too, and the change takes effect for all clients at it.
/// - An entry is absent from the millisecond in which it expires. Its expiry is a change like a deletion.
/// - Each change after the end of a [`follow`](Self::follow) is reported once. Of changes that the keyspace did not see one by one,
///   at least the last is reported.
/// - If a [storage](statestored_storage) keeps the changes, all of them are reported, each before the end of the request that made it.
///
/// # Sockets
///
/// A keyspace with an engine elsewhere has a thread of its own with the sockets, and communicates with it through channels. Any
/// call may send reads and commits to the thread. Its answers wake [`poll_events`](Self::poll_events), for which the driver waits.
pub trait Keyspace: Debug + Send {
    /// Executes one operation on the entry of `key`.
    fn operate(
        &mut self,
        context: &RequestContext,
        key: &Bytes,
        operation: &Operation<'_>,
        events: &mut dyn EventSink,
    ) -> Option<Completion>;

    /// Executes all operations of a transaction in order, or none of them.
    ///
    /// The conditions and the quota of an operation take the effects of earlier operations into account. Ends with
    /// [`Reply::Transacted`], or with [`Reply::Rejected`] for the first operation that cannot be executed.
    ///
    /// The changes take effect at one moment for all clients. They are reported one after the other, without other changes
    /// between them. A keyspace that cannot do that rejects transactions, and does not [announce](Self::capabilities) them.
    fn transact(
        &mut self,
        _context: &RequestContext,
        _operations: &[(&Bytes, Operation<'_>)],
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let error = ServiceError::UnknownCommand;
        Some(Completion::reply(Reply::Error(error)))
    }

    /// Reads several keys, all at one moment between the request and its end.
    ///
    /// Ends with [`Reply::Entries`] for the first keys, as many as [fit](EntryList) into `max_reply_bytes` bytes. A keyspace
    /// that cannot read several keys at one moment rejects the request, and does not [announce](Self::capabilities) it.
    fn get_many(
        &mut self,
        _context: &RequestContext,
        _keys: &[Bytes],
        _max_reply_bytes: usize,
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let error = ServiceError::UnknownCommand;
        Some(Completion::reply(Reply::Error(error)))
    }

    /// Returns the supported extensions of the protocol. By default those that need no more than the [`rules`].
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::ALL;
        capabilities.transactions = None;
        capabilities.max_get_keys = None;
        capabilities.scan_values = false;
        capabilities.observe_matching = false;
        capabilities
    }

    /// Ends with a [page](Reply::Page) of the keys that match a pattern and that the client may read, from the start or from a token
    /// on, or with a [page of their entries](Reply::EntryPage). A token that no server of this store made gets a syntax error.
    ///
    /// The keys on a page, and whether it has a token, do not depend on keys that the client may not read. Exceptions are the
    /// [work of visiting all entries](embedded), to a power of two, and the time that the engine takes.
    fn page(
        &mut self,
        context: &RequestContext,
        request: &PageRequest,
        events: &mut dyn EventSink,
    ) -> Option<Completion>;

    /// Follows the changes of a key. Ends with [`Reply::Ok`] once all further changes of the key will be reported.
    fn follow(&mut self, context: &RequestContext, key: &Bytes) -> Option<Completion>;

    /// Stops following the changes of a key. A pending [`follow`](Self::follow) of the key still ends, and its end is reported.
    fn unfollow(&mut self, _key: &[u8]) {}

    /// Follows the changes of all keys that match a pattern. Ends with [`Reply::Ok`] once all further changes of such keys will be
    /// reported, each once, in the order of their versions. It reports [missed changes](EventSink::changes_missed) as such. The changes
    /// of other keys may be reported as well.
    ///
    /// By default, a keyspace that [announces](Self::capabilities) it reports all changes anyway, and any other rejects the request.
    fn follow_pattern(
        &mut self,
        _context: &RequestContext,
        _pattern: &Bytes,
    ) -> Option<Completion> {
        let reply = if self.capabilities().observe_matching {
            Reply::Ok
        } else {
            Reply::Error(ServiceError::Syntax)
        };
        Some(Completion::reply(reply))
    }

    /// Stops following the changes of keys that match a pattern. A pending [`follow_pattern`](Self::follow_pattern) still ends.
    fn unfollow_pattern(&mut self, _pattern: &[u8]) {}

    /// Reports the ends of pending requests, the changes by other writers, and the entries that expired until `now`. Stops after
    /// about `most` changes of the latter two kinds. [`next_ms`](Self::next_ms) returns whether more work is due at once.
    fn advance(&mut self, most: usize, now: ClockReading, events: &mut dyn EventSink);

    /// Reports a part of the entries that expire [again](EventSink::expiry_rewritten), if the wall clock has jumped ahead since their last report.
    /// Otherwise they would be expired when the storage, which uses that clock, is read. Returns whether more entries follow.
    fn rewrite_expiry(&mut self, _now: ClockReading, _events: &mut dyn EventSink) -> bool {
        false
    }

    /// Returns the next time at which [`advance`](Self::advance) has work, in milliseconds of the monotonic clock, as far as it is
    /// known in advance. A time in the past means now.
    fn next_ms(&self) -> Option<u64>;

    /// Returns ready if [`advance`](Self::advance) has news that [`next_ms`](Self::next_ms) did not announce. Otherwise wakes the
    /// context when it has.
    fn poll_events(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Returns the number of engine requests that wait to be sent together with further ones. They wait for some milliseconds, or
    /// until [the driver expects no more](Self::flush_gathered).
    fn gathered(&self) -> usize {
        0
    }

    /// Sends the [gathered](Self::gathered) requests to the engine. The driver calls it when it expects no more soon.
    fn flush_gathered(&mut self) {}

    /// Sets the limits for further changes. Entries beyond the limits stay.
    fn set_limits(&mut self, _limits: &KeyspaceLimits) {}

    /// Sets whether the process is short of memory. While it is, operations that would enlarge the store are rejected like those
    /// beyond the [limits](Self::set_limits).
    fn set_memory_short(&mut self, _is_short: bool) {}

    /// Moves the next entries within the heap, which joins the free memory between them. Takes less than a millisecond. Returns
    /// whether the pass over all entries continues.
    fn relocate(&mut self) -> bool {
        false
    }

    /// Returns the highest version of all changes, as far as this process knows.
    fn highest_version(&self) -> Version;

    /// Returns the number of entries and their memory, as far as this process has them.
    fn size(&self) -> Size;

    /// Takes the quota for which a change was last rejected; `None` if it is not known.
    fn take_exceeded_quota(&mut self) -> Option<Quota> {
        None
    }

    /// Returns the metrics of the engine that has the entries; `None` if this process has them.
    fn engine_metrics(&self) -> Option<EngineMetrics> {
        None
    }

    /// Returns counters and limits of the entries; `None` if this process does not have them.
    fn metrics(&self) -> Option<KeyspaceMetrics> {
        None
    }

    /// Returns the quotas of prefixes whose keys are counted completely.
    fn prefix_quotas(&self) -> Vec<QuotaUsage> {
        Vec::new()
    }

    /// Returns an entry for operators, with at most `most_bytes` of its value; `None` if it is absent, or not known in this process.
    fn entry_view(&self, _key: &[u8], _most_bytes: usize, _now: ClockReading) -> Option<EntryView> {
        None
    }

    /// Returns a page of the keys that expire and match a pattern, soonest first, from the start or from a token on, with the token of the
    /// next page. A key that is renewed between two pages may be on both.
    ///
    /// Returns `None` if the token is invalid, or if this process has no index of such keys.
    fn expiring_keys(
        &self,
        _pattern: &Bytes,
        _token: Option<&Bytes>,
        _now: ClockReading,
    ) -> Option<(Vec<Bytes>, Option<Bytes>)> {
        None
    }
}
