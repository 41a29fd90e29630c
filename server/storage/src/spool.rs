//! A temporary file that holds a snapshot of a store until a backup of it is written.
//!
//! A backup begins with the number of its records, which is known once all of them were read. The file keeps them until then, and until
//! a slow reader has taken them. The engine is therefore read once, and at its own pace. The file has no name, and disappears with the
//! process.
use super::frame::{FRAME_BYTES, FRAME_HEADER, FrameHeader, seal_frame};
use super::record::{ChangeDecoder, LogChange, Version, encode_record};
use super::{RecordReceiver, RecordView, StorageError};
use siphasher::sip128::SipHasher13;
use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Folders for large temporary files, the first one that can be written.
const FOLDERS: [&str; 2] = ["/var/tmp", "/tmp"];

const READ_AHEAD: usize = 256 << 10;

/// A keyed 128-bit hash of a key. Collisions are not expected.
type KeyHash = [u64; 2];

/// Records of a snapshot, and the changes that were made while it was read.
///
/// Memory is needed for each changed key, not for each key.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    folder: PathBuf,
    hasher: SipHasher13,
    salt: u64,
    frame: Vec<u8>,
    frames: u64,
    /// Number of records in the file.
    records: u64,
    /// Number of the record that counts, for each changed key; `None` if the key was removed.
    changed: HashMap<KeyHash, Option<u64>, foldhash::fast::RandomState>,
    clock: Version,
}

impl Spool {
    /// Creates the file in the folder that `TMPDIR` names, otherwise in one of [`FOLDERS`].
    ///
    /// # Errors
    /// The file cannot be created, or the system gives no random numbers.
    pub(super) fn create() -> Result<Self, StorageError> {
        let (file, folder) = create_file()?;
        let mut seed = [0; 16];
        getrandom::fill(&mut seed)
            .map_err(io::Error::other)
            .map_err(StorageError::io(|| "cannot get random numbers".into()))?;
        let (salt, other) = split(u128::from_ne_bytes(seed));
        Ok(Self {
            file,
            folder,
            hasher: SipHasher13::new_with_keys(salt, other),
            salt,
            frame: vec![0; FRAME_HEADER],
            frames: 0,
            records: 0,
            changed: HashMap::default(),
            clock: (0, 0),
        })
    }

    /// Discards all records and changes.
    pub(super) fn clear(&mut self) -> Result<(), StorageError> {
        self.frame.truncate(FRAME_HEADER);
        (self.frames, self.records, self.clock) = (0, 0, (0, 0));
        self.changed = HashMap::default();
        let cleared = self.file.set_len(0).and_then(|()| self.file.rewind());
        cleared.map_err(self.io_error())
    }

    /// Adds a record as the engine has it. Each key is found once. A change of the key takes precedence, before or after.
    pub(super) fn add_record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        if self.changed.contains_key(&self.hash(record.key)) {
            return Ok(());
        }
        self.append(record)
    }

    /// Adds a record as a change left it.
    pub(super) fn add_changed(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.changed
            .insert(self.hash(record.key), Some(self.records));
        self.append(record)
    }

    /// Adds a change that removed a record.
    pub(super) fn add_removed(&mut self, key: &[u8]) {
        self.changed.insert(self.hash(key), None);
    }

    /// Raises the clock to the version of a deletion.
    pub(super) fn deletion(&mut self, version: Version) {
        self.clock = self.clock.max(version);
    }

    fn append(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.records += 1;
        encode_record(record, &mut self.frame);
        if self.frame.len() < FRAME_BYTES {
            return Ok(());
        }
        self.write_frame()
    }

    fn write_frame(&mut self) -> Result<(), StorageError> {
        if self.frame.len() > FRAME_HEADER {
            self.frames += 1;
            seal_frame(&mut self.frame, self.salt, self.frames);
            let written = self.file.write_all(&self.frame);
            written.map_err(self.io_error())?;
            self.frame.truncate(FRAME_HEADER);
        }
        Ok(())
    }

    /// Passes each record that counts to `to`, and returns the clock.
    pub(super) fn read(
        &mut self,
        to: &mut dyn RecordReceiver,
    ) -> Result<Option<Version>, StorageError> {
        self.write_frame()?;
        self.file.rewind().map_err(self.io_error())?;
        let mut input = BufReader::with_capacity(READ_AHEAD, &self.file);
        let mut payload = Vec::new();
        let mut number = 0;
        for sequence in 1..=self.frames {
            let read = next_frame(&mut input, self.salt, sequence, &mut payload);
            read.map_err(self.io_error())?;
            let mut changes = ChangeDecoder::new(&payload);
            while let Some(change) = changes
                .next()
                .map_err(|_| self.io_error()(io::ErrorKind::InvalidData.into()))?
            {
                let LogChange::Put(put) = change else {
                    continue;
                };
                let last = self.changed.get(&self.hash(put.record.key));
                if last.is_none_or(|last| *last == Some(number)) {
                    to.record(&put.record)?;
                }
                number += 1;
            }
            to.progressed((FRAME_HEADER + payload.len()) as u64)?;
        }
        self.file.seek(SeekFrom::End(0)).map_err(self.io_error())?;
        Ok(Some(self.clock).filter(|clock| *clock != (0, 0)))
    }

    fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        [hash.h1, hash.h2]
    }

    fn io_error(&self) -> impl FnOnce(io::Error) -> StorageError + use<> {
        let folder = self.folder.clone();
        StorageError::io_or_full(move || {
            format!(
                "cannot keep a snapshot in a temporary file in {} (TMPDIR names another folder)",
                folder.display()
            )
        })
    }
}

