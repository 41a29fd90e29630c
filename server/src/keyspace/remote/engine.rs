//! What an engine elsewhere has to do for a [`Remote`](super::Remote) keyspace, as questions and news without I/O.
use super::clocks::FoundClocks;
use super::record::Record;
use crate::keyspace::RequestDigest;
use crate::keyspace::rules::Version;
use bytes::Bytes;
use smallvec::SmallVec;
use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Into so many buckets the entries are divided; each has a floor of its own.
pub const BUCKETS: u16 = 1024;

/// The state of a place of the engine, and where in the order of all its changes that was made. No two are equal; a later
/// one is greater. The one of a place that has never been written, or was deleted, is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// Names a question, so that its answer is known. None is used again by the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// A place of the engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The [record](Record) of a key.
    Entry(Bytes),
    /// The highest version that a tombstone had which was purged from this bucket.
    Floor(u16),
    /// The answer to a request that several servers may be given. It goes by itself, some time after nobody can deliver the request
    /// again: an engine keeps it for [so long](ANSWER_LIFETIME) at least.
    Answer(RequestDigest),
}

/// For so long, at least, an engine keeps the answer to a request; nobody executes one for as long as that after it came.
pub const ANSWER_LIFETIME: Duration = Duration::from_secs(11 * 60);

/// For so long an engine keeps what a node told of its clock.
pub const CLOCK_LIFETIME: Duration = Duration::from_secs(20);

/// The bucket that a key belongs to. It is the same for ever: the format of the data depends on it.
pub fn bucket_of(key: &[u8]) -> u16 {
    // FNV-1a. Buckets need to be even, not secret: who fills one makes its floor rise, nothing else.
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let folded = (hash >> 32) ^ hash;
    u16::try_from(folded % u64::from(BUCKETS)).unwrap_or_default()
}

/// What a place is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// The record of a key.
    Record(Record),
    /// The version of a floor.
    Floor(Version),
    /// An answer.
    Answer(Bytes),
    /// Nothing: a tombstone is purged.
    Nothing,
}

/// Changes that are made all at one moment, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// They are made if all of these places have these revisions.
    pub compares: Vec<(Place, Revision)>,
    /// The changes, of different places.
    pub puts: Vec<(Place, Put)>,
}

impl Unit {
    /// The request to which it has the answer.
    pub fn request(&self) -> Option<RequestDigest> {
        self.compares.iter().find_map(|(place, _)| match place {
            Place::Answer(request) => Some(*request),
            Place::Entry(_) | Place::Floor(_) => None,
        })
    }
}

/// Keys of one question: one, for the most part.
pub type Keys = SmallVec<[Bytes; 1]>;

/// What is asked of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// What these keys hold, at one moment between question and answer. Ends with [`News::Read`].
    Read(Keys),
    /// What this key holds, for somebody who changes nothing: the floor, which only a change is compared with, need not be looked at.
    /// Ends with [`News::Read`], too.
    Look(Bytes),
    /// Which revision the last change has that was made, at one moment between question and answer. Ends with [`News::Revision`]. Asked only
    /// of an engine that [counts its revisions](Link::counts_revisions).
    Revision,
    /// Make these changes. Ends with [`News::Committed`].
    Commit(Arc<Unit>),
    /// Keys with records, in the order of the engine, behind this one. Ends with [`News::Page`].
    Page {
        /// Behind which key of which bucket; the empty key is before all others.
        after: Option<(u16, Bytes)>,
        /// How many records are looked at, at most.
        most: usize,
    },
    /// All records at one moment, and then all changes. What was watched before is forgotten, as is a watch that was asked for before and
    /// has not begun. Tells [`News::Snapshot`] any number of times, [`News::Synced`] once, and [`News::Changes`] and
    /// [`News::Watching`] from then on, with interruptions between [`News::WatchBroken`] and [`News::WatchResumed`], until
    /// [`News::WatchLost`].
    Watch,
    /// Look what the wall clocks of all nodes show, and tell what that of this one does; the engine forgets it
    /// [some time](CLOCK_LIFETIME) later. Ends with [`News::Clocks`], behind which [`News::Writable`] may come.
    Clocks {
        /// Which node tells.
        process: u128,
        /// What its clock shows.
        shown_ms: u64,
    },
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The record, with its revision; `None` if there is none.
    pub record: Option<(Record, Revision)>,
    /// The floor of its bucket, or [`UNKNOWN_FLOOR`].
    pub floor: (Version, Revision),
}

/// In the place of a floor that was not looked at. No floor is like that: each has been written.
pub const UNKNOWN_FLOOR: (Version, Revision) = ((0, 0), Revision(0));

/// A record that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whose.
    pub key: Bytes,
    /// The record.
    pub record: Record,
    /// Its revision.
    pub revision: Revision,
}

