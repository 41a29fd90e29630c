//! The file of the keys that sign tokens.
use super::AccessFileError;
use statestored_access::{KeySet, KeySource};
use statestored_common::read_tracker;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum size of a file. A set of keys takes a few kilobytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Minimum interval between two checks of a file for changes.
const CHECK_INTERVAL_MS: u64 = 1_000;
/// Maximum time that a login waits for a check: the file may be on a file system that does not respond.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// A file of keys, a JSON Web Key Set, which is read again when it has changed.
pub struct KeyFile {
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
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is no JSON Web Key Set, or none of its keys can sign tokens.
    pub fn read(path: &Path) -> Result<Self, AccessFileError> {
        let (keys, stamp) = read_keys(path)?;
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
}

impl KeySource for KeyFile {
    fn known_keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.state.lock().keys)
    }

    /// Returns the current keys. Checks the file at most once a second, and blocks during the check for at most two seconds. If the file
    /// cannot be used, the former keys stay in force.
    fn current_keys(&self, now_ms: u64) -> Arc<KeySet> {
        let mut known = self.state.lock();
        if known.check_started.is_none() && now_ms >= known.checked_ms + CHECK_INTERVAL_MS {
            known.checked_ms = now_ms;
            known.check_started = Some(Instant::now());
            let (path, state) = (self.path.clone(), Arc::clone(&self.state));
            let check = move || state.check(&path);
            if let Err(error) = thread::Builder::new().name("keys".into()).spawn(check) {
                tracing::warn!(%error, "cannot check the file of token keys for changes");
                known.check_started = None;
            }
        }
        if let Some(since) = known.check_started {
            let timeout = CHECK_TIMEOUT.saturating_sub(since.elapsed());
            let is_running = |known: &mut CachedKeys| known.check_started == Some(since);
            let waited = self
                .state
                .check_done
                .wait_timeout_while(known, timeout, is_running);
            let (next, wait) = waited.unwrap_or_else(PoisonError::into_inner);
            known = next;
            if wait.timed_out() && !timeout.is_zero() {
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
        let read = (!is_same).then(|| read_keys(path));
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

fn read_keys(path: &Path) -> Result<(KeySet, FileStamp), AccessFileError> {
    read_tracker::record_path(path);
    let contents = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other("it is larger than a mebibyte"));
        }
        Ok((text, file_stamp(&metadata)))
    };
    let (text, stamp) = contents().map_err(|source| AccessFileError::Read {
        path: path.into(),
        source,
    })?;
    let keys = KeySet::parse(&text).map_err(|source| AccessFileError::Keys {
        path: path.into(),
        source,
    })?;
    Ok((keys, stamp))
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
