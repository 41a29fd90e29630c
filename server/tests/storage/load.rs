//! Loads that are stopped, and what they say of how far they are.
use super::model::{Model, after, batch, commit, open, put, read_files};
use statestored_storage::{
    DurableOptions, DurableStorage, LoadProgress, RecordView, Restore, Storage, StorageError,
};
use std::ops::ControlFlow;
use tempfile::TempDir;

/// Stops a load at a report.
struct StoppingRestore {
    reports: Vec<LoadProgress>,
    stop_at: usize,
    content: Model,
}

impl Restore for StoppingRestore {
    fn put(&mut self, record: &RecordView<'_>) {
        self.content.put(record);
    }

    fn delete(&mut self, key: &[u8]) {
        self.content.delete(key);
    }

    fn progressed(&mut self, progress: LoadProgress) -> ControlFlow<()> {
        self.reports.push(progress);
        if self.reports.len() == self.stop_at {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_load_reports_progress_and_can_be_stopped_and_restarted() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), DurableOptions::default()).expect("a new store");
    for number in 1..=8 {
        storage.commit(&commit(number)).expect("commit");
        let large = put(format!("large {number}"), vec![7; 1 << 20]);
        storage.commit(&[batch(vec![large])]).expect("commit");
    }
    drop(storage);
    let files = read_files(place.path());

    let mut storage =
        DurableStorage::open(place.path(), DurableOptions::default()).expect("opens again");
    let mut load = |stop_at| {
        let mut stops = StoppingRestore {
            reports: Vec::new(),
            stop_at,
            content: Model::default(),
        };
        let result = storage.load(&mut stops);
        (result, stops)
    };
    let (result, stopped) = load(3);
    assert!(matches!(result, Err(StorageError::Stopped)), "{result:?}");
    assert_eq!(stopped.reports.len(), 3, "nothing is read any more");
    assert!(
        stopped.content.records.len() < 10,
        "{stopped:?}",
        stopped = stopped.content.records.len()
    );
    assert!(read_files(place.path()) == files, "the files were changed");

    let (result, whole) = load(usize::MAX);
    let clock = result.expect("begins anew");
    let total: usize = files
        .iter()
        .filter(|(name, _)| name.starts_with("log-"))
        .map(|(_, content)| content.len())
        .sum();
    assert!(whole.reports.len() >= 8);
    assert!(whole.reports.is_sorted_by_key(|progress| progress.done));
    assert!(
        whole
            .reports
            .iter()
            .all(|progress| progress.done <= progress.total)
    );
    assert!(
        whole
            .reports
            .iter()
            .all(|progress| progress.total == total as u64)
    );
    let expected = after(8);
    assert_eq!(clock, expected.clock);
    for (key, record) in &expected.records {
        assert_eq!(whole.content.records.get(key), Some(record));
    }
    assert_eq!(whole.content.records.len(), expected.records.len() + 8);
}
