//! Extensions that not every store supports: conditions on versions, remaining times, transactions.
use crate::harness::Store;
use serde_json::{Value, json};

fn lines(text: &[u8]) -> Vec<Value> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn a_write_can_be_conditional_on_a_version() {
    let store = Store::start();
    let one = store.ok(["set", "k", "one"]);
    let one = one.trim_end();
    let two = store.ok(["set", "k", "two", "--if-version", one]);
    let two = two.trim_end();
    let late = store.run(["set", "k", "three", "--if-version", one]);
    late.assert_error(1, &format!("not set: 'k' has version {two}"));
    let late = store.run(["set", "k", "three", "--if-version", one, "--json"]);
    let expected = json!({"result": "not_applied", "key": "k", "version": two});
    assert_eq!((late.code, late.json()), (Some(1), expected));
    let absent = store.run(["set", "none", "x", "--if-version", one]);
    absent.assert_error(1, "not set: 'none' is absent");

    let late = store.run(["del", "k", "--if-version", one]);
    late.assert_error(1, &format!("not deleted: 'k' has version {two}"));
    let late = store.run(["del", "k", "--if-version", one, "--json"]);
    let expected = json!({"result": "mismatch", "key": "k", "version": two});
    assert_eq!((late.code, late.json()), (Some(1), expected.clone()));
    let late = store.run(["vdel", "k", "two", "--if-version", one]);
    late.assert_error(1, &format!("not deleted: 'k' has version {two}"));
    let late = store.run(["vdel", "k", "two", "--if-version", one, "--json"]);
    assert_eq!((late.code, late.json()), (Some(1), expected.clone()));
    let other = store.run(["vdel", "k", "one", "--if-version", two]);
    other.assert_error(1, "not deleted: 'k' holds another value");
    let other = store.run(["vdel", "k", "one", "--if-version", two, "--json"]);
    assert_eq!((other.code, other.json()), (Some(1), expected));
    assert_eq!(store.ok(["get", "k"]), "two");
    store.ok(["vdel", "k", "two", "--if-version", two]);
    let absent = store.run(["del", "k", "--if-version", two]);
    absent.assert_error(1, "'k' is absent");
    let absent = store.run(["vdel", "k", "two", "--if-version", two]);
    absent.assert_error(1, "'k' is absent");
    let both = store.run(["set", "k", "v", "--nx", "--if-version", two]);
    assert_eq!(both.code, Some(2));
}

#[test]
fn get_prints_the_remaining_time_of_a_key() {
    let store = Store::start();
    store.ok(["set", "k", "v", "--px", "10m"]);
    let left: u64 = store
        .ok(["get", "k", "--remaining"])
        .trim_end()
        .parse()
        .unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
    let found = store.run(["get", "k", "--remaining", "--json"]).json();
    assert_eq!(found["value"], "v");
    assert!(found["expires_in"].as_u64().unwrap() <= 600_000);
    store.ok(["set", "k", "v"]);
    assert_eq!(store.ok(["get", "k", "--remaining"]), "never\n");
    let endless = store.run(["--json", "get", "k", "--remaining"]).json();
    assert_eq!(endless["expires_in"], "never");
    assert!(
        store
            .run(["--json", "get", "k"])
            .json()
            .get("expires_in")
            .is_none()
    );
    let absent = store.run(["get", "none", "--remaining"]);
    absent.assert_error(1, "'none' is absent");
}

#[test]
fn touch_changes_the_expiry_that_ttl_prints() {
    let store = Store::start();
    store.run(["ttl", "k"]).assert_error(1, "'k' is absent");
    let absent = store.run(["touch", "k", "10m"]);
    absent.assert_error(1, "'k' is absent");
    store.ok(["set", "k", "v"]);
    assert_eq!(store.ok(["ttl", "k"]), "never\n");
    assert_eq!(store.ok(["touch", "k", "10m"]), "");
    let left: u64 = store.ok(["ttl", "k"]).trim_end().parse().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
    let found = store.run(["ttl", "k", "--json"]).json();
    assert!(found["expires_in"].as_u64().unwrap() <= 600_000);
    let touched = store.run(["touch", "k", "never", "--json"]);
    let expected = json!({"result": "applied", "key": "k"});
    assert_eq!((touched.code, touched.json()), (Some(0), expected));
    let found = json!({"result": "found", "key": "k", "expires_in": "never"});
    assert_eq!(store.run(["ttl", "k", "--json"]).json(), found);
    assert_eq!(store.ok(["get", "k"]), "v");
    store
        .run(["touch", "k", "99ms"])
        .assert_error(2, "too short");
}

