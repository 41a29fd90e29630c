//! Commands under a lock, without a shell: the program itself is the command, so the tests run on every system.
use crate::harness::{Running, Store, program};
use std::ffi::OsString;

/// `statestore lock nightly OPTION... -- statestore ARGUMENT...`.
fn under_lock(options: &[&str], arguments: &[&str]) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["lock".into(), "nightly".into()];
    all.extend(options.iter().map(Into::into));
    all.extend(["--".into(), program()]);
    all.extend(arguments.iter().map(Into::into));
    all
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let store = Store::start();
    let set = store.run(under_lock(&[], &["set", "pump/state", "on"]));
    assert_eq!((set.code, set.stderr.as_str()), (Some(0), ""));
    assert_eq!(store.ok(["get", "pump/state"]), "on");
    let absent = store.run(under_lock(&[], &["get", "absent"]));
    assert_eq!(absent.code, Some(1), "{absent:?}");
    store
        .run(["lease", "holder", "nightly"])
        .assert_error(1, "not held");
}

#[test]
fn a_command_has_the_input_of_the_program() {
    let store = Store::start();
    let run = store.run_with_input(under_lock(&[], &["set", "key"]), b"one\r\ntwo\n\0");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(store.run(["get", "key"]).stdout, b"one\r\ntwo\n\0");
}

#[test]
fn a_lost_lock_ends_the_command() {
    let store = Store::start();
    let mut running = Running::spawn(store.command(under_lock(
        &["--lease", "500ms"],
        &["watch", "key", "--initial"],
    )));
    assert_eq!(running.line(), "DELETE\tkey\t");
    store.stop();
    let run = running.end();
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.stderr.contains("the lock is lost"), "{run:?}");
}

#[test]
fn a_killed_program_takes_its_command_along() {
    let store = Store::start();
    let mut running = Running::spawn(store.command(under_lock(
        &["--lease", "1s"],
        &["watch", "key", "--initial"],
    )));
    assert_eq!(running.line(), "DELETE\tkey\t");
    running.child.kill().unwrap();
    // The output ends when no process has it any more.
    assert_eq!(running.end().stdout, b"");
}
