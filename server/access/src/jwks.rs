//! Public keys that sign tokens: a JSON Web Key Set (RFC 7517) in a file.
use crate::read_tracker;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum size of a file. A set of keys takes a few kilobytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Minimum size of an RSA modulus. RFC 8017 allows shorter ones, which can be broken.
const MIN_RSA_BYTES: usize = 2048 / 8;
/// Minimum interval between two checks of a file for changes.
const CHECK_INTERVAL_MS: u64 = 1_000;
/// Maximum time that a login waits for a check: the file may be on a file system that does not respond.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// An error in a file of keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a JSON Web Key Set.
    #[error("{path} is not a JSON Web Key Set: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// Position and reason.
        source: serde_json::Error,
    },
    /// A key is invalid.
    #[error("{path}: key {number}: {problem}")]
    Key {
        /// The file.
        path: PathBuf,
        /// Number of the key, counted from 1.
        number: usize,
        /// The problem.
        problem: &'static str,
    },
    /// No key in the file can sign tokens.
    #[error("{path} has no key that could sign tokens (RSA, EC or Ed25519)")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A public key, which signs with some algorithms and no others. A key is never used as a shared secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    id: Option<String>,
    /// The only algorithm, if the set names one.
    algorithm: Option<String>,
    material: KeyMaterial,
}

#[derive(Clone, PartialEq, Eq)]
enum KeyMaterial {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key as written in the file.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

impl Jwk {
    /// Returns the key; `None` for a kind of key that signs no tokens here.
    fn into_key(self) -> Result<Option<Key>, &'static str> {
        let bytes = |text: &Option<String>| {
            let text = text.as_ref().ok_or("a part of it is missing")?;
            let bytes = URL_SAFE_NO_PAD.decode(text);
            bytes.map_err(|_| "a part of it is not base64url")
        };
        if self.used_for.as_ref().is_some_and(|used| used != "sig") {
            return Ok(None);
        }
        let point = |bytes_each: usize| {
            let (x, y) = (bytes(&self.x)?, bytes(&self.y)?);
            if x.len() != bytes_each || y.len() != bytes_each {
                return Err("its point has another length than its curve");
            }
            Ok([&[4][..], &x, &y].concat())
        };
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let n = bytes(&self.n)?;
                // Leading zeros are not part of the number, and ring rejects them.
                let n: Vec<u8> = n.into_iter().skip_while(|byte| *byte == 0).collect();
                if n.len() < MIN_RSA_BYTES {
                    return Err("an RSA key of less than 2048 bits is not safe");
                }
                let e = bytes(&self.e)?;
                KeyMaterial::Rsa { n, e }
            }
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes(&self.x)?),
            _ => return Ok(None),
        };
        Ok(Some(Key {
            id: self.kid,
            algorithm: self.alg,
            material,
        }))
    }
}

impl Key {
    /// Returns whether this key has signed the message with this algorithm.
    pub(super) fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        if self
            .algorithm
            .as_ref()
            .is_some_and(|only| only != algorithm)
        {
            return false;
        }
        let rsa = |parameters: &RsaParameters| match &self.material {
            KeyMaterial::Rsa { n, e } => RsaPublicKeyComponents { n, e }
                .verify(parameters, message, signature)
                .is_ok(),
            _ => false,
        };
        match (algorithm, &self.material) {
            ("RS256", _) => rsa(&RSA_PKCS1_2048_8192_SHA256),
            ("RS384", _) => rsa(&RSA_PKCS1_2048_8192_SHA384),
            ("RS512", _) => rsa(&RSA_PKCS1_2048_8192_SHA512),
            ("PS256", _) => rsa(&RSA_PSS_2048_8192_SHA256),
            ("PS384", _) => rsa(&RSA_PSS_2048_8192_SHA384),
            ("PS512", _) => rsa(&RSA_PSS_2048_8192_SHA512),
            ("ES256", KeyMaterial::P256(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
                    .is_ok()
            }
            ("ES384", KeyMaterial::P384(point)) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, signature)
                    .is_ok()
            }
            ("EdDSA", KeyMaterial::Ed25519(key)) => UnparsedPublicKey::new(&ED25519, key)
                .verify(message, signature)
                .is_ok(),
            _ => false,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A set of keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet(Vec<Arc<Key>>);

impl KeySet {
    fn parse(path: &Path, text: &[u8]) -> Result<Self, JwksError> {
        let set: Jwks = serde_json::from_slice(text).map_err(|source| JwksError::Json {
            path: path.into(),
            source,
        })?;
        let mut keys = Vec::new();
        for (index, jwk) in set.keys.into_iter().enumerate() {
            let key = jwk.into_key().map_err(|problem| JwksError::Key {
                path: path.into(),
                number: index + 1,
                problem,
            })?;
            keys.extend(key.map(Arc::new));
        }
        if keys.is_empty() {
            return Err(JwksError::Empty { path: path.into() });
        }
        Ok(Self(keys))
    }

