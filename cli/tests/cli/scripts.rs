//! What scripts of the shell do to it: pipes that nobody reads, signals that are ignored, `-` in the place of a file.
use crate::harness::{Store, run};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

#[test]
fn a_url_that_is_not_text_is_not_as_good_as_none() {
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
