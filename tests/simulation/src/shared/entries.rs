//! Values and versions in the results of MGET and of pages with values.
use super::ground_truth::{GroundTruth, KeyStates};
use bytes::Bytes;
use statestore_protocol::{PageEntry, Version};
use statestored_shared::RecordContent;

/// Returns whether a key has this value and version in this state; `None` means that it is absent.
fn holds(states: &KeyStates, key: &Bytes, entry: Option<(&Bytes, Version)>) -> bool {
    let found = states.get(key).and_then(|record| match &record.content {
        RecordContent::Entry { value, .. } => {
            let (wall_ms, counter) = record.version;
            Some((value, Version::new(wall_ms, counter)))
        }
        RecordContent::Tombstone => None,
    });
    found == entry
}

/// Checks that all keys had these entries at one moment between two times.
pub(super) fn check_moment(
    truth: &GroundTruth<'_>,
    (from_ms, to_ms): (u64, u64),
    keys: &[Bytes],
    entries: &[Option<(Bytes, Version)>],
) -> Result<(), String> {
    if keys.len() != entries.len() {
        return Err("it has another number of entries than keys".into());
    }
    let is_explained = truth.between(from_ms, to_ms).any(|states| {
        keys.iter().zip(entries).all(|(key, entry)| {
            let entry = entry.as_ref().map(|(value, version)| (value, *version));
            holds(states, key, entry)
        })
    });
    is_explained
        .then_some(())
        .ok_or_else(|| "the keys had these entries at no moment".into())
}

/// Checks that each entry of a page existed at some moment between two times.
pub(super) fn check_page(
    truth: &GroundTruth<'_>,
    (from_ms, to_ms): (u64, u64),
    entries: &[PageEntry],
) -> Result<(), String> {
    for entry in entries {
        let found = Some((&entry.value, entry.version));
        let mut states = truth.between(from_ms, to_ms);
        if !states.any(|states| holds(states, &entry.key, found)) {
            return Err(format!("{entry:?} was not there"));
        }
    }
    Ok(())
}
