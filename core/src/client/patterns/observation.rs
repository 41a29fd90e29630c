//! Events of all keys that match a pattern.
use bytes::Bytes;
use statestore_protocol::Hlc;

/// An event that a [`MatchObserver`](crate::MatchObserver) reports.
///
/// | order | events |
/// |---|---|
/// | first | a [`Set`](Self::Set) for each key that exists, and the changes that happen meanwhile |
/// | then | [`Complete`](Self::Complete), once in the life of the observer, also if no key matches |
/// | then | each later change |
/// | after a gap | [`Resync`](Self::Resync), the differences with later changes among them, and [`Resynced`](Self::Resynced) |
///
/// You know the present state of the store after `Complete` and after `Resynced`, until the next `Resync`. A gap that begins
/// before `Complete` was returned ends with `Complete`, without `Resynced`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatchObservation {
    /// The key has this value.
    Set {
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// Version of the value. It is higher than that of any earlier event of the key, unless a [`Resync`](Self::Resync) lies
        /// between.
        version: Hlc,
    },
    /// The key was deleted, or it expired.
    Deleted {
        /// The key.
        key: Bytes,
        /// Version of the deletion; `None` if a read found the key absent.
        version: Option<Hlc>,
    },
    /// The present state was reported: each key that exists had a [`Set`](Self::Set).
    Complete,
    /// Changes may have been missed: the connection was lost, the store reported a gap, or a notification was in doubt. The
    /// differences follow, including the deletions.
    Resync,
    /// The differences since the gap were reported.
    Resynced,
}
