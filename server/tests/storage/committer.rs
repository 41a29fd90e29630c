//! Group commit, driven by a storage whose commits the test lets through one by one.
use super::model::{batch, put};
use statestored_storage::committer::{CommitterOptions, SubmitError};
use statestored_storage::{Batch, Committer, MemoryStorage, Restore, Storage, StorageError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Announces the keys of each commit and waits for its outcome.
#[derive(Debug)]
struct SteppedStorage {
    commits: Sender<Vec<usize>>,
    outcome: Receiver<Result<(), StorageError>>,
}

impl Storage for SteppedStorage {
    fn load(&mut self, _into: &mut dyn Restore) -> Result<Option<(u64, u64)>, StorageError> {
        Ok(None)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<(), StorageError> {
        let sizes = batches.iter().map(|batch| batch.writes.len()).collect();
        // The receiver is gone once a test has ended.
        let _ = self.commits.send(sizes);
        self.outcome.recv().unwrap_or(Ok(()))
    }
    fn is_durable(&self) -> bool {
        true
    }
}

struct CommitterFixture {
    committer: Committer,
    commits: Receiver<Vec<usize>>,
    outcome: Sender<Result<(), StorageError>>,
}

fn setup(max_waiting_bytes: usize) -> CommitterFixture {
    setup_with(CommitterOptions {
        max_queued_bytes: max_waiting_bytes,
        ..CommitterOptions::default()
    })
}

fn setup_with(options: CommitterOptions) -> CommitterFixture {
    let (begun_sender, commits) = channel();
    let (outcome, outcome_receiver) = channel();
    let storage = SteppedStorage {
        commits: begun_sender,
        outcome: outcome_receiver,
    };
    let committer = Committer::start(Box::new(storage), options).expect("start");
    CommitterFixture {
        committer,
        commits,
        outcome,
    }
}

/// Returns a batch that is identified by its number of writes.
fn writes(count: usize) -> Batch {
    batch((0..count).map(|n| put(format!("{n}"), "v")).collect())
}

fn disk_full() -> StorageError {
    StorageError::Io {
        what: "cannot write".into(),
        source: std::io::ErrorKind::StorageFull.into(),
    }
}

#[tokio::test]
async fn queued_batches_are_committed_together_in_order() {
    let CommitterFixture {
        mut committer,
        commits,
        outcome,
    } = setup(usize::MAX);
    assert_eq!(committer.submit(writes(1)).expect("room"), 1);
    assert_eq!(commits.recv().expect("a commit"), [1]);
    for count in 2..=5 {
        assert_eq!(committer.submit(writes(count)).expect("room"), count as u64);
    }
    assert_eq!(committer.durable(), 0);
    outcome.send(Ok(())).expect("waiting");
    assert_eq!(committer.progressed().await.expect("no failure"), 1);
    assert_eq!(commits.recv().expect("a commit"), [2, 3, 4, 5]);
    assert_eq!(committer.durable(), 1);
    outcome.send(Ok(())).expect("waiting");
    assert_eq!(committer.progressed().await.expect("no failure"), 5);
    assert_eq!(committer.durable(), 5);
}

#[tokio::test]
async fn an_empty_batch_waits_for_earlier_batches() {
    let CommitterFixture { mut committer, .. } = setup(usize::MAX);
    assert_eq!(committer.submit(Batch::default()).expect("room"), 0);
    assert_eq!(committer.submit(writes(1)).expect("room"), 1);
    assert_eq!(committer.submit(Batch::default()).expect("room"), 1);
    assert_eq!(committer.submitted(), 1);
    let clock = Batch {
        clock: Some((1, 2)),
        ..Batch::default()
    };
    assert_eq!(committer.submit(clock).expect("room"), 2);
}

#[tokio::test]
async fn a_full_queue_refuses_batches_until_the_disk_catches_up() {
    let CommitterFixture {
        mut committer,
        commits,
        outcome,
    } = setup(1);
    assert!(committer.has_capacity());
    assert_eq!(committer.submit(writes(1)).expect("room"), 1);
    commits.recv().expect("a commit");
    assert!(
        !committer.has_capacity(),
        "what is being committed counts as well"
    );
    assert!(matches!(
        committer.submit(writes(2)),
        Err(SubmitError::Full)
    ));
    assert_eq!(committer.submitted(), 1, "a refused batch has no number");
    assert_eq!(
        committer.submit(Batch::default()).expect("needs no room"),
        1
    );
    outcome.send(Ok(())).expect("waiting");
    assert_eq!(committer.progressed().await.expect("no failure"), 1);
    assert!(committer.has_capacity());
    assert_eq!(committer.submit(writes(3)).expect("room"), 2);
    assert_eq!(commits.recv().expect("a commit"), [3]);
}

#[tokio::test]
async fn after_a_failed_commit_nothing_is_acknowledged_or_accepted() {
    let CommitterFixture {
        mut committer,
        commits,
        outcome,
    } = setup(usize::MAX);
    for count in 1..=2 {
        committer.submit(writes(count)).expect("room");
        commits.recv().expect("a commit");
        let result = if count == 1 { Ok(()) } else { Err(disk_full()) };
        outcome.send(result).expect("waiting");
        if count == 1 {
            assert_eq!(committer.progressed().await.expect("no failure"), 1);
        }
    }
    for _ in 0..2 {
        let failure = committer.progressed().await.expect_err("the commit failed");
        assert!(failure.to_string().contains("cannot write"), "{failure}");
    }
    assert_eq!(committer.durable(), 1);
    assert!(matches!(
        committer.submit(writes(3)),
        Err(SubmitError::Failed(_))
    ));
    assert!(committer.shutdown().is_err());
}

#[tokio::test]
async fn a_full_disk_keeps_submitted_batches_and_reports_it_until_space_is_free() {
    let CommitterFixture {
        mut committer,
        commits,
        outcome,
    } = setup(usize::MAX);
    let full = || StorageError::Full {
        what: "cannot write".into(),
        source: std::io::ErrorKind::StorageFull.into(),
    };
    assert!(!committer.is_full());
    committer.submit(writes(1)).expect("room");
    assert_eq!(commits.recv().expect("a commit"), [1]);
    committer.submit(writes(2)).expect("taken");
    outcome.send(Err(full())).expect("waiting");
    assert_eq!(committer.progressed().await.expect("no failure"), 0);
    assert!(committer.is_full());
    assert_eq!(commits.recv().expect("another attempt"), [1, 2]);
    outcome.send(Err(full())).expect("waiting");
    assert_eq!(commits.recv().expect("another attempt"), [1, 2]);
    assert_eq!(committer.durable(), 0);
    outcome.send(Ok(())).expect("waiting");
    assert_eq!(committer.progressed().await.expect("no failure"), 2);
    while committer.is_full() {
        committer.progressed().await.expect("no failure");
    }
    committer.submit(writes(3)).expect("room");
    assert_eq!(commits.recv().expect("a commit"), [3]);
    outcome.send(Ok(())).expect("waiting");
    committer.submit(writes(4)).expect("room");
    // At the end no caller may conclude that everything became durable.
    let end = std::thread::spawn(move || committer.shutdown());
    while commits.recv().is_ok() {
        if outcome.send(Err(full())).is_err() {
            break;
        }
    }
    let error = end.join().expect("no panic").expect_err("no room");
    assert!(matches!(*error, StorageError::Full { .. }), "{error:?}");
}

#[tokio::test]
async fn a_panicking_storage_is_a_failure_not_a_hang() {
    #[derive(Debug)]
    struct Panics;
    impl Storage for Panics {
        fn load(&mut self, _into: &mut dyn Restore) -> Result<Option<(u64, u64)>, StorageError> {
            Ok(None)
        }
        fn commit(&mut self, _batches: &[Batch]) -> Result<(), StorageError> {
            panic!("on purpose");
        }
        fn is_durable(&self) -> bool {
            true
        }
    }
    let mut committer =
        Committer::start(Box::new(Panics), CommitterOptions::default()).expect("start");
    committer.submit(writes(1)).expect("room");
    assert!(committer.progressed().await.is_err());
    assert_eq!(committer.durable(), 0);
    assert!(committer.shutdown().is_err());
}

#[test]
fn shutdown_makes_everything_durable_first() {
    let CommitterFixture {
        mut committer,
        commits,
        outcome,
    } = setup(1);
    committer.submit(writes(1)).expect("room");
    assert_eq!(commits.recv().expect("a commit"), [1]);
    assert!(!committer.has_capacity());
    committer.submit_unlimited(writes(2)).expect("taken anyway");
    committer.submit_unlimited(writes(3)).expect("taken anyway");
    for _ in 0..2 {
        outcome.send(Ok(())).expect("waiting");
    }
    committer.shutdown().expect("no failure");
    assert_eq!(commits.iter().collect::<Vec<_>>(), [[2, 3]]);
}

#[test]
fn shutdown_has_a_timeout() {
    let CommitterFixture {
        mut committer,
        commits,
        outcome,
    } = setup_with(CommitterOptions {
        shutdown_timeout: Duration::from_millis(1),
        ..CommitterOptions::default()
    });
    committer.submit(writes(1)).expect("room");
    assert_eq!(commits.recv().expect("a commit"), [1]);
    let error = committer.shutdown().expect_err("the commit goes on");
    assert!(error.to_string().contains("does not answer"), "{error}");
    // The thread is there still, and ends when the disk lets it.
    outcome.send(Ok(())).expect("waiting");
    assert_eq!(commits.iter().count(), 0);
}

#[tokio::test]
async fn without_a_durable_storage_nothing_waits() {
    let mut committer =
        Committer::start(Box::new(MemoryStorage), CommitterOptions::default()).expect("start");
    assert_eq!(committer.submit(writes(1)).expect("room"), 1);
    assert_eq!(committer.durable(), 1);
    assert!(committer.has_capacity());
    assert!(
        is_pending(committer.progressed()).await,
        "there is no progress to wait for"
    );
    committer.shutdown().expect("nothing to fail");
}

/// Whether the future is not ready at its first poll.
async fn is_pending<T>(future: impl Future<Output = T>) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = std::future::ready(()) => true,
    }
}
