//! SCAN: one page at a time of the keys that match a pattern, in the order of their hashes.
//!
//! A page ends at a position in that order, and its token is that position. The order of two keys never changes,
//! whatever happens to the table, so every key that exists during the whole scan is on exactly one page; keys that
//! come or go meanwhile are or are not. Nothing is kept between pages.
use super::KeyspaceLimits;
use super::table::Table;
use bytes::{Bytes, BytesMut};
use siphasher::sip::SipHasher13;
use statestore_protocol::glob::Glob;

/// Most steps of a page, roughly nanoseconds: no further key is compared and no further segment visited beyond it.
/// One segment and one comparison more may exceed it, by less than two milliseconds for the longest keys.
const PAGE_STEPS: usize = 400_000;
/// Steps of visiting a key, or a segment, besides comparing it.
const VISIT_STEPS: usize = 160;
/// Steps of compiling a byte of the pattern, at most.
const COMPILE_STEPS: usize = 8;

/// What a page has in its payload besides its keys: two array headers and the token.
const FRAME_BYTES: usize = 64;

/// How many bytes there are to a token: the position, and a check that these bytes are a token.
const TOKEN_BYTES: usize = 16;

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages {
    max_bytes: usize,
    max_keys: usize,
}

impl Pages {
    pub(super) fn new(limits: &KeyspaceLimits) -> Self {
        Self {
            max_bytes: limits.max_page_bytes.saturating_sub(FRAME_BYTES),
            max_keys: limits.max_page_keys.max(1),
        }
    }

    /// The page that begins at the position `from`, and where the next one begins, if there is more to see. Adds
    /// its steps to `work`.
    pub(super) fn page(
        self,
        table: &Table,
        pattern: &[u8],
        from: u64,
        mono_ms: u64,
        work: &mut usize,
    ) -> (Vec<Bytes>, Option<u64>) {
        let glob = Glob::new(pattern);
        let mut page = Page::default();
        let mut position = from;
        let mut visiting = pattern.len() * COMPILE_STEPS;
        let mut comparing = 0;
        let mut end = |page: Page, visiting, comparing, next| {
            *work += visiting + comparing;
            page.end(next)
        };
        let mut candidates = Vec::new();
        loop {
            let (entries, last) = table.segment_at(position);
            candidates.clear();
            visiting += VISIT_STEPS;
            candidates.extend(entries.filter_map(|entry| {
                let (key, deadline) = entry.key_and_deadline();
                visiting += VISIT_STEPS + key.len();
                let hash = table.hash(key);
                let is_live = deadline.is_none_or(|deadline| deadline > mono_ms);
                (hash >= position && is_live).then_some((hash, key))
            }));
            candidates.sort_unstable();
            // keys with the same hash share a position, so a page has all of them or none
            for group in candidates.chunk_by(|a, b| a.0 == b.0) {
                let hash = group[0].0;
                // What the segment cost was paid already; to come back to it would be to pay again.
                if comparing >= PAGE_STEPS && hash > from {
                    return end(page, visiting, comparing, Some(hash));
                }
                let matching = group.iter().map(|&(_, key)| key);
                let matching = matching.filter(|key| glob.matches_counted(key, &mut comparing));
                if !page.add(matching, self) {
                    return end(page, visiting, comparing, Some(hash));
                }
            }
            let Some(next) = last.checked_add(1) else {
                return end(page, visiting, comparing, None);
            };
            position = next;
            if visiting + comparing >= PAGE_STEPS {
                return end(page, visiting, comparing, Some(position));
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
pub(super) fn token(position: u64) -> Bytes {
    let mut token = [0; TOKEN_BYTES];
    token[..8].copy_from_slice(&position.to_be_bytes());
    token[8..].copy_from_slice(&check(position));
    Bytes::copy_from_slice(&token)
}

/// The position of a token; `None` for everything else.
pub(super) fn position(token: &[u8]) -> Option<u64> {
    let token: &[u8; TOKEN_BYTES] = token.try_into().ok()?;
    let position = u64::from_be_bytes(*token.first_chunk()?);
    (token[8..] == check(position)).then_some(position)
}

/// Tells a token from other bytes. It is no secret: whoever makes a token begins at a place of their own choice, and
/// harms nobody. So a token holds after a restart too, where the order of the keys is the same.
fn check(position: u64) -> [u8; 8] {
    let mut text = *b"scan\0\0\0\0\0\0\0\0";
    text[4..].copy_from_slice(&position.to_be_bytes());
    SipHasher13::new_with_keys(0, 0).hash(&text).to_be_bytes()
}
