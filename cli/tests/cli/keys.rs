//! scan.
use crate::harness::Store;
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::Stdio};

#[test]
fn scan_lists_every_key_of_many_pages() {
    let store = Store::start();
    store.ok([
        "bench",
        "--keys",
        "20000",
        "--ops",
        "0",
        "--keep",
        "--key-prefix",
        "some/long/folder/",
    ]);
    store.ok(["set", "other", "v"]);
    let listed = store.ok(["scan", "some/*"]);
    let keys: BTreeSet<String> = listed.lines().map(ToOwned::to_owned).collect();
    let expected: BTreeSet<String> = (0..20_000)
        .map(|number| format!("some/long/folder/{number:010}"))
        .collect();
    assert_eq!(listed.lines().count(), 20_000);
    assert!(keys == expected);
}

#[test]
fn scan_without_a_pattern_lists_every_key() {
    let store = Store::start();
    assert_eq!(store.ok(["scan"]), "");
    store.ok(["set", "k", "v"]);
    assert_eq!(store.ok(["scan"]), "k\n");
    assert_eq!(store.ok(["scan", "x*"]), "");
    assert_eq!(store.ok(["scan", "[!x]"]), "k\n");
}

#[test]
fn keys_of_any_bytes_round_trip_in_every_format() {
    let store = Store::start();
    store.ok(["set", "--escaped", r"a\n\x00\xff", "v"]);
    assert_eq!(store.run(["scan"]).stdout, b"a\n\0\xff\n");
    assert_eq!(store.run(["scan", "--null"]).stdout, b"a\n\0\xff\0");
    let json = store.run(["scan", "--json"]).json();
    assert_eq!(
        (&json["key"], &json["key_encoding"]),
        (&"YQoA/w==".into(), &"base64".into())
    );
    let escaped = store.ok(["scan", "--escaped", r"a\n*"]);
    assert_eq!(escaped, "a\\n\\x00\\xff\n");
    assert_eq!(store.ok(["get", "--escaped", escaped.trim_end()]), "v");
}

#[test]
fn json_is_one_object_for_each_key() {
    let store = Store::start();
    store.ok(["set", "a", "v"]);
    store.ok(["set", "b", "v"]);
    let mut keys: Vec<Value> = store
        .ok(["scan", "--json"])
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["key"].take())
        .collect();
    keys.sort_by_key(ToString::to_string);
    assert_eq!(keys, ["a", "b"]);
}

#[test]
fn scan_prints_values_escaped_behind_their_keys() {
    let store = Store::start();
    store.ok(["set", "--escaped", r"line1/a\tb", "v"]);
    store.run_with_input(["set", "line1/speed"], b"4\n0");
    store.ok(["set", "line2/speed", "50"]);
    let listed = store.ok(["scan", "line1/*", "--values"]);
    let mut lines: Vec<&str> = listed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["line1/a\\tb\tv", "line1/speed\t4\\n0"]);
    assert_eq!(store.run(["scan", "--values", "-0"]).code, Some(2));
}

#[test]
fn json_of_scanned_values_has_version_and_remaining_time() {
    let store = Store::start();
    let version = store.ok(["set", "k", "v"]);
    let expected = json!({
        "key": "k",
        "value": "v",
        "version": version.trim_end(),
        "expires_in": "never",
    });
    let scanned = store.run(["scan", "--values", "--json"]);
    assert_eq!(scanned.json(), expected);
    store.ok(["set", "k", "v", "--px", "10m"]);
    let scanned = store.run(["scan", "--values", "--json"]).json();
    let left = scanned["expires_in"].as_u64().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
}

#[test]
fn a_closed_pipe_ends_scan_without_an_error() {
    let store = Store::start();
    store.ok(["set", "k", "v"]);
    let mut command = store.command(["scan"]);
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), b"".as_slice())
    );
}
