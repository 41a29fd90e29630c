//! Where entries live: the lowest room, which knows nobody but the shapes of what a storage keeps.
//!
//! ```text
//!   service ──operate, page, follow──▶ Keyspace ──▶ rules: (entry or none, operation, clocks) -> (reply, entry or none)
//!      ▲                                  │
//!      └── Told: ends, changes, work ─────┤
//!                                         ├─ embedded: table, packed entries, deadlines
//!                                         └─ remote: an engine elsewhere, by compare-and-swap
//! ```
//!
//! [`Keyspace`] is a seam: the service asks, and is told what came of it and what has changed, whoever changed it. The usual
//! one is the [`embedded`] one: all entries in this process's memory, changes to a [storage](crate::storage) and from there at
//! start. The [`remote`] one has its entries elsewhere, with others who change them: it reads an entry, applies the [`rules`],
//! which are a pure function of one entry, and commits by compare-and-swap on what it read, again on a conflict.
mod digest;
pub mod embedded;
mod operation;
mod page;
mod quota;
pub mod remote;
pub mod rules;

pub use digest::RequestDigest;
pub use embedded::{Embedded, KeyspaceLimits, PrefixLimit};
pub use operation::OwnedOperation;
pub use page::{KeyFilter, PageRequest, PageTokens};
pub use quota::Quota;

use crate::clock::Now;
use crate::storage::{Expiry, Record};
use bytes::Bytes;
use remote::EngineFigures;
use rules::{Operation, Version};
use statestore_protocol::{Capabilities, Hlc, Reply, ServiceError};
use std::collections::HashMap;
use std::fmt::Debug;
use std::task::{Context, Poll};

/// Names what was asked of a keyspace and has not ended. None is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// By a ticket, which nobody chooses.
pub(crate) type ByTicket<Value> = HashMap<Ticket, Value, foldhash::fast::RandomState>;

/// What comes with everything that is asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Names it if it does not end at once.
    pub ticket: Ticket,
    /// When it is asked.
    pub now: Now,
    /// After this millisecond of the monotonic clock nobody waits for its end any more.
    pub deadline_ms: Option<u64>,
    /// Names the request if other servers over the same entries may be given it as well: whoever answers it first answers for all.
    /// A keyspace that nobody shares has no use for it.
    pub request: Option<RequestDigest>,
}

/// How something that was asked has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was executed, or refused by the rules.
    Answered {
        /// The payload of the response.
        reply: Reply,
        /// `__ts` of the response.
        version: Option<Version>,
    },
    /// Its deadline had passed before anything was done: it certainly did not happen, and will not.
    Expired,
    /// What has the entries does not answer: it certainly did not happen, and will not.
    Away,
    /// It may have happened, or not, or may still happen; nothing more will be known.
    Unknown,
}

impl End {
    /// An answer without a version.
    pub fn reply(reply: Reply) -> Self {
        Self::Answered {
            reply,
            version: None,
        }
    }
}

/// One change of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// Whose.
    pub key: &'a Bytes,
    /// The version that the change has; the changes of a key are told in the order of their versions.
    pub version: Version,
    /// What it is now.
    pub what: What<'a>,
}

/// What an entry was changed to.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// It was made or replaced.
    Set {
        /// Its value.
        value: &'a Bytes,
        /// The fencing token that protects it.
        token: Option<&'a Hlc>,
        /// When it expires.
        expiry: Option<Expiry>,
        /// Whether it was made: there was none before, as far as known here. It is only counted.
        is_new: bool,
    },
    /// It was deleted, or its time was over.
    Removed {
        /// The highest version that a deletion was given so far, this one included.
        floor: Version,
    },
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Keys, those included that expired but have not been removed yet.
    pub keys: u64,
    /// Bytes of memory that the entries take here.
    pub bytes: u64,
}

/// An entry, as those see it who look after the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The begin of its value.
    pub value: Bytes,
    /// How long the value is.
    pub value_bytes: usize,
    /// Its version.
    pub version: Version,
    /// The fencing token that protects it.
    pub fence: Fence,
    /// Milliseconds until it expires.
    pub expires_in_ms: Option<u64>,
    /// Since when one that expires has this value, in milliseconds since the Unix epoch, however often it was renewed; as far as
    /// this process knows.
    pub since_ms: Option<u64>,
}

/// What protects an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fence {
    /// No fencing token.
    None,
    /// This fencing token, as text.
    Token(String),
    /// A fencing token or none: an answer does not say.
    Unknown,
}

