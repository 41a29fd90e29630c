//! What a person at a terminal sees.
use crate::harness::Store;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::{
    fs::{File, OpenOptions},
    io::Read as _,
};

/// Runs `statestore` with a terminal as its standard output and gives what the terminal shows.
fn shown(store: &Store, arguments: &[&str]) -> String {
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
    let mut command = store.command(arguments);
    let mut child = command.stdout(inside).spawn().unwrap();
    // closes this side's copy of the terminal's inner end, so that the child's is the last one
    drop(command);
    let (mut terminal, mut shown) = (File::from(terminal), Vec::new());
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
fn keys_cannot_steer_it() {
    let store = Store::start();
    store.ok(["set", "--escaped", r"\x1b[2Jk", "v"]);
    assert_eq!(shown(&store, &["scan"]), "\\x1b[2Jk\r\n");
}