fn split(number: u128) -> (u64, u64) {
    let [high, low] = [number >> 64, number & u128::from(u64::MAX)]
        .map(|half| u64::try_from(half).unwrap_or_default());
    (high, low)
}

/// Creates an unnamed file that only its user can read.
fn create_file() -> Result<(File, PathBuf), StorageError> {
    let folders: Vec<PathBuf> = match env::var_os("TMPDIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => vec![folder.into()],
        None => FOLDERS.map(PathBuf::from).into(),
    };
    let mut failure = StorageError::Stopped;
    for folder in folders {
        failure = match tempfile::tempfile_in(&folder) {
            Ok(file) => return Ok((file, folder)),
            Err(error) => StorageError::io_or_full(|| {
                format!(
                    "cannot create a temporary file in {} (TMPDIR names another folder)",
                    folder.display()
                )
            })(error),
        };
    }
    Err(failure)
}

/// Reads the payload of a frame.
fn next_frame(
    input: &mut impl Read,
    salt: u64,
    sequence: u64,
    payload: &mut Vec<u8>,
) -> io::Result<()> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it has other content by now");
    let mut header = [0; FRAME_HEADER];
    input.read_exact(&mut header)?;
    let frame = FrameHeader::decode(&header, salt)
        .filter(|frame| frame.sequence == sequence)
        .ok_or_else(damaged)?;
    payload.clear();
    input.take(frame.length).read_to_end(payload)?;
    if payload.len() as u64 != frame.length || crc32fast::hash(payload) != frame.crc {
        return Err(damaged());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A receiver that keeps all records.
    #[derive(Debug, Default)]
    struct ReceivedRecords(BTreeMap<Vec<u8>, Vec<u8>>);

    impl RecordReceiver for ReceivedRecords {
        fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
            let former = self.0.insert(record.key.into(), record.value.into());
            assert_eq!(former, None, "{record:?} came twice");
            Ok(())
        }
    }

    fn record<'a>(key: &'a str, value: &'a [u8]) -> RecordView<'a> {
        RecordView {
            key: key.as_bytes(),
            value,
            version: (1, 1),
            fence: None,
            expiry: None,
        }
    }

    fn read(spool: &mut Spool) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = ReceivedRecords::default();
        spool.read(&mut all).unwrap();
        all.0
    }

    #[test]
    fn the_last_change_of_a_key_replaces_its_record() {
        let mut spool = Spool::create().unwrap();
        spool.add_record(&record("unchanged", b"1")).unwrap();
        spool.add_record(&record("changed later", b"1")).unwrap();
        spool.add_record(&record("removed later", b"1")).unwrap();
        spool.add_changed(&record("changed before", b"2")).unwrap();
        spool.add_removed(b"removed before");
        spool.add_record(&record("changed before", b"1")).unwrap();
        spool.add_record(&record("removed before", b"1")).unwrap();
        spool.add_changed(&record("changed later", b"2")).unwrap();
        spool.add_changed(&record("changed later", b"3")).unwrap();
        spool.add_removed(b"removed later");
        spool
            .add_changed(&record("made and removed", b"1"))
            .unwrap();
        spool.add_removed(b"made and removed");
        spool.add_removed(b"made again");
        spool.add_changed(&record("made again", b"1")).unwrap();
        let expected = [
            ("changed before", "2"),
            ("changed later", "3"),
            ("made again", "1"),
            ("unchanged", "1"),
        ];
        let expected = expected.map(|(key, value)| (Vec::from(key), Vec::from(value)));
        let expected = BTreeMap::from(expected);
        assert_eq!(read(&mut spool), expected);
        assert_eq!(read(&mut spool), expected, "a second time");
        spool.clear().unwrap();
        assert_eq!(read(&mut spool), BTreeMap::new());
        spool.add_record(&record("removed later", b"4")).unwrap();
        assert_eq!(read(&mut spool).len(), 1);
    }

    #[test]
    fn records_of_many_frames_are_read_as_they_were_written() {
        let mut spool = Spool::create().unwrap();
        let value = vec![7; FRAME_BYTES / 3];
        let keys: Vec<_> = (0..10).map(|number| format!("key-{number}")).collect();
        for key in &keys {
            spool.add_record(&record(key, &value)).unwrap();
        }
        spool.add_changed(&record("key-3", b"changed")).unwrap();
        let found = read(&mut spool);
        assert_eq!(found.len(), 10);
        for key in &keys {
            let expected = match key.as_str() {
                "key-3" => &b"changed"[..],
                _ => &value[..],
            };
            assert_eq!(found[key.as_bytes()], expected);
        }
    }
}
