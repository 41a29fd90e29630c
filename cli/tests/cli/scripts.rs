//! What scripts of the shell do to it: pipes that nobody reads, signals that are ignored, `-` in the place of a file.
use crate::harness::{Run, Store, run};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
};

/// What a script of the shell prints, with `statestore` as `$0`.
fn printed(store: &Store, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_statestore")])
        .env("STATESTORE_URL", store.url())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let run = Run::from(output);
    assert_eq!(run.stderr, "", "{script}");
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn a_command_under_a_lock_ignores_what_it_would_without_it() {
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
fn a_commands_exit_code_is_known_although_ends_of_children_are_ignored() {
    let store = Store::start();
    let code = Command::new("env")
        .args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_statestore")])
        .args(["lock", "n", "--", "sh", "-c", "exit 7"])
        .env("STATESTORE_URL", store.url())
        .status()
        .unwrap();
    assert_eq!(code.code(), Some(7));
}

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
