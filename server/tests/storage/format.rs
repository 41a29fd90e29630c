//! A data folder as the first version of the format was written.
use super::model::{SMALL_LOGS, after, commit, open, read_files, write_files};
use statestored_storage::Storage;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// The last commit in the folder `format-1`: a base, a sealed log and a current one, as a kill left them.
pub(crate) const LAST: u64 = 37;

/// The files of the fixture.
pub(crate) fn fixture() -> BTreeMap<String, Vec<u8>> {
    read_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/storage/format-1"))
}

#[test]
fn a_folder_of_format_1_is_loaded_and_extended() {
    let files = fixture();
    for kind in ["base-", "log-", "acknowledged", "statestore.manifest"] {
        assert!(files.keys().any(|name| name.starts_with(kind)), "{kind}");
    }
    let place = TempDir::new().expect("a temporary directory");
    let folder = place.path().join("store");
    write_files(&folder, &files);
    let (mut storage, model) = open(&folder, SMALL_LOGS).expect("loads");
    assert!(model == after(LAST));
    for number in LAST + 1..=LAST + 200 {
        storage.commit(&commit(number)).expect("commit");
    }
    drop(storage);
    let (_, model) = open(&folder, SMALL_LOGS).expect("loads again");
    assert!(model == after(LAST + 200));
}