/// Records in the order of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPage {
    /// The records.
    pub records: Vec<Found>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

impl Seen {
    /// The revision of the last change of this key, or, if it has no record, of one behind it.
    pub fn revision(&self) -> Revision {
        // Whoever purges a tombstone changes the floor with it.
        self.record.as_ref().map_or(self.floor.1, |(_, it)| *it)
    }
}

/// What became of a [commit](Ask::Commit).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was made, and gave all its places this revision.
    Done(Revision),
    /// A place had another revision. What the keys of the unit hold, in their order, at the moment of the refusal.
    Refused(Vec<Seen>),
    /// The request to which the unit has an answer has this one already.
    Answered(Bytes),
    /// It will not be made, for a reason that does not pass by itself.
    Failed(EngineError),
    /// It was made, or not, or will still be.
    Unclear,
    /// It was not sent, and will not be: there was no connection.
    Unsent,
}

/// Why an engine certainly does not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// It has no room.
    #[error("the storage is full")]
    Full,
    /// Too few of its replicas follow it.
    #[error("too few replicas of the storage follow it, so that it takes no changes")]
    Unreplicated,
    /// Something is larger than it takes, which is so many bytes.
    #[error(
        "the entry is larger than the storage takes, which is {0} bytes with all that belongs to it"
    )]
    TooLarge(usize),
    /// The same, by a limit of its own that is lower than it is by default.
    #[error("the storage refuses so much at once: it is set to take less than by default")]
    TooMuch,
    /// What it holds is not what this program writes.
    #[error("the storage holds what this program cannot read: {0}")]
    Foreign(String),
    /// It is not the one any more that this process began with.
    #[error("the storage is another one by now, and the server has to be started anew: {0}")]
    Replaced(String),
}

/// What an engine tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// What keys hold, in their order; no error if it did not answer.
    Read(AskId, Result<Vec<Seen>, Option<EngineError>>),
    /// How far the engine is; no error if it did not answer.
    Revision(AskId, Result<Revision, Option<EngineError>>),
    /// What became of a commit.
    Committed(AskId, Verdict),
    /// Some of the records; no error if it did not answer.
    Page(AskId, Result<FoundPage, Option<EngineError>>),
    /// What the wall clocks of the nodes show; no error if it did not answer.
    Clocks(AskId, Result<FoundClocks, Option<EngineError>>),
    /// Whether it takes changes, as what this node [tells of its clock](Ask::Clocks) shows; the error says why it does not.
    Writable(Result<(), EngineError>),
    /// Some of the records that there are.
    Snapshot(AskId, Vec<Found>),
    /// The snapshot is whole, at this revision, with the floors of all buckets then.
    Synced(AskId, Revision, Vec<Version>),
    /// All changes of one revision, those of floors aside; `None` is a tombstone that was purged.
    Changes(AskId, Revision, Vec<(Bytes, Option<Record>)>),
    /// All changes that were made up to so long ago are told. Comes every few seconds, while there are changes as well.
    Watching(AskId, Duration),
    /// Changes do not come for a while. They will go on where they ended, or be lost.
    WatchBroken(AskId),
    /// They come again, from where they ended.
    WatchResumed(AskId),
    /// Changes may have been missed, for this reason if it does not pass by itself.
    WatchLost(AskId, Option<EngineError>),
    /// The engine goes on from an earlier state: the last changes that were made or told may not be there. Revisions from now on are
    /// greater than all before. What was asked before is answered before.
    Reverted,
}

/// The way to an engine. Behind it is a task that has the sockets, or a simulation.
pub trait Link: Debug + Send {
    /// A secret that the engine keeps for all servers of the store, for the tokens of pages.
    fn store_secret(&self) -> &[u8];

    /// Takes a question. It is answered later, if the engine answers at all; a question that gets none within the engine's own
    /// limit of time is answered as [unclear](Verdict::Unclear), or not at all.
    fn ask(&mut self, id: AskId, ask: Ask);

    /// How many questions it has taken that go out when somebody has it [send](Self::send) them, so that many go together.
    fn unsent(&self) -> usize {
        0
    }

    /// Sends what it has taken.
    fn send(&mut self) {}

    /// What the engine has told, in the order in which it came.
    fn news(&mut self) -> Option<News>;

    /// Whether a commit that was asked once is sent once: nothing on the way sends it again by itself. A refusal is its own then.
    fn sends_once(&self) -> bool;

    /// Whether its revisions are those of its changes alone, so that a watch tells the last one of them as soon as it is not behind. How far the
    /// engine is [can be asked](Ask::Revision) then.
    fn counts_revisions(&self) -> bool;

    /// Ready if there are news. Otherwise the context is woken when there are.
    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()>;
}
