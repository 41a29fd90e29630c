//! The result of a read of several keys.
use super::Entry;
use std::ops::Deref;
use std::slice;
use std::vec;

/// The entries of several keys, in the order of the keys, with `None` for each absent key.
///
/// Derefs to a slice, and iterates by value or by reference.
///
/// ```
/// use statestore::{Entries, Entry, Hlc};
///
/// let version: Hlc = "1696374425000:1:StateStore".parse()?;
/// let pumps = Entries::new(vec![Some(Entry::new("on", version)), None], true);
/// assert!(pumps.is_snapshot());
/// assert_eq!(pumps.len(), 2);
/// for pump in pumps {
///     println!("{:?}", pump.map(|entry| entry.value));
/// }
/// # Ok::<(), statestore::HlcError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    entries: Vec<Option<Entry>>,
    is_snapshot: bool,
}

impl Entries {
    /// Creates a result, for code built on this client, such as a test double.
    pub fn new(entries: Vec<Option<Entry>>, is_snapshot: bool) -> Self {
        Self {
            entries,
            is_snapshot,
        }
    }

    /// Returns whether the entries are a snapshot: all keys had them at one moment during the call.
    ///
    /// Returns `false` if the client sent several requests, because a write may have happened between any two of them.
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }
}

impl Deref for Entries {
    type Target = [Option<Entry>];

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl<const N: usize> PartialEq<[Option<Entry>; N]> for Entries {
    fn eq(&self, other: &[Option<Entry>; N]) -> bool {
        self.entries == *other
    }
}

impl PartialEq<Vec<Option<Entry>>> for Entries {
    fn eq(&self, other: &Vec<Option<Entry>>) -> bool {
        self.entries == *other
    }
}

impl From<Entries> for Vec<Option<Entry>> {
    fn from(entries: Entries) -> Self {
        entries.entries
    }
}

impl IntoIterator for Entries {
    type Item = Option<Entry>;
    type IntoIter = vec::IntoIter<Option<Entry>>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a Entries {
    type Item = &'a Option<Entry>;
    type IntoIter = slice::Iter<'a, Option<Entry>>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}
