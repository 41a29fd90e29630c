//! A backup of any bytes; or, so that more than its checksums is reached, of a frame with any payload behind a right header.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestored::storage::backup::{self, BackupReader};
use statestored::storage::{Receive, Record, RecordView, Records, StorageError};
use std::path::Path;

const SALT: u64 = 7;

#[derive(Default, PartialEq, Debug)]
struct Content {
    records: Vec<Record>,
    clock: Option<(u64, u64)>,
}

impl Receive for Content {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.records.push(Record {
            key: record.key.to_vec().into(),
            value: record.value.to_vec().into(),
            version: record.version,
            fence: record.fence.clone(),
            expiry: record.expiry,
        });
        Ok(())
    }
}

impl Records for Content {
    fn records(&mut self, to: &mut dyn Receive) -> Result<Option<(u64, u64)>, StorageError> {
        for record in &self.records {
            to.record(&record.view())?;
        }
        Ok(self.clock)
    }

    fn seed(&self) -> u64 {
        SALT
    }
}

fn read(bytes: &[u8]) -> Result<Content, StorageError> {
    let mut content = Content::default();
    content.clock = BackupReader::new(Path::new("fuzz"), bytes)?.records(&mut content)?;
    Ok(content)
}

/// A backup of these payloads. Its header does not announce what is in them, which is found at the end only.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    backup::write(&mut Content::default(), &mut bytes, &|| true).expect("it can be written");
    bytes.truncate(bytes.len() - 40);
    let mut fields = Vec::new();
    fields.extend_from_slice(&1_u64.to_le_bytes());
    fields.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    fields.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let salted = [&SALT.to_le_bytes()[..], &fields].concat();
    bytes.extend_from_slice(b"\x93SSF");
    bytes.extend_from_slice(&crc32fast::hash(&salted).to_le_bytes());
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(payload);
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    if kind & 1 == 1 {
        let mut found = Content::default();
        let bytes = framed(rest);
        let reader = BackupReader::new(Path::new("fuzz"), &bytes[..]).expect("a right header");
        // The trailer is missing, so it never ends well.
        reader.records(&mut found).expect_err("it was cut off");
        // What was in it goes through a backup as it is.
        let mut again = Vec::new();
        backup::write(&mut found, &mut again, &|| true).expect("it can be written");
        assert_eq!(read(&again).expect("it is whole"), found);
    } else if let Ok(mut found) = read(rest) {
        let mut again = Vec::new();
        backup::write(&mut found, &mut again, &|| true).expect("it can be written");
        assert_eq!(read(&again).expect("it is whole"), found);
    }
});
