//! A fork with an open client. The only test of its program: a fork also copies everything that runs beside it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, unsafe_code)]

use statestore::{GetOptions, Observation, ObserveOptions, SetOptions, Settings};
use statestore_embed::{Client, ErrorKind, Mailbox, WaitOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn connect(settings: Settings) -> Client {
    let client = Client::new(settings).unwrap();
    client
        .wait("connecting", client.connect(), WaitOptions::default())
        .unwrap();
    client
}

/// Runs `child` in a forked process; whether it returned without a panic within ten seconds.
fn fork(child: impl FnOnce()) -> bool {
    // SAFETY: the child runs Rust code although other threads exist, which is what is tested here; it takes no lock that
    // they hold, or it is killed below.
    match unsafe { libc::fork() } {
        -1 => panic!("no process"),
        0 => {
            let result = catch_unwind(AssertUnwindSafe(child));
            // SAFETY: it ends the process at once, without running what the parent registered.
            unsafe { libc::_exit(i32::from(result.is_err())) }
        }
        pid => {
            let deadline = Instant::now() + Duration::from_secs(10);
            let mut status = 0;
            loop {
                // SAFETY: `pid` is a child of this process, and `status` lives long enough.
                let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
                if ended == pid {
                    return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                }
                if Instant::now() > deadline {
                    // SAFETY: `pid` is a child of this process that has not been waited for.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn inherited_objects_return_errors_in_a_child_that_can_connect_a_new_client() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings = Settings::from_url(&server.url()).unwrap();
    let client = connect(settings.clone());
    let set = |client: &Client, value: &'static str| {
        let set = client.set("key".into(), value.into(), SetOptions::default());
        client.wait("setting", set, WaitOptions::default()).unwrap();
    };
    let get = |client: &Client| {
        let get = client.get("key".into(), GetOptions::default());
        client.wait("getting", get, WaitOptions::default()).unwrap()
    };
    set(&client, "parent");
    let observed = client.observe("key".into(), ObserveOptions::default());
    let feed = client
        .wait("observing", observed, WaitOptions::default())
        .unwrap();
    let lock = client.lock("lock".into(), statestore::LockOptions::default());
    let guard = client
        .wait("locking", lock, WaitOptions::default())
        .unwrap();
    let (told, seen) = mpsc::channel();
    let callback = move |item| told.send(item).unwrap();
    let subscription = client.subscribe(&feed, callback).unwrap();
    let mailbox = Mailbox::new(|| {});
    let never = std::future::pending::<Result<(), statestore_embed::Error>>();
    let operation = client
        .submit("waiting", never, &mailbox, |result| result.map_err(drop))
        .unwrap();

    let (client_, feed_, guard_) = (client.clone(), feed.clone(), guard.clone());
    let in_child = move || {
        let forked = |error: statestore_embed::Error| assert_eq!(error.kind(), ErrorKind::Forked);
        forked(client_.core().unwrap_err());
        forked(operation.cancel().unwrap_err());
        forked(guard_.is_valid().unwrap_err());
        forked(feed_.try_next().unwrap_err());
        forked(
            client_
                .close(WaitOptions::default())
                .unwrap_err()
                .into_error(""),
        );
        let get_inherited = client_.get("key".into(), GetOptions::default());
        let stopped = client_.wait("getting", get_inherited, WaitOptions::default());
        forked(stopped.unwrap_err().into_error(""));
        // A fork of the child is a process of its own as well.
        let mine = connect(settings.clone());
        assert_eq!(get(&mine).unwrap().value, "parent");
        let grandchild = || {
            forked(mine.core().unwrap_err());
            connect(settings.clone())
                .close(WaitOptions::default())
                .unwrap();
        };
        assert!(fork(grandchild));
        set(&mine, "child");
        mine.close(WaitOptions::default()).unwrap();
        drop((operation, feed_, guard_, subscription, client_, mailbox));
    };
    assert!(fork(in_child));

    // The parent has what it had.
    assert_eq!(client.counters().unwrap().reconnects, 0);
    assert!(guard.is_valid().unwrap());
    assert_eq!(get(&client).unwrap().value, "child");
    let observation = seen.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(
        matches!(&observation, Some(Observation::Set { value, .. }) if value == "child"),
        "{observation:?}"
    );
    client.close(WaitOptions::default()).unwrap();
}
