//! The candidates behind one interface.
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

pub(crate) type BenchError = Box<dyn std::error::Error>;
pub(crate) type KeyValue = ([u8; 16], [u8; 100]);

/// The operations that the store needs from an engine.
pub(crate) trait Engine {
    /// Writes all pairs as one atomic step; durable when it returns.
    fn commit(&mut self, pairs: &[KeyValue]) -> Result<(), BenchError>;
    /// Reads everything back, each key once. Called first if at all.
    fn load(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), BenchError>;
}

/// The names that [`open`] knows.
pub(crate) const NAMES: [&str; 6] = ["append", "durable", "fjall", "redb", "redb-rows", "lmdb"];

pub(crate) fn open(name: &str, directory: &Path) -> Result<Box<dyn Engine>, BenchError> {
    Ok(match name {
        "append" => Box::new(AppendLog::open(directory)?),
        "durable" => Box::new(DurableEngine::open(directory)?),
        "fjall" => Box::new(Fjall::open(directory)?),
        "redb" => Box::new(Redb(open_redb(directory)?)),
        "redb-rows" => Box::new(RedbRows(open_redb(directory)?, Vec::new())),
        "lmdb" => Box::new(Lmdb::open(directory)?),
        _ => return Err(format!("engines: {}", NAMES.join(" ")).into()),
    })
}

/// The storage that statestored uses.
struct DurableEngine(statestored_storage::DurableStorage);

impl DurableEngine {
    fn open(directory: &Path) -> Result<Self, BenchError> {
        use statestored_storage::{DurableOptions, DurableStorage};
        Ok(Self(DurableStorage::open(
            directory,
            DurableOptions::default(),
        )?))
    }
}

impl Engine for DurableEngine {
    fn commit(&mut self, pairs: &[KeyValue]) -> Result<(), BenchError> {
        use bytes::Bytes;
        use statestored_storage::{Batch, Record, Storage, Write};
        let put = |(key, value): &KeyValue| {
            Write::Put(Record {
                key: Bytes::copy_from_slice(key),
                value: Bytes::copy_from_slice(value),
                version: (1_700_000_000_000, 0),
                fence: None,
                expiry: None,
            })
        };
        let batch = Batch {
            writes: pairs.iter().map(put).collect(),
            clock: Some((1_700_000_000_000, 0)),
        };
        Ok(self.0.commit(&[batch])?)
    }

    fn load(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), BenchError> {
        use statestored_storage::{RecordView, Restore, Storage};
        struct Each<'a>(&'a mut dyn FnMut(&[u8], &[u8]));
        impl Restore for Each<'_> {
            fn put(&mut self, record: &RecordView<'_>) {
                (self.0)(record.key, record.value);
            }
            fn delete(&mut self, _key: &[u8]) {}
        }
        self.0.load(&mut Each(visit))?;
        Ok(())
    }
}

/// A redb table with one row per pair.
struct Redb(redb::Database);
const TABLE: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("pairs");

fn open_redb(directory: &Path) -> Result<redb::Database, BenchError> {
    let mut builder = redb::Database::builder();
    builder.set_cache_size(64 << 20);
    Ok(builder.create(directory.join("redb"))?)
}

