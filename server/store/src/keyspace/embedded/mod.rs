//! The embedded keyspace: the table of entries, their deadlines, and the rules applied to both. Every request ends at once.
mod expiry_index;
mod expiry_rewrite;
mod get_many;
mod inspect;
mod keyspace_limits;
mod packed_entry;
mod prefix_limits;
mod relocation;
mod scan;
mod size_growth;
mod table;
mod transaction;

pub use keyspace_limits::KeyspaceLimits;
pub use prefix_limits::PrefixLimit;

use super::rules::{self, EntryChange, Operation, Token, Version};
use super::{
    ChangeEvent, Completion, EntryState, EntryView, EventSink, Keyspace, KeyspaceMetrics,
    PageRequest, Quota, QuotaUsage, RequestContext, Size,
};
use bytes::Bytes;
use expiry_index::ExpiryIndex;
use expiry_rewrite::ExpiryRewrite;
use packed_entry::{EntryFields, PackedEntry};
use prefix_limits::PrefixLimits;
use relocation::Relocation;
use scan::Scanner;
use statestore_protocol::{Capabilities, Reply, ServiceError};
use statestored_common::ClockReading;
use statestored_storage::{Expiry, RecordView};
use table::Table;

/// All entries in this process's memory, with the deadlines of those that have one.
///
/// # Versions
///
/// The keyspace keeps the highest version of all deletions, the *floor*, also across restarts
/// ([`Batch::clock`](statestored_storage::Batch::clock)). A SET of an absent key uses the floor in place of the stored version. The
/// versions of a key therefore always rise, and so do its notifications and the fencing tokens made of its versions. This holds
/// through deletion, expiry, restart, and a wall clock that was set back.
///
/// One clock for all keys would have the same effect. But a single client with a clock a minute ahead would then push the versions
/// of all keys a minute ahead. With the floor, this affects only keys that are created after a deletion of that client's key, and
/// by no more than the same minute.
pub struct EmbeddedKeyspace {
    table: Table,
    expiry_index: ExpiryIndex,
    expiry_rewrite: ExpiryRewrite,
    scanner: Scanner,
    /// Highest version of all deletions. It outlives the deleted entries: a SET of a deleted key gets a version greater than all
    /// former versions of the key.
    floor: Version,
    /// Highest version of all changes.
    highest_version: Version,
    max_keys: u64,
    max_bytes: u64,
    prefixes: PrefixLimits,
    /// Number of entries that expired.
    expired: u64,
    /// The last quota that rejected a change, until it is taken.
    exceeded_quota: Option<Quota>,
    relocation: Relocation,
    /// Whether the process is short of memory: changes that enlarge the store are rejected.
    is_memory_short: bool,
}

/// The location of a change.
struct ChangeTarget<'a> {
    key: &'a Bytes,
    hash: u64,
    /// Deadline of the former entry.
    former_deadline_ms: Option<u64>,
    /// Whether there was no former entry.
    is_new: bool,
}

impl std::fmt::Debug for EmbeddedKeyspace {
    /// Writes no keys and values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedKeyspace")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl EmbeddedKeyspace {
    /// Creates a keyspace without entries.
    pub fn new(limits: &KeyspaceLimits) -> Self {
        Self {
            table: Table::new(limits.hash_key),
            expiry_index: ExpiryIndex::default(),
            expiry_rewrite: ExpiryRewrite::default(),
            scanner: Scanner::new(limits),
            floor: (0, 0),
            highest_version: (0, 0),
            max_keys: limits.max_keys,
            max_bytes: limits.max_bytes,
            prefixes: PrefixLimits::new(&limits.prefixes),
            expired: 0,
            exceeded_quota: None,
            relocation: Relocation::default(),
            is_memory_short: false,
        }
    }

    fn table_size(&self) -> Size {
        Size {
            keys: self.table.len(),
            bytes: self.table.bytes(),
        }
    }

    /// Returns the number of entries, including expired ones that have not been removed yet.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the entries exceed the quota.
    pub fn is_full(&self) -> bool {
        self.len() > self.max_keys || self.bytes() > self.max_bytes
    }

    /// Restores the highest version of the deletions of former runs.
    pub fn restore_clock(&mut self, wall_ms: u64, counter: u64) {
        self.raise_floor((wall_ms, counter));
    }

    fn raise_floor(&mut self, version: Version) {
        self.floor = self.floor.max(version);
        self.highest_version = self.highest_version.max(version);
    }

    /// Returns the bytes of memory that the entries and their deadlines take. The [quota](KeyspaceLimits::max_bytes) limits them.
    pub fn bytes(&self) -> u64 {
        self.table.bytes() + self.expiry_index.len() as u64 * expiry_index::DEADLINE_BYTES
    }

