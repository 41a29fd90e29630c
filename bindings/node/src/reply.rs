//! Results of operations.
use bytes::Bytes;
use statestore::{
    Capabilities, ConnectionState, DelOutcome, Entries, Entry, Expiry, Hlc, Holding, Leader,
    LostReason, MatchObservation, Observation, Release, SetOutcome, TransactionOutcome,
    UpdateOutcome, VdelOutcome,
};
use statestore_embed::{Acquisition, Error, EventStream, Guard, WriteResults};
use std::time::Duration;

/// The result of an operation. *Or null* means that both slots are `null`.
pub(crate) enum Reply {
    /// No value.
    Done(()),
    /// The value and the version, or null.
    Entry(Option<Entry>),
    /// A list with two places for each entry; whether the entries are a snapshot.
    Entries(Entries),
    /// A list of the value and the milliseconds that it has left or null, and the version; or null.
    Remaining(Option<Entry>),
    /// A list with the two places of [`Remaining`](Self::Remaining) for each; whether the entries are a snapshot.
    AllRemaining(Entries),
    /// A list: conditions, remaining times, the most operations or null, eventual reads, the most keys or null, values of scans,
    /// watches of patterns.
    Capabilities(Capabilities),
    /// A list of versions or null; or the operation, and the version or null.
    Transaction(TransactionOutcome),
    /// Whether it applied; the version.
    Set(SetOutcome),
    /// A list with three places for each: the failure or nothing, and the two of [`Set`](Self::Set).
    Sets(WriteResults<SetOutcome>),
    /// The same list, with the two slots of [`Del`](Self::Del).
    Dels(WriteResults<DelOutcome>),
    /// A word; the version if it has one.
    Del(DelOutcome),
    Vdel(VdelOutcome),
    Update(UpdateOutcome),
    /// A list of keys, or null.
    Page(Option<Vec<Bytes>>),
    /// A list with three places for each: the key, and the two of [`Remaining`](Self::Remaining). Or null.
    EntryPage(Option<Vec<(Bytes, Entry)>>),
    Stream(TypedStream),
    /// A word and the value, the version or the count; and the version of the value. Or null.
    Observation(Option<Observation>),
    /// A word and a list of the key, the value if the key is set, and the version or null. The word alone for an event without a
    /// key. Or null.
    MatchObservation(Option<MatchObservation>),
    /// A word and the [state](crate::convert::StateOutput), or null.
    State(Option<ConnectionState>),
    Guard(Guard),
    /// The guard, or `null` and the holding.
    Acquisition(Acquisition),
    Holding(Option<Holding>),
    /// The holder and the value, or null.
    Leader(Option<Leader>),
    /// `true` and the holding, `false` and the failure, or null.
    HolderEvent(Option<std::result::Result<Option<Holding>, Error>>),
    /// `true` and a list of holder and value, `false` and the failure, or null.
    LeaderEvent(Option<std::result::Result<Option<Leader>, Error>>),
    /// A word.
    Release(Release),
    /// A word.
    Lost(LostReason),
    Version(Hlc),
    Flag(bool),
    /// The milliseconds that a key has left, or null.
    TimeLeft(Option<Expiry>),
    /// Milliseconds.
    Elapsed(Duration),
}

/// A stream of events.
pub(crate) enum TypedStream {
    Observations(EventStream<Observation>),
    MatchObservations(EventStream<MatchObservation>),
    States(EventStream<ConnectionState>),
    Holders(EventStream<Result<Option<Holding>, Error>>),
    Leaders(EventStream<Result<Option<Leader>, Error>>),
}