/// Whoever is told what comes of a keyspace.
pub trait Told {
    /// An entry was changed: by what was asked here, by somebody elsewhere, or since its time was over.
    fn changed(&mut self, change: &Changed<'_>);
    /// A [storage](crate::storage) is to have this entry, which is the same, with another [end](Expiry::at_wall_ms).
    fn redated(&mut self, _record: Record) {}
    /// Something has ended that had not ended at once.
    fn ended(&mut self, ticket: Ticket, end: End);
    /// So many steps were taken, roughly nanoseconds, more than an operation usually takes.
    fn worked(&mut self, steps: usize);
}

/// Entries by key, here or elsewhere; a state machine without sockets, threads and clocks.
///
/// Whatever is asked ends exactly once: at once, then the call returns its end, or later, then a call of
/// [`advance`](Self::advance) tells it under its ticket. What has not ended goes on whatever becomes of those who asked.
///
/// # What holds for every keyspace
///
/// - Operations on one key take effect in the order in which they are asked, and end in it; but a change of a key that is
///   [followed](Self::follow) may end behind what was asked after it, since it ends when it is told. How it does that is its own
///   affair: one after the other, or several in one commit. Across keys nothing is in order.
/// - A [GET](Operation::Get) that may be eventual waits for nothing: it may be answered with any state that the entry had, none
///   older than what was answered or told of it here before.
/// - What any other operation answers is what [`Operation::apply`] makes of the entry that there is at one moment between asking
///   and end, at the clocks of that moment. What it changes is changed from the same moment on, for everybody.
/// - An entry is not seen at or after the millisecond in which it expires, and its end is a change like a deletion.
/// - Each change since [`follow`](Self::follow) has ended is told, once; if several were not seen one by one, at least the last.
///   If a [storage](crate::storage) is to keep the changes, all of them are told, before the end of what made them.
///
/// # Sockets
///
/// A keyspace elsewhere talks to a task of its own, which has the sockets, through channels: what it wants to read or to
/// commit goes out in any call, and what comes back wakes [`poll_news`](Self::poll_news), which the driver waits for.
pub trait Keyspace: Debug + Send {
    /// Executes one operation on the entry of `key`.
    fn operate(
        &mut self,
        asked: &Asked,
        key: &Bytes,
        operation: &Operation<'_>,
        told: &mut dyn Told,
    ) -> Option<End>;

    /// Executes all operations of a transaction, in order, or none of them. What one does, those behind it see, and its
    /// conditions and the quota as well. Ends with [`Reply::Transacted`], or with [`Reply::Rejected`] for the first
    /// operation that cannot be carried out.
    ///
    /// The changes are made at one moment for everybody, and told one after the other, with nothing between them. A keyspace
    /// that cannot do that refuses the transaction, and does not [announce](Self::capabilities) any.
    fn transact(
        &mut self,
        _asked: &Asked,
        _operations: &[(&Bytes, Operation<'_>)],
        _told: &mut dyn Told,
    ) -> Option<End> {
        let error = ServiceError::UnknownCommand;
        Some(End::reply(Reply::Error(error)))
    }

    /// Which extensions of the protocol it can carry out: all but transactions, which take more than the [`rules`].
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::ALL;
        capabilities.transactions = None;
        capabilities
    }

    /// Returns a [page](Reply::Page) of the keys that match a pattern and that the client may read, from the start or from a token
    /// on; a syntax error for a token that no server of this store made.
    ///
    /// Which keys are on a page, and whether it has a token, does not depend on keys that the client may not read, except for
    /// [how many entries](embedded) the store has, to a power of two, or [how long](remote) the engine takes.
    fn page(&mut self, asked: &Asked, request: &PageRequest, told: &mut dyn Told) -> Option<End>;

    /// Ends with [`Reply::Ok`] once all further changes of this key will be told.
    fn follow(&mut self, asked: &Asked, key: &Bytes) -> Option<End>;

    /// Changes of this key need not be told any more. Nothing is told of it, but that a [`follow`](Self::follow) has ended which had not.
    fn unfollow(&mut self, _key: &[u8]) {}

    /// Tells what has ended, what others have changed, and what has expired until `now`; of the latter two so much that
    /// about `most` changes are told. [`next_ms`](Self::next_ms) says whether there is more at once.
    fn advance(&mut self, most: usize, now: Now, told: &mut dyn Told);

    /// If the wall clock has jumped ahead since entries were told that end, tells a part of them [anew](Told::redated): otherwise
    /// they would be over when a storage is read that goes by that clock. Says whether there is more.
    fn redate(&mut self, _now: Now, _told: &mut dyn Told) -> bool {
        false
    }

    /// When [`advance`](Self::advance) has something to do next, in milliseconds of the monotonic clock, as far as that is known
    /// before; what is past means now.
    fn next_ms(&self) -> Option<u64>;

    /// Ready if [`advance`](Self::advance) has something to tell that no clock has announced. Otherwise the context is woken when
    /// it has.
    fn poll_news(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// How much of what was asked waits for more that can be asked of an engine together: some milliseconds, or until
    /// [no more comes soon](Self::ask_gathered).
    fn gathered(&self) -> usize {
        0
    }

    /// Nothing more comes soon.
    fn ask_gathered(&mut self) {}

    /// How much there may be from now on. What there is already stays.
    fn set_limits(&mut self, _limits: &KeyspaceLimits) {}

    /// The process has no memory left, or has some again. While it has none, operations that would make the store larger are refused
    /// like those beyond the [limits](Self::set_limits).
    fn set_memory_short(&mut self, _is_short: bool) {}

    /// Moves the next entries within the heap, so that the free memory between them grows together. Takes less than a millisecond.
    /// Returns whether the pass over all entries goes on.
    fn relocate(&mut self) -> bool {
        false
    }

    /// The highest version that any change was given, as far as known here.
    fn highest(&self) -> Version;

    /// How much there is, as far as known here.
    fn size(&self) -> Size;

    /// Takes the quota that the last change met which found no room; `None` if that is not known.
    fn take_met_quota(&mut self) -> Option<Quota> {
        None
    }

    /// What it says of the engine that has the entries, if that is elsewhere.
    fn engine(&self) -> Option<EngineFigures> {
        None
    }

    /// What an entry is now, with at most so many bytes of its value, for those who look after the store; `None` if it is absent,
    /// or not known here.
    fn look(&self, _key: &[u8], _most_bytes: usize, _now: Now) -> Option<Look> {
        None
    }
}
