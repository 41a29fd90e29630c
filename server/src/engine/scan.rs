//! SCAN: one page at a time of the keys that match a pattern, in the order of their hashes.
//!
//! A page ends at a position in that order, and its token is that position. The order of two keys never changes,
//! whatever happens to the table, so every key that exists during the whole scan is on exactly one page; keys that
//! come or go meanwhile are or are not. Nothing is kept between pages.
use super::EngineConfig;
use super::table::Table;
use bytes::{Bytes, BytesMut};
use statestore::protocol::glob::Glob;

/// Most bytes that the patterns of one page are compared with, and what visiting a key costs besides: both
/// together keep the work for a page well below a millisecond, also where nothing matches.
const PAGE_WORK: usize = 400_000;
const VISIT_WORK: usize = 160;

/// What a page has in its payload besides its keys: two array headers and the token.
const FRAME_BYTES: usize = 64;

/// How many bytes there are to a token: the position, and a check that it is one that this store gave out.
const TOKEN_BYTES: usize = 16;

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages {
    max_bytes: usize,
    max_keys: usize,
}

impl Pages {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self {
            max_bytes: config.max_page_bytes.saturating_sub(FRAME_BYTES),
            max_keys: config.max_page_keys.max(1),
        }
    }

    /// The page that begins at the position `from`, and where the next one begins, if there is more to see.
    pub(super) fn page(
        self,
        table: &Table,
        pattern: &[u8],
        from: u64,
        mono_ms: u64,
    ) -> (Vec<Bytes>, Option<u64>) {
        let glob = Glob::new(pattern);
        let mut page = Page::default();
        let mut position = from;
        let mut work = 0;
        let mut candidates = Vec::new();
        loop {
            let (entries, last) = table.segment_at(position);
            candidates.clear();
            work += VISIT_WORK;
            candidates.extend(entries.filter_map(|entry| {
                work += VISIT_WORK;
                let (key, deadline) = entry.key_and_deadline();
                let hash = table.hash(key);
                let is_live = deadline.is_none_or(|deadline| deadline > mono_ms);
                (hash >= position && is_live).then_some((hash, key))
            }));
            candidates.sort_unstable();
            // keys with the same hash share a position, so a page has all of them or none
            for group in candidates.chunk_by(|a, b| a.0 == b.0) {
                let hash = group[0].0;
                if work >= PAGE_WORK && hash > from {
                    return page.end(Some(hash));
                }
                let matching = group.iter().map(|&(_, key)| key).filter(|key| {
                    work += key.len().saturating_mul(pattern.len());
                    glob.matches(key)
                });
                if !page.add(matching, self) {
                    return page.end(Some(hash));
                }
            }
            let Some(next) = last.checked_add(1) else {
                return page.end(None);
            };
            position = next;
            if work >= PAGE_WORK {
                return page.end(Some(position));
            }
        }
    }
}

/// The keys of a page, one behind the other, and their lengths.
#[derive(Debug, Default)]
struct Page {
    keys: BytesMut,
    lengths: Vec<usize>,
    encoded: usize,
}

impl Page {
    /// Adds all of these keys, or, if they do not fit, none. On an empty page they always fit.
    fn add<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>, limits: Pages) -> bool {
        let before = (self.keys.len(), self.lengths.len());
        for key in keys {
            self.keys.extend_from_slice(key);
            self.lengths.push(key.len());
            self.encoded += bulk_len(key.len());
        }
        let is_over = self.encoded > limits.max_bytes || self.lengths.len() > limits.max_keys;
        if is_over && before.1 > 0 && self.lengths.len() > before.1 {
            self.keys.truncate(before.0);
            self.lengths.truncate(before.1);
            return false;
        }
        true
    }

    fn end(self, next: Option<u64>) -> (Vec<Bytes>, Option<u64>) {
        let mut rest = self.keys.freeze();
        let keys = self.lengths.iter().map(|&len| rest.split_to(len)).collect();
        (keys, next)
    }
}

/// How many bytes `$<len>\r\n<key>\r\n` takes.
fn bulk_len(len: usize) -> usize {
    let digits = len.checked_ilog10().unwrap_or(0) as usize + 1;
    1 + digits + 2 + len + 2
}

/// The token of a position.
pub(super) fn token(position: u64, table: &Table) -> Bytes {
    let mut token = [0; TOKEN_BYTES];
    token[..8].copy_from_slice(&position.to_be_bytes());
    token[8..].copy_from_slice(&check(position, table));
    Bytes::copy_from_slice(&token)
}

/// The position of a token that this store gave out in this run; `None` for everything else.
pub(super) fn position(token: &[u8], table: &Table) -> Option<u64> {
    let token: &[u8; TOKEN_BYTES] = token.try_into().ok()?;
    let position = u64::from_be_bytes(*token.first_chunk()?);
    (token[8..] == check(position, table)).then_some(position)
}

/// The keyed hash of the position, which nobody else can make.
fn check(position: u64, table: &Table) -> [u8; 8] {
    let mut text = *b"scan\0\0\0\0\0\0\0\0";
    text[4..].copy_from_slice(&position.to_be_bytes());
    table.hash(&text).to_be_bytes()
}
