//! The embedded keyspace: the table, its deadlines, and the rules folded over both.
use super::KeyspaceLimits;
use super::expiry::{self, Deadlines};
use super::packed::{Fields, Packed};
use super::rules::{self, Change, Context, Entry, Operation, Outcome, Token, Version};
use super::scan::{self, Pages};
use super::table::{self, Table};
use crate::clock::Now;
use crate::storage::RecordView;
use bytes::Bytes;

/// Entries, with the deadlines of those that have one.
pub(crate) struct Keyspace {
    table: Table,
    deadlines: Deadlines,
    pages: Pages,
    /// The highest version that a deletion was given. It outlives the deleted entries, so that whoever sets a key
    /// anew gets a version greater than all that the key ever had.
    floor: Version,
    /// The highest version that any change was given.
    highest: Version,
    max_keys: u64,
    max_bytes: u64,
}

/// What a packed entry has besides key, value and node id of its token, at most.
const PACKED_NUMBERS: usize = 64;

/// An entry that is gone because its time was over.
pub(crate) struct Expired {
    pub(crate) key: Bytes,
    pub(crate) version: Version,
}

impl Keyspace {
    /// Without entries.
    pub(crate) fn new(limits: &KeyspaceLimits) -> Self {
        Self {
            table: Table::new(limits.hash_key),
            deadlines: Deadlines::default(),
            pages: Pages::new(limits),
            floor: (0, 0),
            highest: (0, 0),
            max_keys: limits.max_keys,
            max_bytes: limits.max_bytes,
        }
    }

    /// Number of entries, those included that expired but have not been removed yet.
    pub(crate) fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether there is more than the quota allows.
    pub(crate) fn is_full(&self) -> bool {
        self.len() > self.max_keys || self.bytes() > self.max_bytes
    }

    /// The highest version that a deletion was given.
    pub(crate) fn floor(&self) -> Version {
        self.floor
    }

    /// A page of the keys that match a pattern, from the beginning or from where a token says, and the token of the next
    /// page; `None` if that is not a token. Adds its steps, roughly nanoseconds, to `work`.
    pub(crate) fn page(
        &self,
        pattern: &[u8],
        token: Option<&Bytes>,
        now: Now,
        work: &mut usize,
    ) -> Option<(Vec<Bytes>, Option<Bytes>)> {
        let from = match token {
            None => 0,
            Some(token) => scan::position(token)?,
        };
        let (keys, next) = self
            .pages
            .page(&self.table, pattern, from, now.mono_ms, work);
        Some((keys, next.map(scan::token)))
    }

    /// Takes over that a deletion was given this version.
    pub(crate) fn raise_floor(&mut self, version: Version) {
        self.floor = self.floor.max(version);
        self.highest = self.highest.max(version);
    }

    /// The highest version that any change was given.
    pub(crate) fn highest(&self) -> Version {
        self.highest
    }

