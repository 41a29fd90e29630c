//! A backup of any bytes; or, so that more than its checksums is reached, of a frame with any payload behind a right header.
#![no_main]
#[path = "../record_set.rs"]
mod record_set;

use libfuzzer_sys::fuzz_target;
use record_set::{RecordSet, SALT};
use statestored_storage::StorageError;
use statestored_storage::backup::{self, BackupReader};
use std::path::Path;

fn read(bytes: &[u8]) -> Result<RecordSet, StorageError> {
    let mut content = RecordSet::default();
    content.floor = BackupReader::new(Path::new("fuzz"), bytes)?.records(&mut content)?;
    Ok(content)
}

/// A backup of these payloads. Its header does not announce what is in them, which is found at the end only.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    backup::write(&mut RecordSet::default(), &mut bytes, &|| true).expect("it can be written");
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
        let mut found = RecordSet::default();
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
