//! Use in shell scripts: pipes without a reader, signals that are ignored, `-` in the place of a file.
use crate::harness::{Run, Running, Store, program, run, terminate};
use rustix::io::ioctl_fionbio;
use std::{
    ffi::OsStr,
    fs::File,
    io::{Write as _, pipe},
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
};

/// Runs `statestore` with a standard output whose reader is gone.
fn run_unread(store: &Store, arguments: &[&str]) -> Run {
    let mut command = store.command(arguments);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    run(command, b"")
}

#[test]
fn the_exit_code_is_correct_without_a_reader() {
    let store = Store::start();
    let version = store.ok(["set", "k", "v"]);
    let version = version.trim_end();
    let later = "900000000000000:00000:StateStore";
    store.ok(["lease", "acquire", "l", "--holder", "a", "--lease", "1h"]);
    for (arguments, code) in [
        (&["get", "k"][..], 0),
        (&["get", "k", "--json"], 0),
        (&["get", "none", "--json"], 1),
        (&["exists", "none", "--json"], 1),
        (&["ttl", "none", "--json"], 1),
        (&["touch", "none", "1m", "--json"], 1),
        (&["incr", "count", "--json"], 0),
        (&["set", "k", "v", "--nx", "--json"], 1),
        (&["set", "k", "v", "--if-version", later, "--json"], 1),
        (&["del", "none", "--json"], 1),
        (&["del", "k", "--if-version", later, "--json"], 1),
        (&["vdel", "none", "v", "--json"], 1),
        (&["vdel", "k", "other", "--json"], 1),
        (&["lease", "acquire", "l", "--holder", "b", "--json"], 1),
        (&["lease", "holder", "none", "--json"], 1),
        (&["lease", "holder", "l", "--json"], 0),
        (&["del", "k", "--if-version", version, "--json"], 0),
    ] {
        let run = run_unread(&store, arguments);
        assert_eq!(run.code, Some(code), "{arguments:?}: {run:?}");
        assert_eq!(run.stderr.is_empty(), code == 0, "{arguments:?}: {run:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operations");
    std::fs::write(&file, r#"{"set": "l", "value": "v", "nx": true}"#).unwrap();
    let run = run_unread(&store, &["transact", file.to_str().unwrap(), "--json"]);
    assert_eq!(run.code, Some(1), "{run:?}");
}

#[test]
fn a_leader_without_a_reader_resigns() {
    let store = Store::start();
    let elect = ["elect", "gateway", "--lease", "1h"];
    let unread = run_unread(&store, &elect);
    assert_eq!((unread.code, unread.stderr.as_str()), (Some(0), ""));
    store
        .run(["lease", "holder", "gateway"])
        .assert_error(1, "not held");
    // A command that cannot report its election does not stay leader either.
    let mut command = store.command(elect);
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    run(command, b"").assert_error(2, "cannot write standard output");
    store
        .run(["lease", "holder", "gateway"])
        .assert_error(1, "not held");
}

#[test]
fn a_leader_blocked_on_output_handles_sigterm() {
    let store = Store::start();
    // The pipe is full, and its reader does not read.
    let (_reader, mut writer) = pipe().unwrap();
    ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    ioctl_fionbio(&writer, false).unwrap();
    let mut watch = Running::start(&store, &["elect", "gateway", "--watch"]);
    assert_eq!(watch.line(), "NONE");
    let mut command = store.command(["elect", "gateway", "--lease", "1h"]);
    command.stdout(writer);
    let leader = command.spawn().unwrap();
    drop(command);
    // Before the value is proclaimed, it is not elected yet.
    while watch.line().ends_with(['E', '\t']) {}
    terminate(&leader);
    let run = Run::from(leader.wait_with_output().unwrap());
    // The command may not have learnt that it is elected.
    assert!(matches!(run.code, Some(0 | 143)), "{run:?}");
    assert_eq!(run.stderr, "");
    while watch.line() != "NONE" {}
    terminate(&watch.child);
    assert_eq!(watch.end().code, Some(0));
}

/// Returns the output of a shell script, with `statestore` as `$0`.
fn printed(store: &Store, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(program())
        .env("STATESTORE_URL", store.url())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let run = Run::from(output);
    assert_eq!(run.stderr, "", "{script}");
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn a_command_under_a_lock_inherits_ignored_signals() {
    let store = Store::start();
    for signal in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "TSTP"] {
        let script =
            format!("trap '' {signal}; \"$0\" lock n -- sh -c 'kill -{signal} $$; echo survived'");
        assert_eq!(printed(&store, &script), "survived\n", "{signal}");
    }
    // And nothing else.
    let script = "trap '' HUP; \"$0\" lock n -- sh -c 'kill -USR1 $$; echo survived'; echo $?";
    assert_eq!(printed(&store, script), "138\n");
}

#[test]
fn the_exit_code_is_known_with_sigchld_ignored() {
    let store = Store::start();
    let code = Command::new("env")
        .arg("--ignore-signal=CHLD")
        .arg(program())
        .args(["lock", "n", "--", "sh", "-c", "exit 7"])
        .env("STATESTORE_URL", store.url())
        .status()
        .unwrap();
    assert_eq!(code.code(), Some(7));
}

#[test]
fn a_dash_is_standard_input_or_output() {
    let store = Store::start();
    let folder = tempfile::tempdir().unwrap();
    let inside = |arguments: &[&str], input: &[u8]| {
        let mut command = store.command(arguments);
        command.current_dir(folder.path());
        let run = run(command, input);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        run.stdout
    };
    inside(&["set", "k", "--file", "-"], b"a\0b");
    assert_eq!(inside(&["get", "k", "--output", "-"], b""), b"a\0b");
    inside(&["transact", "-"], br#"{"set": "k", "value": "v"}"#);
    assert_eq!(inside(&["get", "k", "-o-"], b""), b"v");
    inside(&["vdel", "k", "--file", "-"], b"v");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // A file of that name has another one, too.
    inside(&["set", "k", "v"], b"");
    assert_eq!(inside(&["get", "k", "--output", "./-"], b""), b"");
    assert_eq!(std::fs::read(folder.path().join("-")).unwrap(), b"v");
}

#[test]
fn a_url_that_is_not_utf8_is_an_error() {
    let store = Store::start();
    let mut command = store.command(["get", "k"]);
    command.env("STATESTORE_URL", OsStr::from_bytes(b"unix:///\xff"));
    run(command, b"").assert_error(2, "STATESTORE_URL: it is not UTF-8");
    let url = store.url();
    let arguments = ["--url", &url, "lock", "n", "--"];
    let mut command = store.command([&arguments[..], &["printenv", "STATESTORE_URL"]].concat());
    command.env("STATESTORE_URL", OsStr::from_bytes(b"mqtt://u:JZ@\xff"));
    let run = run(command, b"");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        String::from_utf8(run.stdout).unwrap(),
        "mqtt://u@\u{fffd}\n"
    );
}
