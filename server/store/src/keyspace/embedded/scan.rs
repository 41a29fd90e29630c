//! SCAN: pages of the keys that match a pattern, or of their entries, in the order of their hashes.
//!
//! A page ends at a position in that order, and its token contains that position. The order of two keys never changes, even if
//! segments of the table split or join. So every key that exists during the whole scan is on exactly one page. A key that is
//! created or deleted during the scan may be on a page or not. The server keeps no state between pages.
//!
//! # Keys that the client may not read
//!
//! These keys are skipped before any key is counted or compared. A page ends before a key that the client may read, or at the end
//! of a range of hashes. The length of that range depends only on the work of visiting the whole store, rounded up to a power of two.
use super::KeyspaceLimits;
use super::get_many::BYTES_PER_STEP;
use super::packed_entry::{EntryFields, PackedEntry};
use super::table::Table;
use crate::keyspace::{MAX_ENTRY_PAGE_BYTES, PageRequest, PageTokens};
use bytes::{Bytes, BytesMut};
use statestore_protocol::glob::Glob;
use statestore_protocol::{PageEntry, Reply, ServiceError, Version as Given};

/// Maximum steps of a page, roughly nanoseconds. The range of hashes of a page takes no more on average. A page that has spent
/// this many steps on comparisons compares no further key. Chance, one more segment and one more comparison may exceed it, by less
/// than two milliseconds for the longest keys.
const PAGE_STEPS: usize = 400_000;
/// Steps of visiting a key, or a segment, besides comparing it.
const VISIT_STEPS: usize = 160;
/// Steps of checking whether the client may read a key.
const FILTER_STEPS: usize = 100;
/// Maximum steps of compiling a byte of the pattern.
const COMPILE_STEPS: usize = 8;

/// Payload bytes of a page besides its keys, at most: two array headers and the token.
const FRAME_BYTES: usize = 64;

/// The limits of a page, and the keys of its token.
#[derive(Debug)]
pub(super) struct Scanner {
    max_bytes: usize,
    max_keys: usize,
    /// Keys of the tokens, also of those of other orders of keys.
    pub(super) tokens: PageTokens,
}

impl Scanner {
    pub(super) fn new(limits: &KeyspaceLimits) -> Self {
        let secret = limits.hash_key.map(u64::to_be_bytes);
        Self {
            max_bytes: limits.max_page_bytes.saturating_sub(FRAME_BYTES),
            max_keys: limits.max_page_keys.max(1),
            tokens: PageTokens::new(secret.as_flattened()),
        }
    }

    /// Returns a page, and adds its steps to `work`.
    ///
    /// # Errors
    /// A syntax error, if no server of this store made the token.
    pub(super) fn page(
        &self,
        table: &Table,
        request: &PageRequest,
        mono_ms: u64,
        work: &mut usize,
    ) -> Result<Reply, ServiceError> {
        let from = match &request.token {
            None => 0,
            Some(token) => self.position(token).ok_or(ServiceError::Syntax)?,
        };
        let (page, next) = self.page_from(table, request, from, mono_ms, work);
        let token = next.map(|position| self.tokens.seal(&position.to_be_bytes()));
        Ok(page.into_reply(token, mono_ms))
    }

    /// Returns the position of a token; `None` if no server of this store made it.
    fn position(&self, token: &[u8]) -> Option<u64> {
        let position = self.tokens.open(token)?;
        Some(u64::from_be_bytes(position[..].try_into().ok()?))
    }

    /// Returns the page that begins at the position `from`, and the position of the next page; `None` after the last.
    fn page_from<'t>(
        &self,
        table: &'t Table,
        request: &'t PageRequest,
        from: u64,
        mono_ms: u64,
        work: &mut usize,
    ) -> (Page<'t>, Option<u64>) {
        let glob = Glob::new(&request.pattern);
        let mut page = Page::new(table, request, self);
        let end = from.saturating_add(range(table));
        let mut position = from;
        let mut visiting = request.pattern.len() * COMPILE_STEPS;
        let mut comparing = 0;
        let visit_steps = VISIT_STEPS + request.filter.as_ref().map_or(0, |_| FILTER_STEPS);
        let mut candidates = Vec::new();
        let next = 'page: loop {
            let (entries, last) = table.segment_at(position);
            candidates.clear();
            visiting += VISIT_STEPS;
            candidates.extend(entries.filter_map(|entry| {
                let (key, deadline) = entry.key_and_deadline();
                visiting += visit_steps + key.len();
                let hash = table.hash(key);
                let is_live = deadline.is_none_or(|deadline| deadline > mono_ms);
                let is_here = is_live && (position..=end).contains(&hash);
                (is_here && request.allows(key)).then_some((hash, key))
            }));
            candidates.sort_unstable();
            // Keys with the same hash share a position, so a page has all of them or none.
            for group in candidates.chunk_by(|a, b| a.0 == b.0) {
                let hash = group[0].0;
                if comparing >= PAGE_STEPS && hash > from {
                    break 'page Some(hash);
                }
                let matching = group.iter().map(|&(_, key)| key);
                let matching = matching.filter(|key| glob.matches_counted(key, &mut comparing));
                if !page.add(hash, matching) {
                    break 'page Some(hash);
                }
            }
            let last = last.min(end);
            let Some(next) = last.checked_add(1) else {
                break None;
            };
            position = next;
            if last == end {
                break Some(position);
            }
        };
        *work += visiting + comparing + page.value_bytes() / BYTES_PER_STEP;
        (page, next)
    }
}

