//! Output for a person at a terminal.
use crate::admin::AdminFixture;
use crate::harness::{Store, program};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    process::{Child, Command},
};

/// Both ends of a new terminal, the outer one first.
fn terminal() -> (File, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let path = ptsname(&terminal, Vec::new())
        .unwrap()
        .into_string()
        .unwrap();
    let inside = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    (File::from(terminal), inside)
}

/// Runs `statestore` with a terminal as its standard output and gives what the terminal shows.
fn shown(store: &Store, arguments: &[&str]) -> String {
    let (mut terminal, inside) = terminal();
    let mut command = store.command(arguments);
    let mut child = command.stdout(inside).spawn().unwrap();
    // closes this side's copy of the terminal's inner end, so that the child's is the last one
    drop(command);
    let mut shown = Vec::new();
    // a terminal without an inner end is a read error, not an end of file
    let _ = terminal.read_to_end(&mut shown);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_newline_follows_the_value() {
    let store = Store::start();
    store.ok(["set", "k", "v"]);
    assert_eq!(shown(&store, &["get", "k"]), "v\r\n");
}

#[test]
fn keys_cannot_control_the_terminal() {
    let store = Store::start();
    store.ok(["set", "--escaped", r"\x1b[2Jk", "v"]);
    assert_eq!(shown(&store, &["scan"]), "\\x1b[2Jk\r\n");
}

#[test]
fn values_cannot_control_the_terminal() {
    let store = Store::start();
    store.run_with_input(
        ["set", "k"],
        "two\tlines\nü \\ \u{1b}[2J\u{9b}2J\u{7f}\u{202e}\r\0".as_bytes(),
    );
    let expected = "two\tlines\r\nü \\ \\x1b[2J\\xc2\\x9b2J\\x7f\\xe2\\x80\\xae\\x0d\\x00\r\n";
    assert_eq!(shown(&store, &["get", "k"]), expected);
    store.run_with_input(["set", "k"], b"\xff\x9b");
    assert_eq!(shown(&store, &["get", "k"]), "\\xff\\x9b\r\n");
    // Output that is no terminal gets the bytes unchanged.
    assert_eq!(store.run(["get", "k"]).stdout, b"\xff\x9b");
}

/// Runs a script of the shell inside of a terminal that is its own, with `statestore` as `$0`.
fn spawn_in_terminal(store: &Store, script: &str) -> (File, Child) {
    let (terminal, inside) = terminal();
    // A shell cannot trap what was ignored when it began, as Ctrl-C is in the background of a script.
    let mut command = Command::new("env");
    command
        .args([
            "--default-signal=HUP,INT,QUIT,TSTP",
            "setsid",
            "--ctty",
            "--wait",
            "sh",
            "-c",
            script,
        ])
        .arg(program())
        .env("STATESTORE_URL", store.url())
        .stdin(inside.try_clone().unwrap())
        .stdout(inside.try_clone().unwrap())
        .stderr(inside);
    let child = command.spawn().unwrap();
    (terminal, child)
}

/// Reads until the terminal has shown this; all that it has shown until then.
fn await_text(terminal: &mut File, text: &str) -> String {
    let mut shown = Vec::new();
    let mut byte = [0];
    while !shown.ends_with(text.as_bytes()) {
        terminal.read_exact(&mut byte).unwrap();
        shown.extend(byte);
    }
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_command_under_a_lock_has_the_terminal() {
    let store = Store::start();
    let script = "\"$0\" lock n -- sh -c 'echo ready; read line </dev/tty; echo \"got $line\"'; read line; echo \"then $line\"";
    let (mut terminal, mut child) = spawn_in_terminal(&store, script);
    await_text(&mut terminal, "ready");
    terminal.write_all(b"one\ntwo\n").unwrap();
    await_text(&mut terminal, "got one");
    await_text(&mut terminal, "then two");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn ctrl_c_ends_a_command_under_a_lock_and_ctrl_z_does_not_suspend_it() {
    let store = Store::start();
    let script = "exec \"$0\" lock n -- sh -c 'trap \"exit 9\" INT; echo ready; while :; do sleep 0.02; done'";
    let (mut terminal, mut child) = spawn_in_terminal(&store, script);
    await_text(&mut terminal, "ready");
    // Ctrl-Z
    terminal.write_all(b"\x1a").unwrap();
    await_text(&mut terminal, "cannot be suspended");
    // Ctrl-C
    terminal.write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    store
        .run(["lease", "holder", "n"])
        .assert_error(1, "not held");
}

#[test]
fn tostop_does_not_block_the_end_of_a_command() {
    let store = Store::start();
    // The command leaves a process behind that ignores SIGTERM, and ends by itself later.
    let script = "stty tostop; exec \"$0\" lock n --grace 0 -- sh -c '
        mkfifo \"$0\"; (trap \"\" TERM; echo ready >\"$0\"; exec sleep 60) >/dev/null & read ready <\"$0\"' \"$1\"";
    let folder = tempfile::tempdir().unwrap();
    let script = script.replace("$1", folder.path().join("fifo").to_str().unwrap());
    let (mut terminal, mut child) = spawn_in_terminal(&store, &script);
    await_text(&mut terminal, "killing them");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    store
        .run(["lease", "holder", "n"])
        .assert_error(1, "not held");
}

#[test]
fn top_restores_the_terminal_at_every_exit() {
    let watched = AdminFixture::start();
    watched.store.ok(["set", "key", "value"]);
    for end in ["q", "\x03"] {
        let script = format!(
            "trap : INT; stty -a; \"$0\" top --admin {}; echo ended $?; stty -a; read end",
            watched.store.admin_url()
        );
        let (mut terminal, mut child) = spawn_in_terminal(&watched.store, &script);
        let before = await_text(&mut terminal, "\x1b[?1049h");
        await_text(&mut terminal, "keys 1 in ");
        terminal.write_all(end.as_bytes()).unwrap();
        let after = await_text(&mut terminal, "ended ");
        assert!(after.contains("\x1b[?25h\x1b[?1049l"), "{after:?}");
        let after = await_text(&mut terminal, "-extproc");
        let modes = |text: &str| {
            let begin = text.find("speed ").unwrap();
            text[begin..=text.find("-extproc").unwrap()].to_owned()
        };
        assert_eq!(modes(&after), modes(&before));
        terminal.write_all(b"\n").unwrap();
        child.wait().unwrap();
    }
}
