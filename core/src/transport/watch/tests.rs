#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::{FileWatch, POLL_INTERVAL};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

/// Returns whether the watch reports a change that was already made.
async fn is_notified(watch: &mut FileWatch) -> bool {
    // Enough yields for the runtime to poll the kernel for events.
    const YIELDS: usize = 500;
    let enough = async {
        for _ in 0..YIELDS {
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = watch.changed() => true,
        () = enough => false,
    }
}

/// Makes a change, then another one to the file that the path leads to. Both must be reported.
async fn assert_notified(
    case: &str,
    prepare: impl FnOnce(&Path),
    path: impl Fn(&Path) -> PathBuf,
    change: impl FnOnce(&Path),
) {
    let root = TempDir::new().unwrap();
    prepare(root.path());
    let path = path(root.path());
    let mut watch = FileWatch::new(path.clone());
    assert!(
        !is_notified(&mut watch).await,
        "{case}: told without a change"
    );
    change(root.path());
    assert!(is_notified(&mut watch).await, "{case}: not told");
    while is_notified(&mut watch).await {}
    fs::write(&path, "again").unwrap();
    assert!(
        is_notified(&mut watch).await,
        "{case}: the next change is not told"
    );
}

fn token(root: &Path) -> PathBuf {
    root.join("token")
}

fn write(path: PathBuf) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "token").unwrap();
}

/// Replaces a symbolic link by another one, atomically.
fn swap(link: PathBuf, target: &str) {
    let new = link.with_file_name("new link");
    symlink(target, &new).unwrap();
    fs::rename(new, link).unwrap();
}

#[tokio::test]
async fn file_writes_replacements_creations_and_removals_are_detected() {
    let exists = |root: &Path| write(token(root));
    assert_notified("written", exists, token, exists).await;
    assert_notified("replaced", exists, token, |root| {
        write(root.join("other"));
        fs::rename(root.join("other"), token(root)).unwrap();
    })
    .await;
    assert_notified("made", |_| {}, token, exists).await;
    assert_notified("removed", exists, token, |root| {
        fs::remove_file(token(root)).unwrap();
    })
    .await;
    assert_notified(
        "linked",
        |_| {},
        token,
        |root| {
            write(root.join("other"));
            symlink("other", token(root)).unwrap();
        },
    )
    .await;
}

#[tokio::test]
async fn kubernetes_symlink_swaps_are_detected() {
    let prepare = |root: &Path| {
        write(root.join("..1/token"));
        symlink("..1", root.join("..data")).unwrap();
        symlink("..data/token", token(root)).unwrap();
    };
    assert_notified("swapped", prepare, token, |root| {
        write(root.join("..2/token"));
        swap(root.join("..data"), "..2");
        fs::remove_dir_all(root.join("..1")).unwrap();
    })
    .await;
}

#[tokio::test]
async fn changes_behind_links_to_other_directories_are_detected() {
    let prepare = |root: &Path| {
        write(root.join("v1/secrets/token"));
        fs::create_dir_all(root.join("v2/secrets")).unwrap();
        symlink("v1", root.join("current")).unwrap();
        fs::create_dir(root.join("app")).unwrap();
        let target = root.join("current/../current/secrets/token");
        symlink(target, root.join("app/token")).unwrap();
    };
    let path = |root: &Path| root.join("app/token");
    assert_notified("the last link", prepare, path, |root| {
        write(root.join("elsewhere/token"));
        swap(root.join("app/token"), "../elsewhere/token");
    })
    .await;
    assert_notified("a link in the middle", prepare, path, |root| {
        swap(root.join("current"), "v2");
    })
    .await;
    assert_notified("behind the links", prepare, path, |root| {
        write(root.join("v1/secrets/token"));
    })
    .await;
}

#[tokio::test]
async fn directories_may_be_removed_and_recreated() {
    let path = |root: &Path| root.join("a/b/token");
    let exists = |root: &Path| write(path(root));
    assert_notified("made", |_| {}, path, exists).await;
    assert_notified("replaced", exists, path, |root| {
        fs::rename(root.join("a/b"), root.join("a/old")).unwrap();
        fs::create_dir(root.join("a/b")).unwrap();
    })
    .await;
    let root = TempDir::new().unwrap();
    write(path(root.path()));
    let mut watch = FileWatch::new(path(root.path()));
    fs::remove_dir_all(root.path().join("a")).unwrap();
    assert!(is_notified(&mut watch).await);
    while is_notified(&mut watch).await {}
    write(path(root.path()));
    assert!(is_notified(&mut watch).await);
}

#[tokio::test]
async fn other_files_in_the_directory_are_ignored() {
    let root = TempDir::new().unwrap();
    write(token(root.path()));
    let mut watch = FileWatch::new(token(root.path()));
    write(root.path().join("other"));
    fs::remove_file(root.path().join("other")).unwrap();
    fs::read(token(root.path())).unwrap();
    assert!(!is_notified(&mut watch).await);
}

#[tokio::test]
async fn symlink_loops_are_detected() {
    let root = TempDir::new().unwrap();
    symlink("token", token(root.path())).unwrap();
    let mut watch = FileWatch::new(token(root.path()));
    assert!(!is_notified(&mut watch).await);
    fs::remove_file(token(root.path())).unwrap();
    write(token(root.path()));
    assert!(is_notified(&mut watch).await);
}

#[tokio::test(start_paused = true)]
async fn without_inotify_the_file_is_polled() {
    let mut watch = FileWatch {
        kernel: None,
        next_poll: Instant::now() + POLL_INTERVAL,
    };
    let begin = Instant::now();
    for round in 1..=3 {
        // Waiting in several parts does not delay it.
        let pieces = POLL_INTERVAL / 4;
        while timeout(pieces, watch.changed()).await.is_err() {}
        let late = begin.elapsed().saturating_sub(POLL_INTERVAL * round);
        assert!(late < Duration::from_millis(10), "{late:?}");
        assert!(begin.elapsed() >= POLL_INTERVAL * round);
    }
}
