//! `statestored salvage`, as an operator uses it.
use crate::peer::{Daemon, statestored};
use crate::tools::{TestFolder, export, fail, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Changes a byte of a file.
fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_folder_becomes_one_that_a_server_opens() {
    let place = TestFolder::new();
    let (data, new) = (place.fill("data", 600), place.text("new"));
    let daemon = Daemon::start(&["--data-dir", &data]);
    let mut peer = daemon.connect("writer");
    for number in 1..=3 {
        let key = format!("later-{number}");
        assert_eq!(
            peer.request(number, &[b"SET", key.as_bytes(), b"value"]),
            b"+OK\r\n"
        );
    }
    daemon.signal("-KILL");
    daemon.wait();
    let before = export(&["--data-dir", &data]);
    assert_eq!(before.len(), 603);

    let said = run(&["salvage", &data, "--out", &new]);
    assert_eq!(said, format!("603 records are in {new}\n"));
    assert_eq!(export(&["--data-dir", &new]), before);

    let base = place.path("data").join("base-2");
    damage(&base, 100);
    let part = place.text("part");
    let output = statestored(&["salvage", &data, "--out", &part])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let loss = format!(
        "{} is damaged; all records of block 1 are lost (bytes 40 to ",
        base.display()
    );
    assert!(text.starts_with(&loss), "{text}");
    assert!(
        text.ends_with(&format!(" records are in {part}\n")),
        "{text}"
    );
    let salvaged = export(&["--data-dir", &part]);
    assert!(salvaged.len() > 3 && salvaged.len() < 603, "{text}");
    assert!(salvaged.is_subset(&before));
    let later: BTreeSet<_> = before
        .iter()
        .filter(|line| line.contains("later-"))
        .cloned()
        .collect();
    assert!(later.is_subset(&salvaged));
    run(&["check", &part]);

    let daemon = Daemon::start(&["--data-dir", &part]);
    let mut peer = daemon.connect("reader");
    assert_eq!(peer.request(1, &[b"GET", b"later-1"]), b"$5\r\nvalue\r\n");
    assert_eq!(peer.request(2, &[b"SET", b"more", b"1"]), b"+OK\r\n");
}

#[test]
fn a_salvage_that_cannot_be_made_creates_nothing() {
    let place = TestFolder::new();
    let (data, new) = (place.text("data"), place.text("new"));
    let other = place.fill("other", 1);
    let daemon = Daemon::start(&["--data-dir", &data]);
    let within = place.text("other/new");
    for (from, to, hint) in [
        (&data, &new, "in use by another process"),
        (&place.text("nowhere"), &new, "nowhere"),
        (&other, &other, "damaged directory"),
        (&other, &within, "damaged directory"),
        (&other, &data, "directory not empty"),
    ] {
        let (code, text) = fail(&["salvage", from, "--out", to]);
        assert!(code == 2 && text.contains(hint), "{code}: {text}");
    }
    assert!(!place.path("new").exists());
    assert!(!place.path("other/new").exists());
    assert_eq!(export(&["--data-dir", &other]).len(), 1);
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(1, &[b"SET", b"k", b"v"]), b"+OK\r\n");
}
