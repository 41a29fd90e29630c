//! The runtime begins with the first client and ends with the last. The only test of its program, which counts threads.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use statestore::{GetOptions, Settings};
use statestore_embed::{Client, WaitOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The names of this process's threads that are of this library.
fn threads() -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .filter(|name| name == "statestore" || name.starts_with("statestore-"))
        .collect();
    names.sort();
    names
}

/// Whether there are these threads, as soon as the system has forgotten those that ended.
fn has_threads(expected: &[&str]) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while threads() != expected {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

fn connect(settings: &Settings) -> Client {
    let client = Client::new(settings.clone()).unwrap();
    client
        .wait("connecting", client.connect(), WaitOptions::default())
        .unwrap();
    client
}

#[test]
fn all_clients_share_one_thread_which_ends_with_the_last() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings = Settings::from_url(&server.url()).unwrap();
    assert!(threads().is_empty(), "nothing happens before it is needed");
    for _ in 0..2 {
        let (one, other) = (connect(&settings), connect(&settings));
        assert!(has_threads(&["statestore"]));
        one.close(WaitOptions::default()).unwrap();
        assert!(has_threads(&["statestore"]));
        let get = other.get("key".into(), GetOptions::default());
        other.wait("getting", get, WaitOptions::default()).unwrap();
        let (ran, has_run) = channel();
        let job = move || ran.send(()).unwrap();
        other.callbacks().unwrap().post(Box::new(job)).ok().unwrap();
        has_run.recv().unwrap();
        assert!(has_threads(&["statestore", "statestore-call"]));
        other.close(WaitOptions::default()).unwrap();
        assert!(has_threads(&[]));
    }
    // A client that cannot connect ends by itself, and closing it waits for the threads nevertheless.
    let refused = Client::new(settings.client_id("not+allowed")).unwrap();
    refused
        .wait("connecting", refused.connect(), WaitOptions::default())
        .unwrap_err();
    refused.close(WaitOptions::default()).unwrap();
    assert!(has_threads(&[]));
}