impl Engine for Redb {
    fn commit(&mut self, pairs: &[KeyValue]) -> Result<(), BenchError> {
        let write = self.0.begin_write()?;
        {
            let mut table = write.open_table(TABLE)?;
            for (key, value) in pairs {
                table.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(write.commit()?)
    }

    fn load(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), BenchError> {
        use redb::{ReadableDatabase, ReadableTable};
        for row in self.0.begin_read()?.open_table(TABLE)?.iter()? {
            let (key, value) = row?;
            visit(key.value(), value.value());
        }
        Ok(())
    }
}

/// A redb table used as a log: one row per commit, and rows are never merged.
struct RedbRows(redb::Database, Vec<u8>);
const ROWS: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("rows");

impl Engine for RedbRows {
    fn commit(&mut self, pairs: &[KeyValue]) -> Result<(), BenchError> {
        use redb::ReadableTable;
        concatenate(pairs, &mut self.1);
        let write = self.0.begin_write()?;
        {
            let mut table = write.open_table(ROWS)?;
            let next = table.last()?.map_or(0, |(row, _)| row.value() + 1);
            table.insert(next, self.1.as_slice())?;
        }
        Ok(write.commit()?)
    }

    fn load(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), BenchError> {
        use redb::{ReadableDatabase, ReadableTable};
        let mut last = HashMap::new();
        for row in self.0.begin_read()?.open_table(ROWS)?.iter()? {
            for pair in row?.1.value().chunks(116) {
                last.insert(pair[..16].to_vec(), pair[16..].to_vec());
            }
        }
        last.iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

struct Fjall(fjall::Database, fjall::Keyspace);

impl Fjall {
    fn open(directory: &Path) -> Result<Self, BenchError> {
        let builder = fjall::Database::builder(directory);
        let database = builder.worker_threads(1).cache_size(16 << 20).open()?;
        let pairs = database.keyspace("pairs", fjall::KeyspaceCreateOptions::default)?;
        Ok(Self(database, pairs))
    }
}

impl Engine for Fjall {
    fn commit(&mut self, pairs: &[KeyValue]) -> Result<(), BenchError> {
        let mut batch = self
            .0
            .batch()
            .durability(Some(fjall::PersistMode::SyncData));
        for (key, value) in pairs {
            batch.insert(&self.1, key.as_slice(), value.as_slice());
        }
        Ok(batch.commit()?)
    }

    fn load(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), BenchError> {
        for guard in self.1.iter() {
            let (key, value) = guard.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }
}

struct Lmdb(
    heed::Env,
    heed::Database<heed::types::Bytes, heed::types::Bytes>,
);

impl Lmdb {
    fn open(directory: &Path) -> Result<Self, BenchError> {
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(8 << 30);
        // SAFETY: the files are not modified while they are mapped; the damage is done before.
        let environment = unsafe { options.open(directory)? };
        let mut write = environment.write_txn()?;
        let pairs = environment.create_database(&mut write, None)?;
        write.commit()?;
        Ok(Self(environment, pairs))
    }
}

impl Engine for Lmdb {
    fn commit(&mut self, pairs: &[KeyValue]) -> Result<(), BenchError> {
        let mut write = self.0.write_txn()?;
        for (key, value) in pairs {
            self.1.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }

    fn load(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), BenchError> {
        let read = self.0.read_txn()?;
        for row in self.1.iter(&read)? {
            let (key, value) = row?;
            visit(key, value);
        }
        Ok(())
    }
}

/// The floor: one append and one fdatasync per commit, no checks, no merging.
struct AppendLog {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl AppendLog {
    fn open(directory: &Path) -> Result<Self, BenchError> {
        let path = directory.join("log");
        let file = File::options().create(true).append(true).open(&path)?;
        Ok(Self {
            file,
            path,
            buffer: Vec::new(),
        })
    }
}

impl Engine for AppendLog {
    fn commit(&mut self, pairs: &[KeyValue]) -> Result<(), BenchError> {
        concatenate(pairs, &mut self.buffer);
        self.file.write_all(&self.buffer)?;
        Ok(self.file.sync_data()?)
    }

    fn load(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), BenchError> {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(&self.path)?);
        let mut last = HashMap::new();
        let mut pair = [0; 116];
        while reader.read_exact(&mut pair).is_ok() {
            last.insert(pair[..16].to_vec(), pair[16..].to_vec());
        }
        last.iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

fn concatenate(pairs: &[KeyValue], buffer: &mut Vec<u8>) {
    buffer.clear();
    for (key, value) in pairs {
        buffer.extend_from_slice(key);
        buffer.extend_from_slice(value);
    }
}