/// Returns the distance between the first and the last hash of a page. A page covers the largest power of two of hashes whose keys
/// take no more than [`PAGE_STEPS`] on average.
fn range(table: &Table) -> u64 {
    let steps = table.len() * VISIT_STEPS as u64 + table.key_bytes();
    let pages = steps.div_ceil(PAGE_STEPS as u64).next_power_of_two();
    u64::MAX.checked_shr(pages.ilog2()).unwrap_or(0)
}

/// The keys of a page, concatenated, and their lengths. With values, also their entries.
#[derive(Debug)]
struct Page<'t> {
    request: &'t PageRequest,
    keys: BytesMut,
    lengths: Vec<usize>,
    /// The entries of the keys in this table, if their values are requested.
    entries: Option<(&'t Table, Vec<EntryFields<'t>>)>,
    /// Payload bytes of the keys, or bytes of the keys and values.
    bytes: usize,
    max_bytes: usize,
    /// Upper bound of the bytes of the keys or entries in the response.
    content_bytes: usize,
    max_content_bytes: usize,
    max_keys: usize,
}

impl<'t> Page<'t> {
    fn new(table: &'t Table, request: &'t PageRequest, limits: &Scanner) -> Self {
        Self {
            request,
            keys: BytesMut::new(),
            lengths: Vec::new(),
            entries: request.with_values.then(|| (table, Vec::new())),
            bytes: 0,
            max_bytes: if request.with_values {
                MAX_ENTRY_PAGE_BYTES
            } else {
                limits.max_bytes
            },
            content_bytes: 0,
            max_content_bytes: request.max_content_bytes(size_of::<u64>()),
            max_keys: limits.max_keys,
        }
    }

    /// Adds all keys, which have this hash, or none if they do not fit. An empty page accepts any keys. Returns whether the keys
    /// were added.
    fn add<'k>(&mut self, hash: u64, keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let before = (self.keys.len(), self.lengths.len());
        for key in keys {
            self.keys.extend_from_slice(key);
            self.lengths.push(key.len());
            let Some((table, entries)) = &mut self.entries else {
                self.bytes += bulk_len(key.len());
                self.content_bytes += self.request.content_bytes(key.len(), 0);
                continue;
            };
            let fields = table.get(hash, key).map(PackedEntry::fields);
            let value_bytes = fields.map_or(0, |fields| fields.value.len());
            self.bytes += key.len() + value_bytes;
            self.content_bytes += self.request.content_bytes(key.len(), value_bytes);
            entries.extend(fields);
        }
        let is_over = self.bytes > self.max_bytes
            || self.content_bytes > self.max_content_bytes
            || self.lengths.len() > self.max_keys;
        if is_over && before.1 > 0 && self.lengths.len() > before.1 {
            self.keys.truncate(before.0);
            self.lengths.truncate(before.1);
            if let Some((_, entries)) = &mut self.entries {
                entries.truncate(before.1);
            }
            return false;
        }
        true
    }

    /// Returns the number of bytes of the values that will be copied.
    fn value_bytes(&self) -> usize {
        let entries = self.entries.iter().flat_map(|(_, entries)| entries);
        entries.map(|fields| fields.value.len()).sum()
    }

    fn into_reply(self, token: Option<Bytes>, mono_ms: u64) -> Reply {
        let mut rest = self.keys.freeze();
        let keys = self.lengths.iter().map(|&len| rest.split_to(len));
        let Some((_, fields)) = self.entries else {
            return Reply::Page {
                keys: keys.collect(),
                token,
            };
        };
        let entries = keys.zip(&fields).map(|(key, fields)| PageEntry {
            key,
            value: Bytes::copy_from_slice(fields.value),
            version: Given::new(fields.version.0, fields.version.1),
            expires_in_ms: fields
                .deadline_ms()
                .map(|deadline| deadline.saturating_sub(mono_ms)),
        });
        Reply::EntryPage {
            entries: entries.collect(),
            token,
        }
    }
}

/// Returns the number of bytes of `$<len>\r\n<key>\r\n`.
fn bulk_len(len: usize) -> usize {
    let digits = len.checked_ilog10().unwrap_or(0) as usize + 1;
    1 + digits + 2 + len + 2
}