    /// Restores a record of a former run, before the first request. It is restored even if it exceeds the quota. The last record
    /// of a key counts.
    ///
    /// An expired record gets `now` as its deadline. No request sees it, and it expires as usual, so that the storage deletes it
    /// too.
    pub fn restore(&mut self, record: &RecordView<'_>, now: ClockReading) {
        let end = record.expiry.map(|expiry| {
            self.expiry_rewrite.expiry_stored(now);
            let left = expiry.at_wall_ms.saturating_sub(now.wall_ms);
            packed_entry::EntryExpiry {
                deadline_ms: now.mono_ms.saturating_add(left.min(expiry.ttl_ms)),
                since_ms: record.version.0,
            }
        });
        let fields = EntryFields {
            key: record.key,
            value: record.value,
            version: record.version,
            token: record.fence.as_ref().map(Token::from),
            expiry: end,
        };
        let hash = self.table.hash(record.key);
        let former = self.deadline_of(hash, record.key);
        self.put(hash, former, &fields);
    }

    /// Prefetches the memory in which records with these keys will be [restored](Self::restore), which is faster.
    pub fn prefetch(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        let table = &self.table;
        table.prefetch(&keys.map(|key| table.hash(key)).collect::<Vec<_>>());
    }

    /// Restores the deletion of a key in a former run: removes the entry that was restored before. The version of the deletion
    /// comes with the [clock](Self::restore_clock).
    pub fn restore_deletion(&mut self, key: &[u8]) {
        let hash = self.table.hash(key);
        let former = self.deadline_of(hash, key);
        self.remove(hash, key, former, (0, 0));
    }

    /// Removes the expired entry with the first deadline. Returns whether there was one.
    fn expire_first(&mut self, now: ClockReading, events: &mut dyn EventSink) -> bool {
        let Some((deadline, hash)) = self.expiry_index.first() else {
            return false;
        };
        if deadline > now.mono_ms {
            return false;
        }
        let key = self
            .table
            .with_hash(hash)
            .map(PackedEntry::key_and_deadline)
            .find(|(_, its)| *its == Some(deadline))
            .map(|(key, _)| Bytes::copy_from_slice(key))
            .expect("every deadline belongs to an entry");
        self.expire_entry(hash, deadline, &key, now, events);
        true
    }

    fn expire_entry(
        &mut self,
        hash: u64,
        deadline: u64,
        key: &Bytes,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) {
        self.expired += 1;
        let deleted = self
            .table
            .get(hash, key)
            .map_or((0, 0), |it| it.fields().version);
        let version = rules::deletion_version(deleted, now.wall_ms);
        self.remove(hash, key, Some(deadline), version);
        self.report_removed(key, version, events);
    }

    fn report_removed(&self, key: &Bytes, version: Version, events: &mut dyn EventSink) {
        events.changed(&ChangeEvent {
            key,
            version,
            state: EntryState::Removed { floor: self.floor },
        });
    }

    /// Applies a change to an entry, and reports it.
    fn change(
        &mut self,
        place: &ChangeTarget<'_>,
        change: &EntryChange<'_>,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) {
        let &ChangeTarget {
            key,
            hash,
            former_deadline_ms: former,
            is_new,
        } = place;
        match *change {
            EntryChange::Keep => {}
            EntryChange::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let end = ttl_ms.map(|ttl| packed_entry::EntryExpiry {
                    deadline_ms: now.mono_ms.saturating_add(ttl.get()),
                    since_ms: self.since(place, value).unwrap_or(now.wall_ms),
                });
                let fields = EntryFields {
                    key,
                    value,
                    version,
                    token: token.map(Token::from),
                    expiry: end,
                };
                self.put(hash, former, &fields);
                let expiry = ttl_ms.map(|ttl| {
                    self.expiry_rewrite.expiry_stored(now);
                    Expiry {
                        at_wall_ms: now.wall_ms.saturating_add(ttl.get()),
                        ttl_ms: ttl.get(),
                    }
                });
                events.changed(&ChangeEvent {
                    key,
                    version,
                    state: EntryState::Set {
                        value,
                        token,
                        expiry,
                        is_new,
                    },
                });
            }
            EntryChange::Remove { version } => {
                self.remove(hash, key, former, version);
                self.report_removed(key, version, events);
            }
        }
    }

    /// Returns the wall clock time since which an entry that expires has this value; `None` if it has another value.
    fn since(&self, place: &ChangeTarget<'_>, value: &[u8]) -> Option<u64> {
        place.former_deadline_ms?;
        let fields = self.table.get(place.hash, place.key)?.fields();
        (fields.value == value).then_some(fields.expiry?.since_ms)
    }

    fn put(&mut self, hash: u64, former: Option<u64>, fields: &EntryFields<'_>) {
        let before = self.table_size();
        self.table.put(hash, fields);
        let after = self.table_size();
        self.prefixes.record_change(fields.key, hash, before, after);
        self.highest_version = self.highest_version.max(fields.version);
        if former != fields.deadline_ms() {
            self.remove_deadline(hash, former);
            if let Some(deadline) = fields.deadline_ms() {
                self.expiry_index.insert(deadline, hash);
            }
        }
    }

    fn remove(&mut self, hash: u64, key: &[u8], former: Option<u64>, version: Version) {
        let before = self.table_size();
        self.table.remove(hash, key);
        let after = self.table_size();
        self.prefixes.record_change(key, hash, before, after);
        self.remove_deadline(hash, former);
        self.raise_floor(version);
    }

    /// Removes the former deadline of an entry, unless another entry with the same hash has the same deadline.
    fn remove_deadline(&mut self, hash: u64, deadline: Option<u64>) {
        let Some(deadline) = deadline else { return };
        let mut same_hash = self.table.with_hash(hash);
        if !same_hash.any(|it| it.key_and_deadline().1 == Some(deadline)) {
            drop(same_hash);
            self.expiry_index.remove(deadline, hash);
        }
    }

    fn deadline_of(&self, hash: u64, key: &[u8]) -> Option<u64> {
        self.expiry_index.first()?;
        self.table.get(hash, key)?.key_and_deadline().1
    }
}

