//! The interface of an engine to a [`SharedKeyspace`](super::SharedKeyspace) keyspace, as requests and events without I/O.
use super::record::Record;
use bytes::Bytes;
use smallvec::SmallVec;
use statestored_store::keyspace::rules::Version;
use statestored_store::keyspace::{MAX_VALUE_BYTES, RequestDigest};
use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Number of buckets into which the entries are divided; each has a floor of its own.
pub const BUCKETS: u16 = 1024;

/// The position of a change in the order of all changes of the engine, which also identifies the state of an engine key. Revisions are
/// unique, and a later one is greater. An engine key that was never written, or was deleted, has revision zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// Identifies an engine request and its answer. A process never reuses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineRequestId(pub u64);

/// A key in the engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKey {
    /// The [record](Record) of a key.
    Entry(Bytes),
    /// The highest version of the tombstones purged from this bucket.
    Floor(u16),
    /// The answer to a request that several servers may receive. It expires some time after the request can no longer be delivered again:
    /// an engine keeps it for at least [`REPLY_LIFETIME`].
    Reply(RequestDigest),
}

/// Minimum time for which an engine keeps the answer to a request. No server executes a request this long after it arrived.
pub const REPLY_LIFETIME: Duration = Duration::from_secs(11 * 60);

/// Time for which an engine keeps a node's reading of its clock.
pub const CLOCK_LIFETIME: Duration = Duration::from_secs(20);

/// Returns the bucket of a key. The function must never change: the format of the data depends on it.
pub fn bucket_of(key: &[u8]) -> u16 {
    // FNV-1a. Buckets need to be even, not secret: a client that fills one makes its floor rise, nothing else.
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let folded = (hash >> 32) ^ hash;
    u16::try_from(folded % u64::from(BUCKETS)).unwrap_or_default()
}

/// The new content of an engine key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineValue {
    /// The record of a key.
    Record(Record),
    /// The version of a floor.
    Floor(Version),
    /// An answer.
    Reply(Bytes),
    /// The absence of a record: a tombstone is purged.
    Absent,
}

/// A set of changes that is made atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineCommit {
    /// The revisions that these engine keys must have for the changes to be made.
    pub compares: Vec<(EngineKey, Revision)>,
    /// The changes, each of a different engine key.
    pub puts: Vec<(EngineKey, EngineValue)>,
}

impl EngineCommit {
    /// Returns the request whose answer the unit contains.
    pub fn request(&self) -> Option<RequestDigest> {
        self.compares.iter().find_map(|(place, _)| match place {
            EngineKey::Reply(request) => Some(*request),
            EngineKey::Entry(_) | EngineKey::Floor(_) => None,
        })
    }
}

/// The keys of one engine request; usually one.
pub type Keys = SmallVec<[Bytes; 1]>;

/// Number of bytes of records above which the answer to [`EngineRequest::ReadRecords`] may end: no response to a client has more values.
pub const MAX_READ_BYTES: usize = MAX_VALUE_BYTES;

/// A request to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineRequest {
    /// Read the records of these keys at one moment between request and answer. Ends with [`EngineEvent::Read`].
    Read(Keys),
    /// Read the record of this key for an operation that changes nothing. The floor may be left out: only a change compares it. Also ends
    /// with [`EngineEvent::Read`].
    ReadRecord(Bytes),
    /// Read the records of these keys at one moment between request and answer, for an operation that changes nothing. The floors may be
    /// left out. So may the last keys if the records before them have more than [`MAX_READ_BYTES`] together. Also ends with
    /// [`EngineEvent::Read`].
    ReadRecords(Keys),
    /// Return the revision of the last change, at one moment between request and answer. Ends with [`EngineEvent::Revision`]. Sent only to an
    /// engine that [counts its revisions](Link::counts_revisions).
    Revision,
    /// Make these changes. Ends with [`EngineEvent::Committed`].
    Commit(Arc<EngineCommit>),
    /// Read keys with records behind this one, in the order of the engine. Ends with [`EngineEvent::Page`].
    Page {
        /// The bucket and key behind which the page begins. The empty key precedes all others.
        after: Option<(u16, Bytes)>,
        /// Maximum number of records to examine.
        limit: usize,
    },
    /// Watch: read all records at one moment, and then all changes. Replaces the watch in progress, and one that was requested before and
    /// has not begun. The events are, in this order:
    ///
    /// - [`EngineEvent::Snapshot`], any number of times,
    /// - [`EngineEvent::Synced`], once,
    /// - [`EngineEvent::Changes`] and [`EngineEvent::WatchProgress`], with interruptions between [`EngineEvent::WatchInterrupted`] and [`EngineEvent::WatchResumed`],
    /// - [`EngineEvent::WatchLost`], which ends the watch.
    Watch,
    /// Read the wall clocks of all nodes, and report this node's own. The engine drops the reading after [`CLOCK_LIFETIME`]. Ends with
    /// [`EngineEvent::Clocks`], which [`EngineEvent::Writable`] may follow.
    Clocks {
        /// The process that reports its clock.
        process: u128,
        /// The reading of its clock.
        reading_ms: u64,
    },
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    /// The record, with its revision; `None` if there is none.
    pub record: Option<(Record, Revision)>,
    /// The floor of its bucket, or [`UNKNOWN_FLOOR`].
    pub floor: (Version, Revision),
}

/// Placeholder for a floor that was not read. No floor has this value, since each was written.
pub const UNKNOWN_FLOOR: (Version, Revision) = ((0, 0), Revision(0));

/// A record with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRecord {
    /// The key.
    pub key: Bytes,
    /// The record.
    pub record: Record,
    /// The revision of the record.
    pub revision: Revision,
}

