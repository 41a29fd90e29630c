//! The real changes of the store, in its order.
use crate::history::Version;
use bytes::Bytes;
use statestore::Hlc;
use statestored_storage::Record;
use std::collections::BTreeMap;

/// How late a key may expire: the simulation's own timers are not exact to the millisecond.
const MAX_LATE_MS: u64 = 5;

/// A change of a key.
#[derive(Debug, Clone)]
pub(crate) struct StoreChange {
    pub(crate) at_ms: u64,
    pub(crate) key: Bytes,
    /// The new value; `None` is a deletion.
    pub(crate) value: Option<Bytes>,
    /// `None` for a deletion that only the disk knows of.
    pub(crate) version: Option<Version>,
    /// Span of the change in the order of all events: not before the first, nor after the second.
    pub(crate) span: (u64, u64),
    /// The value that expired.
    pub(crate) expired: Option<Bytes>,
    /// The record for the disk, if there is one.
    pub(crate) stored: Option<StoredChange>,
    /// Whether a crash undid the change.
    pub(crate) is_lost: bool,
}

impl StoreChange {
    fn batch(&self) -> Option<(u64, u64)> {
        self.stored.as_ref().map(|stored| stored.batch)
    }
}

/// The stored part of a change.
#[derive(Debug, Clone)]
pub(crate) struct StoredChange {
    /// The fencing token of the new entry.
    pub(crate) token: Option<Hlc>,
    /// The batch of the change, and the run of the server.
    pub(crate) batch: (u64, u64),
}

/// The content of a key.
#[derive(Debug, Clone)]
pub(crate) struct KeyContent {
    pub(crate) value: Bytes,
    pub(crate) version: Version,
    /// Expiry time.
    pub(crate) expires_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct GroundTruth {
    pub(crate) changes: Vec<StoreChange>,
    pub(crate) present: BTreeMap<Bytes, KeyContent>,
    /// Times, and positions in the order of all events, at which everything was lost.
    pub(crate) losses: Vec<(u64, u64)>,
    /// The span of the changes that are being recorded.
    span: (u64, u64),
}

impl GroundTruth {
    /// Starts a span: changes from now on happened after all earlier ones, and not after `stamp`.
    pub(crate) fn start_span(&mut self, stamp: u64) {
        self.span = (self.span.1, stamp);
    }

    pub(crate) fn put(
        &mut self,
        at_ms: u64,
        key: Bytes,
        value: Bytes,
        version: Version,
        due_ms: Option<u64>,
        stored: Option<StoredChange>,
    ) {
        let holds = KeyContent {
            value: value.clone(),
            version,
            expires_ms: due_ms,
        };
        self.present.insert(key.clone(), holds);
        self.changes.push(StoreChange {
            at_ms,
            key,
            value: Some(value),
            version: Some(version),
            span: self.span,
            expired: None,
            stored,
            is_lost: false,
        });
    }

    /// Restores a record that the disk had when the server started.
    pub(crate) fn restore(&mut self, record: &Record, due_ms: Option<u64>) {
        let holds = KeyContent {
            value: record.value.clone(),
            version: record.version,
            expires_ms: due_ms,
        };
        self.present.insert(record.key.clone(), holds);
    }

    /// Whether the disk gets an existing record again, which is no change: the wall clock has jumped.
    ///
    /// # Errors
    /// The record differs from the existing one.
    pub(crate) fn is_stored_again(
        &self,
        record: &Record,
        due_ms: Option<u64>,
    ) -> Result<bool, String> {
        let held = self.present.get(&record.key);
        let Some(held) = held.filter(|held| held.version == record.version) else {
            return Ok(false);
        };
        let is_due = |(told, held): (u64, u64)| told.abs_diff(held) <= MAX_LATE_MS;
        if held.value == record.value && due_ms.zip(held.expires_ms).is_some_and(is_due) {
            return Ok(true);
        }
        Err(format!(
            "{held:?} was stored again as {record:?}, due at {due_ms:?}"
        ))
    }

    /// Records a deletion, by a client or by expiry.
    ///
    /// # Errors
    /// The key was absent, or expired too late.
    pub(crate) fn delete(
        &mut self,
        at_ms: u64,
        key: Bytes,
        version: Option<Version>,
        batch: Option<(u64, u64)>,
    ) -> Result<(), String> {
        let Some(held) = self.present.remove(&key) else {
            return Err(format!("{key:?} was deleted and was not there"));
        };
        let is_due = held.expires_ms.is_some_and(|due_ms| due_ms <= at_ms);
        if let Some(late) = held.expires_ms.and_then(|due_ms| at_ms.checked_sub(due_ms))
            && late > MAX_LATE_MS
        {
            return Err(format!("{key:?} expired {late} ms too late"));
        }
        self.changes.push(StoreChange {
            at_ms,
            key,
            value: None,
            version,
            span: self.span,
            expired: is_due.then_some(held.value),
            stored: batch.map(|batch| StoredChange { token: None, batch }),
            is_lost: false,
        });
        Ok(())
    }

    /// Records the loss of everything: the server had no disk and has ended.
    pub(crate) fn lose_everything(&mut self, at_ms: u64, stamp: u64) {
        self.present.clear();
        self.losses.push((at_ms, stamp));
    }

    /// Marks the changes of later batches of this run as lost, because the server has ended.
    pub(crate) fn lose_tail(&mut self, run: u64, durable: u64) {
        for change in &mut self.changes {
            change.is_lost |= change
                .batch()
                .is_some_and(|(of, batch)| of == run && batch > durable);
        }
    }

    /// Whether the change of a key with this version was made in this run and is not durable yet. The disk has the batches
    /// up to `durable`.
    pub(crate) fn is_in_flight(
        &self,
        key: &[u8],
        version: Version,
        run: u64,
        durable: u64,
    ) -> bool {
        self.changes_of(key).any(|change| {
            let is_durable = |(of, batch)| of != run || batch <= durable;
            change.version == Some(version) && !change.batch().is_none_or(is_durable)
        })
    }

    /// Whether an answer to a request that came after the first `before` changes may report the key as absent. The key was absent
    /// before or was deleted later, and the disk, which has the batches up to `durable`, has that deletion.
    pub(crate) fn is_absent(&self, key: &[u8], before: usize, run: u64, durable: u64) -> bool {
        let is_durable = |change: &StoreChange| {
            change
                .batch()
                .is_none_or(|(of, batch)| of != run || batch <= durable)
        };
        let of_key = |change: &&StoreChange| change.key == key && !change.is_lost;
        let (earlier, later) = self.changes.split_at(before);
        let was_absent = match earlier.iter().rfind(of_key) {
            Some(last) => last.value.is_none() && is_durable(last),
            None => true,
        };
        let mut later = later.iter().filter(of_key);
        was_absent || later.any(|change| change.value.is_none() && is_durable(change))
    }

    /// Returns the changes of a key that were not undone.
    pub(crate) fn changes_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a StoreChange> {
        let is_its = move |change: &&StoreChange| change.key == key && !change.is_lost;
        self.changes.iter().filter(is_its)
    }
}