impl Keyspace for EmbeddedKeyspace {
    fn take_exceeded_quota(&mut self) -> Option<Quota> {
        self.exceeded_quota.take()
    }

    fn set_limits(&mut self, limits: &KeyspaceLimits) {
        self.max_keys = limits.max_keys;
        self.max_bytes = limits.max_bytes;
        if !self.prefixes.equals(&limits.prefixes) {
            self.prefixes.set(&limits.prefixes);
            // The first part covers a small store completely.
            self.prefixes.count(&self.table, 0);
        }
    }

    fn set_memory_short(&mut self, is_short: bool) {
        self.is_memory_short = is_short;
    }

    fn relocate(&mut self) -> bool {
        self.relocate_slice()
    }

    fn operate(
        &mut self,
        context: &RequestContext,
        key: &Bytes,
        operation: &Operation<'_>,
        events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let now = context.now;
        let hash = self.table.hash(key);
        let mut fields = self.table.get(hash, key).map(PackedEntry::fields);
        let mut former = fields.and_then(|fields| fields.deadline_ms());
        if let Some(deadline) = former.filter(|&deadline| deadline <= now.mono_ms) {
            self.expire_entry(hash, deadline, key, now, events);
            (fields, former) = (None, None);
        }
        let entry = fields.map(|fields| fields.entry(now));
        let exceeded = self.exceeded_quota(key, entry.as_ref(), operation);
        let rules_context = rules::Context {
            wall_ms: now.wall_ms,
            floor: self.floor,
            has_capacity: exceeded.is_none(),
        };
        let is_new = entry.is_none();
        let rules::Outcome {
            reply,
            version,
            change,
        } = operation.apply(entry.as_ref(), &rules_context);
        let place = ChangeTarget {
            key,
            hash,
            former_deadline_ms: former,
            is_new,
        };
        self.change(&place, &change, now, events);
        if reply == Reply::Error(ServiceError::QuotaExceeded) {
            self.exceeded_quota = exceeded;
        }
        Some(Completion::Answered { reply, version })
    }

    fn transact(
        &mut self,
        context: &RequestContext,
        operations: &[(&Bytes, Operation<'_>)],
        events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let reply = self.transact_all(operations, context.now, events);
        Some(Completion::reply(reply))
    }

    fn get_many(
        &mut self,
        context: &RequestContext,
        keys: &[Bytes],
        max_reply_bytes: usize,
        events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let entries = self.entries_of(keys, max_reply_bytes, context.now, events);
        Some(Completion::reply(entries))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn page(
        &mut self,
        context: &RequestContext,
        request: &PageRequest,
        events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let (mono_ms, mut work) = (context.now.mono_ms, 0);
        let page = self.scanner.page(&self.table, request, mono_ms, &mut work);
        events.add_work(work);
        Some(Completion::reply(page.unwrap_or_else(Reply::Error)))
    }

    fn follow(&mut self, _context: &RequestContext, _key: &Bytes) -> Option<Completion> {
        Some(Completion::reply(Reply::Ok))
    }

    fn advance(&mut self, most: usize, now: ClockReading, events: &mut dyn EventSink) {
        self.prefixes.count(&self.table, now.mono_ms);
        for _ in 0..most {
            if !self.expire_first(now, events) {
                return;
            }
        }
    }

    fn rewrite_expiry(&mut self, now: ClockReading, events: &mut dyn EventSink) -> bool {
        self.rewrite_expiry_slice(now, events)
    }

    fn next_ms(&self) -> Option<u64> {
        let deadline = self.expiry_index.first().map(|(deadline, _)| deadline);
        [deadline, self.prefixes.next_ms()]
            .into_iter()
            .flatten()
            .min()
    }

    fn highest_version(&self) -> Version {
        self.highest_version
    }

    fn entry_view(&self, key: &[u8], most_bytes: usize, now: ClockReading) -> Option<EntryView> {
        self.view(key, most_bytes, now)
    }

    fn metrics(&self) -> Option<KeyspaceMetrics> {
        Some(self.keyspace_metrics())
    }

    fn expiring_keys(
        &self,
        pattern: &Bytes,
        token: Option<&Bytes>,
        now: ClockReading,
    ) -> Option<(Vec<Bytes>, Option<Bytes>)> {
        self.expiring_page(pattern, token, now)
    }

    fn prefix_quotas(&self) -> Vec<QuotaUsage> {
        self.prefixes.quotas()
    }

    fn size(&self) -> Size {
        Size {
            keys: self.len(),
            bytes: self.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
