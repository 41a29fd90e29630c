//! Any text as an export: what is taken is written and taken again as the same.
#![no_main]
#[path = "../record_set.rs"]
mod record_set;

use libfuzzer_sys::fuzz_target;
use record_set::RecordSet;
use statestored_storage::StorageError;
use statestored_storage::json_lines::{self, JsonLinesReader};
use std::path::Path;

const HEADER: &str = r#"{"statestore_export":1,"made":"","records":"#;

fn read(text: &[u8]) -> Result<RecordSet, StorageError> {
    let mut content = RecordSet::default();
    content.floor = JsonLinesReader::new(Path::new("fuzz"), text)?.records(&mut content)?;
    Ok(content)
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    let lines = rest.split(|byte| *byte == b'\n').count();
    let text = if kind & 1 == 1 {
        [format!("{HEADER}{lines}}}\n").as_bytes(), rest].concat()
    } else {
        rest.to_vec()
    };
    if let Ok(mut found) = read(&text) {
        assert!(found.records.iter().all(|record| !record.key.is_empty()));
        let mut again = Vec::new();
        json_lines::write(&mut found, &mut again, &mut |_| Ok(())).expect("it can be written");
        assert_eq!(read(&again).expect("it is an export"), found);
    }
});
