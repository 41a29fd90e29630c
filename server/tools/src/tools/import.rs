//! `statestored import`: creates a data folder from lines of text, or adds them to it.
use super::progress::{Progress, ProgressReceiver};
use super::source::open_file;
use super::{ToolError, print_record_count};
use clap::Args;
use siphasher::sip128::SipHasher13;
use statestored_storage::durable::is_store;
use statestored_storage::json_lines::JsonLinesReader;
use statestored_storage::{
    DurableOptions, DurableStorage, NewStore, RecordReceiver, RecordView, Restore, Storage,
    StorageError, StoreRewriter,
};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Reads the format of `statestored export`. If a line is wrong, nothing is changed.

Examples:
  statestored import state.jsonl --data-dir /var/lib/statestored
      create a data folder for a server
  statestored import state.jsonl --data-dir /var/lib/statestored --merge
      add the records to a data folder; the newer version of a key wins";

/// Reads records from text.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    /// Path of the file; standard input is not supported
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The folder to fill, missing or empty unless --merge is given
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// Add the records to an existing store
    #[arg(long)]
    merge: bool,
}

type Version = (u64, u64);

impl Import {
    pub(super) fn run(&self) -> Result<(), ToolError> {
        let records = if self.merge && is_store(&self.data_dir) {
            self.merge()?
        } else {
            self.fill()?
        };
        print_record_count(records, self.data_dir.display());
        Ok(())
    }

    fn lines(&self) -> Result<(JsonLinesReader<File>, Option<u64>), StorageError> {
        let (file, length) = open_file(&self.file)?;
        Ok((JsonLinesReader::new(&self.file, file)?, length))
    }

    /// Creates a store from the lines. Returns the number of records.
    fn fill(&self) -> Result<u64, ToolError> {
        let (lines, length) = self.lines()?;
        let records = lines.record_count();
        let mut progress = Progress::begin("importing", length)?;
        let salt = RandomState::new().hash_one(0);
        let mut store = NewStore::create(&self.data_dir, salt)?;
        let clock = lines.records(&mut ProgressReceiver {
            inner: &mut store,
            progress: &mut progress,
        })?;
        store.finish(clock)?;
        Ok(records)
    }

    /// Adds the lines that are newer to an existing store. Returns the number of records that the store has then.
    fn merge(&self) -> Result<u64, ToolError> {
        let (lines, length) = self.lines()?;
        // The file is read once for the versions and once for the records.
        let mut progress = Progress::begin("importing", length.map(|length| 2 * length))?;
        let mut coming = ImportedVersions::new();
        let floor = lines.records(&mut ProgressReceiver {
            inner: &mut coming,
            progress: &mut progress,
        })?;
        let mut store = DurableStorage::open(&self.data_dir, DurableOptions::default())?;
        store.load(&mut DiscardRecords)?;
        let mut kept = 0;
        store.rewrite(&mut |rewrite| {
            let clock = rewrite.retain(
                &mut |there| {
                    let is_kept = !coming.replaces(there);
                    kept += u64::from(is_kept);
                    is_kept
                },
                &mut |_| progress.advance(0),
            )?;
            let mut adding = NewerRecordsReceiver {
                imported: &coming,
                rewrite,
                count: 0,
            };
            // A change of the file since the first read is found as well: the second read is as strict.
            self.lines()?.0.records(&mut ProgressReceiver {
                inner: &mut adding,
                progress: &mut progress,
            })?;
            kept += adding.count;
            Ok(clock.max(floor))
        })?;
        Ok(kept)
    }
}

/// The versions of the records in the file. A key is identified by a keyed hash of 128 bits, so that collisions are not
/// expected.
struct ImportedVersions {
    hasher: SipHasher13,
    /// Version of the record of each key, and whether it is newer than the existing one.
    versions: HashMap<u128, (Version, bool), foldhash::fast::RandomState>,
}

impl ImportedVersions {
    fn new() -> Self {
        let secret = RandomState::new();
        Self {
            hasher: SipHasher13::new_with_keys(secret.hash_one(1), secret.hash_one(2)),
            versions: HashMap::default(),
        }
    }

    fn key_hash(&self, key: &[u8]) -> u128 {
        self.hasher.hash(key).as_u128()
    }

    /// Returns whether the file has a newer record than the existing one. Otherwise, the record in the file is ignored.
    fn replaces(&mut self, there: &RecordView<'_>) -> bool {
        let name = self.key_hash(there.key);
        let Some((version, is_newer)) = self.versions.get_mut(&name) else {
            return false;
        };
        *is_newer = *version > there.version;
        *is_newer
    }
}

impl RecordReceiver for ImportedVersions {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        let name = self.key_hash(record.key);
        self.versions.insert(name, (record.version, true));
        Ok(())
    }
}

/// A receiver that adds the records that count.
struct NewerRecordsReceiver<'a, 'b> {
    imported: &'a ImportedVersions,
    rewrite: &'a mut StoreRewriter<'b>,
    count: u64,
}

impl RecordReceiver for NewerRecordsReceiver<'_, '_> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        match self
            .imported
            .versions
            .get(&self.imported.key_hash(record.key))
        {
            Some((version, _)) if *version != record.version => Err(file_changed_error()),
            Some((_, true)) => {
                self.count += 1;
                self.rewrite.add(record)
            }
            Some((_, false)) => Ok(()),
            None => Err(file_changed_error()),
        }
    }
}

fn file_changed_error() -> StorageError {
    StorageError::Io {
        what: "cannot read the file twice".into(),
        source: io::Error::other("it has changed meanwhile"),
    }
}

/// A receiver that ignores all records.
struct DiscardRecords;

impl Restore for DiscardRecords {
    fn put(&mut self, _record: &RecordView<'_>) {}
    fn delete(&mut self, _key: &[u8]) {}
}