    /// Returns the keys with this id; without an id, the only key.
    pub(super) fn by_id(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<Key>> {
        let is_only = self.0.len() == 1;
        self.0.iter().filter(move |key| match id {
            Some(id) => key.id.as_deref() == Some(id),
            None => is_only,
        })
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.iter().any(|other| **other == *key)
    }
}

/// A file of keys, which is read again when it has changed.
pub(super) struct KeyFile {
    path: PathBuf,
    state: Arc<KeyFileState>,
}

struct KeyFileState {
    cached: Mutex<CachedKeys>,
    /// Notified when a check of the file has ended.
    check_done: Condvar,
}

struct CachedKeys {
    keys: Arc<KeySet>,
    stamp: FileStamp,
    /// Time of the last check, on the monotonic clock.
    checked_ms: u64,
    /// Start of the check under way, which may never end.
    check_started: Option<Instant>,
}

/// Device, inode, modification time and size, which differ after the file was written or replaced.
type FileStamp = (u64, u64, i64, i64, u64);

impl KeyFile {
    pub(super) fn read(path: &Path) -> Result<Self, JwksError> {
        let (keys, stamp) = read(path)?;
        Ok(Self {
            path: path.into(),
            state: Arc::new(KeyFileState {
                cached: Mutex::new(CachedKeys {
                    keys: Arc::new(keys),
                    stamp,
                    checked_ms: 0,
                    check_started: None,
                }),
                check_done: Condvar::new(),
            }),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the keys as they were read last.
    pub(super) fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.state.lock().keys)
    }

    /// Returns the current keys. Checks the file at most once a second, and blocks during the check for at most two
    /// seconds. If the file cannot be used, the former keys stay in force.
    pub(super) fn current_keys(&self, now_ms: u64) -> Arc<KeySet> {
        let mut known = self.state.lock();
        if known.check_started.is_none() && now_ms >= known.checked_ms + CHECK_INTERVAL_MS {
            known.checked_ms = now_ms;
            known.check_started = Some(Instant::now());
            let (path, state) = (self.path.clone(), Arc::clone(&self.state));
            let look = move || state.check(&path);
            if let Err(error) = std::thread::Builder::new().name("keys".into()).spawn(look) {
                tracing::warn!(%error, "the file of the keys of tokens cannot be looked at");
                known.check_started = None;
            }
        }
        if let Some(since) = known.check_started {
            let patience = CHECK_TIMEOUT.saturating_sub(since.elapsed());
            let looks = |known: &mut CachedKeys| known.check_started == Some(since);
            let waited = self
                .state
                .check_done
                .wait_timeout_while(known, patience, looks);
            let (next, wait) = waited.unwrap_or_else(PoisonError::into_inner);
            known = next;
            if wait.timed_out() && !patience.is_zero() {
                tracing::warn!(
                    path = %self.path.display(),
                    "cannot read the file of token keys yet: it has no end, or its file system does not answer; the former keys stay in force"
                );
            }
        }
        Arc::clone(&known.keys)
    }
}

impl KeyFileState {
    fn lock(&self) -> MutexGuard<'_, CachedKeys> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the file, and reads it again if it has changed. Reading may never end, so no lock is held meanwhile.
    fn check(&self, path: &Path) {
        let now = fs::metadata(path).map(|metadata| file_stamp(&metadata));
        let is_same = now.is_ok_and(|now| now == self.lock().stamp);
        let read = (!is_same).then(|| read(path));
        let mut known = self.lock();
        match read {
            None => {}
            Some(Ok((keys, stamp))) => {
                tracing::info!(path = %path.display(), "the keys of tokens were read again");
                known.keys = Arc::new(keys);
                known.stamp = stamp;
            }
            Some(Err(error)) => tracing::warn!("{error}; the former keys stay in force"),
        }
        known.check_started = None;
        drop(known);
        self.check_done.notify_all();
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyFile").field(&self.path).finish()
    }
}

fn read(path: &Path) -> Result<(KeySet, FileStamp), JwksError> {
    read_tracker::record_path(path);
    let contents = || {
        let file = fs::File::open(path)?;
        let metadata = file.metadata()?;
        let mut text = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, MAX_FILE_BYTES + 1), &mut text)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other("it is larger than a mebibyte"));
        }
        Ok((text, file_stamp(&metadata)))
    };
    let (text, stamp) = contents().map_err(|source| JwksError::Read {
        path: path.into(),
        source,
    })?;
    Ok((KeySet::parse(path, &text)?, stamp))
}

fn file_stamp(metadata: &fs::Metadata) -> FileStamp {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.size(),
    )
}
