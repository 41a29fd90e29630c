//! watch.
use crate::harness::{Store, interrupt};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStderr, ChildStdout},
};

/// A running `statestore watch`.
struct WatchProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl WatchProcess {
    /// Starts it and waits until it says that it watches.
    fn start(store: &Store, arguments: &[&str]) -> Self {
        let mut child = store
            .command(["watch"].iter().chain(arguments))
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut watch = Self {
            child,
            stdout,
            stderr,
        };
        assert!(watch.notice().starts_with("watching "));
        watch
    }

    fn notice(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn changes_are_printed_as_lines_and_ctrl_c_exits_with_0() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["k"]);
    let version = store.ok(["set", "k", "v"]);
    assert_eq!(watch.line(), format!("SET\tk\t{}\tv", version.trim_end()));
    let version = store.ok(["del", "k"]);
    assert_eq!(watch.line(), format!("DELETE\tk\t{}", version.trim_end()));
    interrupt(&watch.child);
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn expiry_is_a_delete() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["k", "--count", "2"]);
    store.ok(["set", "k", "v", "--px", "1"]);
    assert!(watch.line().starts_with("SET\tk\t"));
    assert!(watch.line().starts_with("DELETE\tk\t"));
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn only_changes_of_the_watched_keys_are_printed() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["a", "b", "a", "--count", "2"]);
    store.ok(["set", "other", "v"]);
    store.ok(["set", "b", "1"]);
    assert!(watch.line().starts_with("SET\tb\t"));
    store.ok(["set", "a", "2"]);
    assert!(watch.line().starts_with("SET\ta\t"));
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_change_is_one_line_for_any_value() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["k", "--count", "1"]);
    store.run_with_input(["set", "k"], b"a\tb\nc\\\0\xff");
    assert!(watch.line().ends_with(r"	a\tb\nc\\\x00\xff"));
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn json_events_have_the_documented_fields() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["k", "--json"]);
    let version = store.ok(["set", "k", "v"]);
    let expected = json!({"event": "set", "key": "k", "value": "v", "version": version.trim_end()});
    assert_eq!(watch.json(), expected);
    let version = store.ok(["del", "k"]);
    let expected = json!({"event": "delete", "key": "k", "version": version.trim_end()});
    assert_eq!(watch.json(), expected);
    interrupt(&watch.child);
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_lost_connection_is_reported_and_the_watch_continues() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["k"]);
    store.stop();
    assert!(watch.notice().starts_with("connection lost: "));
    interrupt(&watch.child);
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_pattern_prints_the_present_state_first_and_then_the_changes_of_all_keys() {
    let store = Store::start();
    let version = store.ok(["set", "line1/a", "1"]);
    store.ok(["set", "line2/a", "1"]);
    let mut watch = WatchProcess::start(&store, &["line1/*", "--initial", "--count", "3"]);
    let expected = format!("SET\tline1/a\t{}\t1", version.trim_end());
    assert_eq!(watch.line(), expected);
    assert_eq!(watch.notice(), "the present state of line1/* is complete");
    store.ok(["set", "line2/b", "2"]);
    let version = store.ok(["set", "line1/b", "2"]);
    let expected = format!("SET\tline1/b\t{}\t2", version.trim_end());
    assert_eq!(watch.line(), expected);
    store.ok(["del", "line1/a"]);
    assert!(watch.line().starts_with("DELETE\tline1/a\t"));
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_pattern_without_initial_prints_only_changes() {
    let store = Store::start();
    store.ok(["set", "a1", "old"]);
    let mut watch = WatchProcess::start(&store, &["a?", "--count", "1"]);
    store.ok(["set", "a2", "new"]);
    assert!(watch.line().starts_with("SET\ta2\t"));
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn the_end_of_the_present_state_is_a_json_event_also_without_keys() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["[ab]*", "--initial", "--json"]);
    assert_eq!(watch.json(), json!({"event": "complete", "key": "[ab]*"}));
    let version = store.ok(["set", "a", "v"]);
    let expected = json!({"event": "set", "key": "a", "value": "v", "version": version.trim_end()});
    assert_eq!(watch.json(), expected);
    interrupt(&watch.child);
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn the_present_state_of_a_key_is_its_value_or_a_delete_without_a_version() {
    let store = Store::start();
    let version = store.ok(["set", "k", "v"]);
    let mut watch = WatchProcess::start(&store, &["k", "--initial", "--count", "1"]);
    assert_eq!(watch.line(), format!("SET\tk\t{}\tv", version.trim_end()));
    assert_eq!(watch.end(), Some(0));
    let mut watch = WatchProcess::start(&store, &["absent", "--initial", "--json", "-n1"]);
    assert_eq!(watch.json(), json!({"event": "delete", "key": "absent"}));
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_key_with_a_star_is_watched_with_literal() {
    let store = Store::start();
    let mut watch = WatchProcess::start(&store, &["a*", "--literal", "--count", "1"]);
    store.ok(["set", "ab", "v"]);
    store.ok(["set", "a*", "v"]);
    assert!(watch.line().starts_with("SET\ta*\t"));
    assert_eq!(watch.end(), Some(0));
}
