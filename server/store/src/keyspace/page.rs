//! Requests for pages of keys, and the tokens that continue a scan.
use bytes::Bytes;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use std::fmt::Debug;
use std::sync::Arc;

/// Maximum bytes of the keys and values on a page with values. A single larger entry is returned alone.
pub const MAX_ENTRY_PAGE_BYTES: usize = 256 * 1024;

/// Upper bound of the bytes of a page besides its keys, entries and token: two array headers.
const PAGE_FRAME_BYTES: usize = 32;

/// Upper bound of the bytes of a key or a token besides its content: its length.
const BULK_FRAME_BYTES: usize = 16;

/// Upper bound of the bytes of an entry besides its key and value: an array header, two lengths, the version and the time.
const ENTRY_FRAME_BYTES: usize = 128;

/// The keys that a client may read.
pub trait KeyFilter: Debug + Send + Sync {
    /// Returns whether the client may read `key`.
    fn allows(&self, key: &[u8]) -> bool;
}

/// A request for one page of the keys that match a pattern, or of their entries.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// The pattern.
    pub pattern: Bytes,
    /// The token of the page before; `None` starts the scan.
    pub token: Option<Bytes>,
    /// The keys that the client may read; `None` means all. Every other key is treated as absent before anything is counted.
    pub filter: Option<Arc<dyn KeyFilter>>,
    /// Whether the page contains whole entries instead of keys.
    pub with_values: bool,
    /// Maximum number of bytes of the response. A single larger key or entry is returned alone.
    pub max_reply_bytes: usize,
}

impl PageRequest {
    /// Requests the first page of all keys that match a pattern.
    pub fn all(pattern: Bytes) -> Self {
        Self {
            pattern,
            token: None,
            filter: None,
            with_values: false,
            max_reply_bytes: usize::MAX,
        }
    }

    /// Returns the maximum number of bytes of the keys or entries in a response, in which the position in the token has at most
    /// `position` bytes.
    pub fn max_content_bytes(&self, position: usize) -> usize {
        let frame = PAGE_FRAME_BYTES + BULK_FRAME_BYTES + SEAL_BYTES;
        self.max_reply_bytes.saturating_sub(frame + position)
    }

    /// Returns an upper bound of the bytes in the response of a key of `key` bytes, whose value has `value` bytes. The value counts
    /// if values are requested.
    pub fn content_bytes(&self, key: usize, value: usize) -> usize {
        if self.with_values {
            ENTRY_FRAME_BYTES + key + value
        } else {
            BULK_FRAME_BYTES + key
        }
    }

    /// Returns whether the client may read `key`.
    pub fn allows(&self, key: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.allows(key))
    }
}

/// Bytes that a token has besides the position in it.
pub(super) const SEAL_BYTES: usize = NONCE_LEN + MAX_TAG_LEN;

/// Encrypts the position at which a page ends, and authenticates the tokens that come back.
///
/// The nonce is a keyed hash of the position. Equal positions give equal tokens, so a token contains nothing but its position, and
/// two positions share a nonce with negligible probability.
#[derive(Debug)]
pub struct PageTokens {
    cipher: LessSafeKey,
    nonces: hmac::Key,
}

impl PageTokens {
    /// Derives the keys from a secret that all servers of a store share and that its clients do not know.
    ///
    /// # Panics
    /// Never: the derived key has the length of the cipher's keys.
    pub fn new(secret: &[u8]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let key = hmac::sign(&root, b"scan token encryption");
        let cipher = UnboundKey::new(&CHACHA20_POLY1305, key.as_ref())
            .expect("the hash has the length of the key");
        let nonces = hmac::sign(&root, b"scan token nonce");
        Self {
            cipher: LessSafeKey::new(cipher),
            nonces: hmac::Key::new(hmac::HMAC_SHA256, nonces.as_ref()),
        }
    }

    /// Returns the token of a position.
    ///
    /// # Panics
    /// Never: the cipher refuses only inputs of more than 256 GiB.
    pub fn seal(&self, position: &[u8]) -> Bytes {
        let hash = hmac::sign(&self.nonces, position);
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&hash.as_ref()[..NONCE_LEN]);
        let mut token = Vec::with_capacity(SEAL_BYTES + position.len());
        token.extend_from_slice(&nonce);
        token.extend_from_slice(position);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .cipher
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut token[NONCE_LEN..])
            .expect("the position is shorter than the cipher's limit");
        token.extend_from_slice(tag.as_ref());
        token.into()
    }

    /// Returns the position of a token; `None` if no server of this store made it.
    pub fn open(&self, token: &[u8]) -> Option<Bytes> {
        let (nonce, sealed) = token.split_first_chunk::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let mut sealed = sealed.to_vec();
        let position = self
            .cipher
            .open_in_place(nonce, Aad::empty(), &mut sealed)
            .ok()?;
        Some(Bytes::copy_from_slice(position))
    }
}