/// A page of records in the order of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPage {
    /// The records.
    pub records: Vec<KeyedRecord>,
    /// Whether more records follow.
    pub has_more: bool,
}

impl KeyState {
    /// Returns the revision of the last change of this key. If it has no record, the revision may be that of a later change in its bucket.
    pub fn revision(&self) -> Revision {
        // The purge of a tombstone changes the floor with it.
        self.record.as_ref().map_or(self.floor.1, |(_, it)| *it)
    }
}

/// The outcome of a [commit](EngineRequest::Commit).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The commit was made. All its engine keys have this revision.
    Committed(Revision),
    /// An engine key had another revision. Contains the state of the unit's keys, in their order, at the moment of the refusal.
    Conflict(Vec<KeyState>),
    /// The request that the unit answers already has this answer.
    AlreadyAnswered(Bytes),
    /// The commit will not be made, for a permanent reason.
    Failed(EngineError),
    /// The commit was made, or was not, or may still be made.
    Unknown,
    /// The commit was not sent and will not be: there was no connection.
    NotSent,
}

/// The reason why an engine certainly does not execute a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine is full.
    #[error("the storage is full")]
    Full,
    /// Too few replicas follow the engine.
    #[error("the storage has too few replicas and accepts no changes")]
    Unreplicated,
    /// The data exceeds the engine's maximum size, given in bytes.
    #[error(
        "the entry is larger than the {0} bytes that the storage accepts, including its metadata"
    )]
    TooLarge(usize),
    /// The data exceeds a limit of the engine that is set below its default.
    #[error("the storage rejects a request of this size: its limit is below the default")]
    LimitExceeded,
    /// The engine holds data that this program does not write.
    #[error("the storage has data that this program cannot read: {0}")]
    Foreign(String),
    /// The engine is not the one with which this process began.
    #[error("the storage was replaced by another one, restart the server: {0}")]
    Replaced(String),
}

/// Readings of the wall clocks, as the engine has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockReadings {
    /// The engine's own clock, if it has one.
    pub engine_ms: Option<u64>,
    /// The last reading of each node, identified by its process.
    pub nodes: Vec<(u128, u64)>,
}

/// An event from an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEvent {
    /// The state of keys, in their order; of the first ones after [`EngineRequest::ReadRecords`]. If the engine did not answer, the error is
    /// `None`.
    Read(EngineRequestId, Result<Vec<KeyState>, Option<EngineError>>),
    /// The engine's revision. If the engine did not answer, the error is `None`.
    Revision(EngineRequestId, Result<Revision, Option<EngineError>>),
    /// The outcome of a commit.
    Committed(EngineRequestId, CommitOutcome),
    /// A page of records. If the engine did not answer, the error is `None`.
    Page(EngineRequestId, Result<RecordPage, Option<EngineError>>),
    /// The wall clocks of the nodes. If the engine did not answer, the error is `None`.
    Clocks(EngineRequestId, Result<ClockReadings, Option<EngineError>>),
    /// Whether the engine accepts changes, as the [report of this node's clock](EngineRequest::Clocks) shows. The error is the reason why it does
    /// not.
    Writable(Result<(), EngineError>),
    /// Members of an engine, of which this server chooses one for each request. Precedes [`Clocks`](Self::Clocks).
    Members {
        /// Number of members in the configuration.
        configured: u64,
        /// Number of those that are avoided because they do not answer.
        avoided: u64,
    },
    /// A part of the snapshot's records.
    Snapshot(EngineRequestId, Vec<KeyedRecord>),
    /// The snapshot is complete at this revision. Contains the floors of all buckets at that moment.
    Synced(EngineRequestId, Revision, Vec<Version>),
    /// All changes of one revision except those of floors. `None` is a purged tombstone.
    Changes(EngineRequestId, Revision, Vec<(Bytes, Option<Record>)>),
    /// All changes up to this long ago were reported. Arrives every few seconds, between changes as well.
    WatchProgress(EngineRequestId, Duration),
    /// Changes are interrupted. They will resume where they stopped, or be lost.
    WatchInterrupted(EngineRequestId),
    /// Changes have resumed where they stopped.
    WatchResumed(EngineRequestId),
    /// Changes may have been missed. The reason is given if it is permanent.
    WatchLost(EngineRequestId, Option<EngineError>),
    /// The engine continues from an earlier state: the last changes made or reported may be missing. Later revisions are greater than all
    /// earlier ones. Earlier requests are answered before this event.
    Reverted,
}

/// A connection to an engine. Behind it is a task that has the sockets, or a simulation.
pub trait Link: Debug + Send {
    /// Returns a secret that the engine keeps for all servers of the store. It protects page tokens.
    fn store_secret(&self) -> &[u8];

    /// Accepts a request. The answer arrives later, if the engine answers at all. After the engine's own time limit, an unanswered request
    /// is reported as [unclear](CommitOutcome::Unknown), or not at all.
    fn request(&mut self, id: EngineRequestId, ask: EngineRequest);

    /// Returns the number of accepted requests that [`flush`](Self::flush) will send together.
    fn buffered(&self) -> usize {
        0
    }

    /// Sends the accepted requests.
    fn flush(&mut self) {}

    /// Returns the next event, in the order of arrival.
    fn next_event(&mut self) -> Option<EngineEvent>;

    /// Returns whether each requested commit is sent only once, with no resending on the way. If so, the refusal of a commit that was
    /// requested once is not caused by a copy of it.
    fn sends_once(&self) -> bool;

    /// Returns whether only changes have revisions. If so, a watch that is not behind reports the last revision at once, and the engine's
    /// revision [can be requested](EngineRequest::Revision).
    fn counts_revisions(&self) -> bool;

    /// Returns `Ready` if there are events. Otherwise, the context is woken when one arrives.
    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()>;
}
