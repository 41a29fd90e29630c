//! Expected contents of a storage, and histories to fill it with.
use bytes::Bytes;
use statestore_protocol::Hlc;
use statestored_storage::{
    Batch, DurableOptions, DurableStorage, Expiry, Record, RecordView, Restore, Storage,
    StorageError, Write,
};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// A storage's content as plain values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) records: BTreeMap<Bytes, Record>,
    pub(crate) clock: Option<(u64, u64)>,
}

impl Model {
    pub(crate) fn apply(&mut self, batches: &[Batch]) {
        for batch in batches {
            self.clock = self.clock.max(batch.clock);
            for write in &batch.writes {
                match write {
                    Write::Put(record) => self.records.insert(record.key.clone(), record.clone()),
                    Write::Delete(key) => self.records.remove(key),
                };
            }
        }
    }

    /// The highest version of records and deletions.
    pub(crate) fn highest(&self) -> (u64, u64) {
        let versions = self.records.values().map(|record| record.version);
        versions.chain(self.clock).max().unwrap_or_default()
    }

    /// Loads a storage.
    pub(crate) fn load(storage: &mut dyn Storage) -> Result<Self, StorageError> {
        let mut model = Self::default();
        model.clock = storage.load(&mut model)?;
        Ok(model)
    }
}

impl Restore for Model {
    fn put(&mut self, record: &RecordView<'_>) {
        let record = Record {
            key: Bytes::copy_from_slice(record.key),
            value: Bytes::copy_from_slice(record.value),
            version: record.version,
            fence: record.fence.clone(),
            expiry: record.expiry,
        };
        self.records.insert(record.key.clone(), record);
    }

    fn delete(&mut self, key: &[u8]) {
        self.records.remove(key);
    }
}

/// Seals a log every few commits and merges often.
pub(crate) const SMALL_LOGS: DurableOptions = DurableOptions { log_bytes: 2048 };

/// Opens a data directory and loads it.
pub(crate) fn open(
    path: &Path,
    options: DurableOptions,
) -> Result<(DurableStorage, Model), StorageError> {
    let mut storage = DurableStorage::open(path, options)?;
    let model = Model::load(&mut storage)?;
    Ok((storage, model))
}

pub(crate) fn record(
    key: impl Into<Bytes>,
    value: impl Into<Bytes>,
    version: (u64, u64),
) -> Record {
    Record {
        key: key.into(),
        value: value.into(),
        version,
        fence: None,
        expiry: None,
    }
}

pub(crate) fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Write {
    Write::Put(record(key, value, (1, 0)))
}

pub(crate) fn batch(writes: Vec<Write>) -> Batch {
    Batch {
        writes,
        clock: None,
    }
}

/// The commit with this number of a long history: new keys, overwritten and deleted ones, all fields.
pub(crate) fn commit(number: u64) -> Vec<Batch> {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let full = Record {
        key: Bytes::from(format!("key-{}", spread % 17)),
        value: Bytes::from(vec![spread.to_le_bytes()[3]; (spread % 90) as usize]),
        version: (1_700_000_000_000 + number, number % 3),
        fence: number
            .is_multiple_of(3)
            .then(|| Hlc::new(1_700_000_000_000, number, "client").expect("valid")),
        expiry: number.is_multiple_of(5).then_some(Expiry {
            at_wall_ms: 1_800_000_000_000 + number,
            ttl_ms: number + 1,
        }),
    };
    let first = Batch {
        writes: vec![
            Write::Put(full),
            Write::Delete(Bytes::from(format!("key-{}", (spread >> 20) % 17))),
        ],
        clock: Some((1_700_000_000_000 + number, number % 3)),
    };
    vec![first, batch(vec![put("last commit", number.to_string())])]
}

/// The content after the commits `1..=last`.
pub(crate) fn after(last: u64) -> Model {
    let mut model = Model::default();
    for number in 1..=last {
        model.apply(&commit(number));
    }
    model
}

/// Every file of a directory with its content; the lock file has none. A store that is open may remove files meanwhile.
pub(crate) fn read_files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("readable");
    let files = entries.filter_map(|entry| {
        let path = entry.expect("readable").path();
        let name = path
            .file_name()
            .expect("has a name")
            .to_str()
            .expect("ASCII");
        match std::fs::read(&path) {
            Ok(content) => Some((name.to_owned(), content)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    });
    files.filter(|(name, _)| name != "lock").collect()
}

/// Makes a directory with exactly these files.
pub(crate) fn write_files(directory: &Path, files: &BTreeMap<String, Vec<u8>>) {
    if directory.exists() {
        std::fs::remove_dir_all(directory).expect("removable");
    }
    std::fs::create_dir(directory).expect("creatable");
    for (name, content) in files {
        std::fs::write(directory.join(name), content).expect("writable");
    }
}

/// The log that the manifest among these files calls the current one.
pub(crate) fn current_log(files: &BTreeMap<String, Vec<u8>>) -> String {
    let manifest = String::from_utf8_lossy(&files["statestore.manifest"]);
    let line = manifest.lines().rfind(|line| line.starts_with("log "));
    let id = line.and_then(|line| line.split(' ').nth(1)).expect("a log");
    format!("log-{id}")
}

/// Where the frames of a log end: behind them, that of a running store has zeros. All of any other file.
pub(crate) fn end_of_frames(content: &[u8]) -> usize {
    const FILE_HEADER: usize = 40;
    const FRAME_HEADER: usize = 28;
    if !content.starts_with(b"sst-log\n") {
        return content.len();
    }
    let mut end = FILE_HEADER;
    while content[end..].starts_with(b"\x93SSF") {
        let length = content[end + 16..end + 24].try_into().expect("8 bytes");
        end += FRAME_HEADER + usize::try_from(u64::from_le_bytes(length)).expect("it is there");
    }
    end
}