    /// When the next entry expires, in `mono_ms`.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        Some(self.deadlines.first()?.0)
    }

    /// Bytes of memory that the entries take, with their deadlines.
    pub(crate) fn bytes(&self) -> u64 {
        self.table.bytes() + self.deadlines.len() as u64 * expiry::DEADLINE_BYTES
    }

    /// Whether the quota allows what the operation would make of the entry.
    fn has_room(&self, key: &[u8], former: Option<&Fields<'_>>, operation: &Operation<'_>) -> bool {
        let Operation::Set {
            value,
            options,
            token,
            ..
        } = operation
        else {
            return true;
        };
        let content = value.len() + token.map_or(0, |token| token.node_id().len());
        let Some(former) = former else {
            let entry = table::entry_bytes(key.len() + content + PACKED_NUMBERS);
            let deadline = options.expires_in_ms.map_or(0, |_| expiry::DEADLINE_BYTES);
            return self.table.len() < self.max_keys
                && self.bytes().saturating_add(entry + deadline) <= self.max_bytes;
        };
        let before = former.value.len() + former.token.map_or(0, |token| token.node_id.len());
        let growth = content.saturating_sub(before) as u64;
        growth == 0 || self.bytes().saturating_add(growth) <= self.max_bytes
    }

    /// Takes over a record of a former run. One whose time is over gets a deadline that is over: it is never seen,
    /// and it leaves the usual way, so that the storage forgets it as well.
    pub(crate) fn restore(&mut self, record: &RecordView<'_>, now: Now) {
        let deadline_ms = record.expiry.map(|expiry| {
            let left = expiry.at_wall_ms.saturating_sub(now.wall_ms);
            now.mono_ms.saturating_add(left.min(expiry.ttl_ms))
        });
        let fields = Fields {
            key: record.key,
            value: record.value,
            version: record.version,
            token: record.fence.as_ref().map(Token::from),
            deadline_ms,
        };
        let hash = self.table.hash(record.key);
        let former = self.deadline_of(hash, record.key);
        self.put(hash, former, &fields);
    }

    /// Brings what it takes to restore these keys near to the processor.
    pub(crate) fn restore_soon(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        let table = &self.table;
        table.touch(&keys.map(|key| table.hash(key)).collect::<Vec<_>>());
    }

    /// Takes over a deletion of a former run. Its version came with the stored clock.
    pub(crate) fn restore_deletion(&mut self, key: &[u8]) {
        let hash = self.table.hash(key);
        let former = self.deadline_of(hash, key);
        self.remove(hash, key, former, (0, 0));
    }

    /// Removes the entry whose time was over first.
    pub(crate) fn expire_first(&mut self, now: Now) -> Option<Expired> {
        let (deadline, hash) = self.deadlines.first()?;
        if deadline > now.mono_ms {
            return None;
        }
        let key = self
            .table
            .with_hash(hash)
            .map(Packed::key_and_deadline)
            .find(|(_, its)| *its == Some(deadline))
            .map(|(key, _)| Bytes::copy_from_slice(key))
            .expect("every deadline belongs to an entry");
        Some(self.expire_entry(hash, deadline, key, now))
    }

    /// Executes one operation on the entry of `key`, which first goes if its time is over.
    pub(crate) fn apply<'a>(
        &mut self,
        key: &Bytes,
        operation: &Operation<'a>,
        now: Now,
    ) -> (Option<Expired>, Outcome<'a>) {
        let hash = self.table.hash(key);
        let mut expired = None;
        let mut fields = self.table.get(hash, key).map(Packed::fields);
        let mut former = fields.and_then(|fields| fields.deadline_ms);
        if let Some(deadline) = former.filter(|&deadline| deadline <= now.mono_ms) {
            expired = Some(self.expire_entry(hash, deadline, key.clone(), now));
            (fields, former) = (None, None);
        }
        let entry = fields.map(|fields| Entry {
            value: fields.value,
            version: fields.version,
            token: fields.token,
        });
        let context = Context {
            wall_ms: now.wall_ms,
            floor: self.floor,
            has_room: self.has_room(key, fields.as_ref(), operation),
        };
        let outcome = operation.apply(entry.as_ref(), &context);
        match outcome.change {
            Change::Keep => {}
            Change::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let fields = Fields {
                    key,
                    value,
                    version,
                    token: token.map(Token::from),
                    deadline_ms: ttl_ms.map(|ttl| now.mono_ms.saturating_add(ttl.get())),
                };
                self.put(hash, former, &fields);
            }
            Change::Remove { version } => self.remove(hash, key, former, version),
        }
        (expired, outcome)
    }

    fn expire_entry(&mut self, hash: u64, deadline: u64, key: Bytes, now: Now) -> Expired {
        let deleted = self
            .table
            .get(hash, &key)
            .map_or((0, 0), |it| it.fields().version);
        let version = rules::deletion_version(deleted, now.wall_ms);
        self.remove(hash, &key, Some(deadline), version);
        Expired { key, version }
    }

    fn put(&mut self, hash: u64, former: Option<u64>, fields: &Fields<'_>) {
        self.table.put(hash, fields);
        self.highest = self.highest.max(fields.version);
        if former != fields.deadline_ms {
            self.forget_deadline(hash, former);
            if let Some(deadline) = fields.deadline_ms {
                self.deadlines.insert(deadline, hash);
            }
        }
    }

    fn remove(&mut self, hash: u64, key: &[u8], former: Option<u64>, version: Version) {
        self.table.remove(hash, key);
        self.forget_deadline(hash, former);
        self.raise_floor(version);
    }

    /// Forgets the deadline that an entry had, unless another entry with the same hash has it too.
    fn forget_deadline(&mut self, hash: u64, deadline: Option<u64>) {
        let Some(deadline) = deadline else { return };
        let mut same_hash = self.table.with_hash(hash);
        if !same_hash.any(|it| it.key_and_deadline().1 == Some(deadline)) {
            drop(same_hash);
            self.deadlines.remove(deadline, hash);
        }
    }

    fn deadline_of(&self, hash: u64, key: &[u8]) -> Option<u64> {
        self.deadlines.first()?;
        self.table.get(hash, key)?.key_and_deadline().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestore_protocol::{Hlc, Reply, SetOptions};
    use std::num::NonZeroU64;

    const NOW: Now = Now {
        wall_ms: 1_000,
        mono_ms: 0,
    };

    fn empty() -> Keyspace {
        Keyspace::new(&KeyspaceLimits {
            max_keys: u64::MAX,
            max_bytes: u64::MAX,
            max_page_bytes: 65_536,
            max_page_keys: 1_024,
            hash_key: [1, 2],
        })
    }

    fn set(keyspace: &mut Keyspace, key: &'static str, ttl_ms: u64) {
        let timestamp = Hlc::store_version((1_000, 0));
        let options = SetOptions {
            expires_in_ms: NonZeroU64::new(ttl_ms),
            ..SetOptions::default()
        };
        let operation = Operation::Set {
            value: &"v".into(),
            options,
            timestamp: &timestamp,
            token: None,
        };
        let (_, outcome) = keyspace.apply(&key.into(), &operation, NOW);
        assert_eq!(outcome.reply, Reply::Ok);
    }

    #[test]
    fn entries_that_share_hash_and_deadline_expire_each() {
        let mut keyspace = empty();
        keyspace.table.collide();
        for key in ["a", "b", "c", "d"] {
            set(&mut keyspace, key, 10);
        }
        set(&mut keyspace, "b", 20);
        set(&mut keyspace, "c", 0);
        let delete = Operation::Del { token: None };
        keyspace.apply(&"d".into(), &delete, NOW);
        let at = |mono_ms| Now { mono_ms, ..NOW };
        let expired = |keyspace: &mut Keyspace, mono_ms| {
            keyspace
                .expire_first(at(mono_ms))
                .map(|expired| expired.key)
        };
        assert_eq!(keyspace.next_deadline_ms(), Some(10));
        assert_eq!(expired(&mut keyspace, 9), None);
        assert_eq!(expired(&mut keyspace, 10), Some("a".into()));
        assert_eq!(expired(&mut keyspace, 10), None);
        assert_eq!(expired(&mut keyspace, 20), Some("b".into()));
        assert_eq!(keyspace.next_deadline_ms(), None);
        assert_eq!(keyspace.table.len(), 1);
    }

    #[test]
    fn a_lease_renewed_ever_so_often_has_one_deadline() {
        let mut keyspace = empty();
        for ttl in 1..10_000 {
            set(&mut keyspace, "k", ttl);
        }
        assert_eq!(keyspace.deadlines.len(), 1);
        set(&mut keyspace, "k", 0);
        assert_eq!(keyspace.deadlines.len(), 0);
    }
}