#[test]
fn several_keys_are_a_line_each_and_a_snapshot() {
    let store = Store::start();
    let version = store.ok(["set", "a", "one\ttwo"]);
    store.ok(["set", "b", "2", "--px", "10m"]);
    assert_eq!(
        store.ok(["get", "b", "a", "b"]),
        "b\t2\na\tone\\ttwo\nb\t2\n"
    );
    let found = store.run(["get", "a", "none", "b", "--json"]);
    let expected = [
        json!({"result": "found", "key": "a", "value": "one\ttwo", "version": version.trim_end(), "snapshot": true}),
        json!({"result": "absent", "key": "none", "snapshot": true}),
    ];
    assert_eq!(found.code, Some(1));
    assert_eq!(lines(&found.stdout)[..2], expected);
    assert!(
        found.stderr.contains("'none' is absent"),
        "{}",
        found.stderr
    );

    let mixed = store.run(["get", "none", "b"]);
    assert_eq!((mixed.code, &mixed.stdout[..]), (Some(1), &b"b\t2\n"[..]));
    let left = store.run(["get", "a", "b", "--remaining", "--json"]);
    let left = lines(&left.stdout);
    assert_eq!(
        (&left[0]["expires_in"], &left[0]["snapshot"]),
        (&json!("never"), &json!(false))
    );
    assert!(left[1]["expires_in"].as_u64().unwrap() <= 600_000);
    let eventual = store.run(["get", "a", "b", "--eventual", "--json"]);
    assert_eq!(lines(&eventual.stdout)[1]["snapshot"], false);
}

#[test]
fn a_transaction_prints_the_version_of_each_change() {
    let store = Store::start();
    let input = br#"
{"set": "a", "value": "1"}
{"set": "/4A=", "key_encoding": "base64", "value": "AP8=", "encoding": "base64", "nx": true, "px": "10m"}

{"del": "none"}
"#;
    let run = store.run_with_input(["transact", "--persist"], input);
    assert_eq!(run.code, Some(0), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    let printed: Vec<_> = text.lines().collect();
    assert_eq!(printed.len(), 3, "{text}");
    assert_eq!(
        printed[0],
        store.run(["get", "a", "--json"]).json()["version"]
    );
    assert_eq!(printed[2], "");
    let get = ["get", "--escaped", r"\xff\x80", "--remaining", "--json"];
    let found = store.run(get).json();
    assert_eq!(
        (&found["value"], &found["encoding"]),
        (&json!("AP8="), &json!("base64"))
    );
    assert!(found["expires_in"].as_u64().unwrap() <= 600_000);

    let input = format!(r#"{{"del": "a", "if_version": "{}"}}"#, printed[0]);
    let run = store.run_with_input(["transact", "--json"], input.as_bytes());
    let told = lines(&run.stdout);
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0]["result"], &told[0]["operation"], &told[0]["key"]),
        (&json!("applied"), &json!(0), &json!("a"))
    );
}

#[test]
fn a_transaction_whose_condition_is_not_met_changes_nothing() {
    let store = Store::start();
    let version = store.ok(["set", "k", "v"]);
    let version = version.trim_end();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("operations.jsonl");
    let operations = r#"{"set": "other", "value": "x"}
{"set": "k", "value": "x", "nx": true}"#;
    std::fs::write(&path, operations).unwrap();
    let run = store.run(["transact".as_ref(), path.as_os_str()]);
    let words = format!("nothing was changed, because of operation 1: 'k' has version {version}");
    run.assert_error(1, &words);
    let run = store.run(["transact".as_ref(), path.as_os_str(), "--json".as_ref()]);
    let expected = json!({"result": "not_applied", "operation": 1, "key": "k", "version": version});
    assert_eq!((run.code, run.json()), (Some(1), expected));
    assert_eq!(store.run(["get", "other"]).code, Some(1));

    store.ok(["set", "fenced", "v", "--fence", version]);
    let run = store.run_with_input(["transact"], br#"{"del": "fenced"}"#);
    run.assert_error(4, "operation 0 of a transaction, DEL \"fenced\"");
}

#[test]
fn invalid_operations_are_reported_with_their_line() {
    let store = Store::start();
    for (input, words) in [
        ("", "it has no operation"),
        ("{\"set\": \"a\"}", "line 1: a set needs a value"),
        (
            "\n{\"del\": \"a\", \"value\": \"v\"}",
            "line 2: value, encoding and px are of a set",
        ),
        (
            "{\"del\": \"a\", \"nx\": true}",
            "line 1: nx and nex are of a set",
        ),
        (
            "{\"set\": \"a\", \"del\": \"a\"}",
            "line 1: an operation has a set or a del",
        ),
        (
            "{\"set\": \"a\", \"value\": \"v\", \"nx\": true, \"nex\": true}",
            "line 1: only one of",
        ),
        (
            "{\"set\": \"a\", \"value\": \"v\", \"ttl\": 5}",
            "line 1: unknown field `ttl`",
        ),
        (
            "{\"set\": \"a\", \"value\": \"v\", \"px\": 0}",
            "line 1: at least 1 ms is needed",
        ),
        (
            "{\"del\": \"a\", \"if_version\": \"7\"}",
            "line 1: an HLC has exactly three segments",
        ),
        (
            "{\"del\": \"?\", \"key_encoding\": \"base64\"}",
            "line 1: not base64",
        ),
        ("{\"del\": \"\"}", "the key is empty"),
        ("nonsense", "line 1: expected"),
    ] {
        let run = store.run_with_input(["transact"], input.as_bytes());
        run.assert_error(2, words);
    }
    let run = store.run(["transact", "/none/such"]);
    run.assert_error(2, "cannot read file '/none/such'");
}
