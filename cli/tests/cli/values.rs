//! get, set, del, vdel: values in and out, conditions, fencing, exit codes.
use crate::harness::Store;
use serde_json::json;
use std::fs;

/// Every byte there is, with a newline at the end that must neither be lost nor doubled.
fn binary() -> Vec<u8> {
    (0..=u8::MAX).chain([b'\n']).collect()
}

fn is_version(text: &str) -> bool {
    text.trim_end().parse::<statestore::Hlc>().is_ok()
}

#[test]
fn set_prints_the_version_and_get_the_value() {
    let store = Store::start();
    let version = store.ok(["set", "k", "v"]);
    assert!(
        version.ends_with('\n') && is_version(&version),
        "{version:?}"
    );
    assert_eq!(store.ok(["get", "k"]), "v");
    let expected =
        json!({"result": "found", "key": "k", "value": "v", "version": version.trim_end()});
    assert_eq!(store.run(["get", "k", "--json"]).json(), expected);
}

#[test]
fn binary_values_go_through_standard_input_and_output() {
    let store = Store::start();
    let set = store.run_with_input(["set", "k"], &binary());
    assert_eq!(set.code, Some(0), "{set:?}");
    assert_eq!(store.run(["get", "k"]).stdout, binary());
}

#[test]
fn binary_values_go_through_files() {
    let store = Store::start();
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, binary()).unwrap();
    store.ok([
        "set".as_ref(),
        "k".as_ref(),
        "--file".as_ref(),
        from.as_os_str(),
    ]);
    assert_eq!(
        store.ok([
            "get".as_ref(),
            "k".as_ref(),
            "--output".as_ref(),
            to.as_os_str()
        ]),
        ""
    );
    assert_eq!(fs::read(&to).unwrap(), binary());

    // an absent key leaves the file as it was
    let absent = store.run([
        "get".as_ref(),
        "absent".as_ref(),
        "-o".as_ref(),
        to.as_os_str(),
    ]);
    absent.assert_error(1, "'absent' is absent");
    assert_eq!(fs::read(&to).unwrap(), binary());
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let store = Store::start();
    store.ok(["set", "k", "v"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/file");
    let run = store.run([
        "get".as_ref(),
        "k".as_ref(),
        "--output".as_ref(),
        path.as_os_str(),
    ]);
    run.assert_error(2, path.to_str().unwrap());
}

#[test]
fn an_empty_value_is_a_value() {
    let store = Store::start();
    store.run_with_input(["set", "k"], b"");
    assert_eq!(store.ok(["get", "k"]), "");
    assert_eq!(store.run(["get", "k", "--json"]).json()["value"], "");
}

#[test]
fn values_that_look_like_options() {
    let store = Store::start();
    store.ok(["set", "k", "-5"]);
    assert_eq!(store.ok(["get", "k"]), "-5");
    store.ok(["set", "k", "--", "--nx"]);
    assert_eq!(store.ok(["get", "k"]), "--nx");
}

#[test]
fn json_encodes_invalid_utf8_as_base64() {
    let store = Store::start();
    store.run_with_input(["set", "--escaped", r"\xff"], b"\xfe\xff");
    let got = store.run(["get", "--escaped", r"\xff", "--json"]).json();
    assert_eq!(got["key"], "/w==");
    assert_eq!(got["key_encoding"], "base64");
    assert_eq!(got["value"], "/v8=");
    assert_eq!(got["encoding"], "base64");
}

#[test]
fn absent_keys_are_exit_code_1() {
    let store = Store::start();
    for verb in ["get", "del"] {
        store.run([verb, "k"]).assert_error(1, "'k' is absent");
        let json = store.run([verb, "k", "--json"]);
        assert_eq!(
            (json.code, json.json()),
            (Some(1), json!({"result": "absent", "key": "k"}))
        );
    }
    store
        .run(["vdel", "k", "v"])
        .assert_error(1, "'k' is absent");
    assert_eq!(
        store.run(["vdel", "k", "v", "--json"]).json()["result"],
        "absent"
    );
}

#[test]
fn conditions_that_are_not_met_are_exit_code_1() {
    let store = Store::start();
    let version = store.ok(["set", "k", "v", "--nx"]);
    store
        .run(["set", "k", "v", "--nx"])
        .assert_error(1, version.trim_end());
    store
        .run(["set", "k", "w", "--nex"])
        .assert_error(1, version.trim_end());
    let json = store.run(["set", "k", "w", "--nex", "--json"]);
    let expected = json!({"result": "not_applied", "key": "k", "version": version.trim_end()});
    assert_eq!((json.code, json.json()), (Some(1), expected));
    assert_eq!(store.ok(["get", "k"]), "v");

    let renewed = store.run(["set", "k", "v", "--nex", "--json"]);
    assert_eq!(
        (renewed.code, &renewed.json()["result"]),
        (Some(0), &json!("applied"))
    );
    assert!(renewed.json()["version"].as_str().unwrap() > version.trim_end());
}

#[test]
fn exists_reports_by_its_exit_code() {
    let store = Store::start();
    let absent = store.run(["exists", "k"]);
    absent.assert_error(1, "'k' is absent");
    store.ok(["set", "k", ""]);
    assert_eq!(store.ok(["exists", "k"]), "");
    let found = store.run(["exists", "k", "--json"]).json();
    assert_eq!(found, json!({"result": "found", "key": "k"}));
}

#[test]
fn incr_adds_to_a_number_and_to_nothing_else() {
    let store = Store::start();
    assert_eq!(store.ok(["incr", "k"]), "1\n");
    assert_eq!(store.ok(["incr", "k", "-5"]), "-4\n");
    let sum = store.run(["incr", "k", "14", "--json"]).json();
    let expected = json!({"result": "applied", "key": "k", "value": "10"});
    assert_eq!(sum, expected);
    store.ok(["set", "k", "ten"]);
    let refused = store.run(["incr", "k"]);
    refused.assert_error(2, "\"k\": its value is not a decimal number");
    assert_eq!(store.ok(["get", "k"]), "ten");
}

#[test]
fn ping_prints_the_time_of_each_answer() {
    let store = Store::start();
    let printed = store.ok(["ping", "--count", "2"]);
    assert_eq!(printed.lines().count(), 2, "{printed}");
    let answered = store.run(["ping", "--json"]).json();
    assert_eq!(answered["result"], "answered");
    assert!(answered["round_trip_us"].is_u64(), "{answered}");
}

#[test]
fn vdel_deletes_only_the_value_it_is_given() {
    let store = Store::start();
    store.ok(["set", "k", "v"]);
    store
        .run(["vdel", "k", "w"])
        .assert_error(1, "holds another value");
    let json = store.run(["vdel", "k", "w", "--json"]);
    assert_eq!(
        (json.code, json.json()),
        (Some(1), json!({"result": "mismatch", "key": "k"}))
    );
    assert_eq!(store.ok(["get", "k"]), "v");
    assert!(is_version(&store.ok(["vdel", "k", "v"])));
    store.run(["get", "k"]).assert_error(1, "absent");
}

#[test]
fn del_prints_the_version_of_the_deletion() {
    let store = Store::start();
    store.ok(["set", "k", "v"]);
    assert!(is_version(&store.ok(["del", "k"])));
    store.ok(["set", "k", "v"]);
    let json = store.run(["del", "k", "--json"]).json();
    assert_eq!(
        (&json["result"], &json["key"]),
        (&json!("deleted"), &json!("k"))
    );
    assert!(is_version(json["version"].as_str().unwrap()));
}

#[test]
fn the_version_of_a_lease_is_a_fencing_token() {
    let store = Store::start();
    let old = store.ok(["set", "lock", "a", "--nex", "--px", "1h"]);
    store.ok(["vdel", "lock", "a"]);
    let new = store.ok(["set", "lock", "b", "--nex", "--px", "1h"]);
    let (old, new) = (old.trim_end(), new.trim_end());
    store.ok(["set", "k", "v", "--fence", new]);

    store.run(["set", "k", "w"]).assert_error(4, "--fence");
    store
        .run(["set", "k", "w", "--fence", old])
        .assert_error(4, "lower version");
    store.run(["del", "k"]).assert_error(4, "--fence");
    store
        .run(["del", "k", "--fence", old])
        .assert_error(4, "lower version");
    store
        .run(["vdel", "k", "v", "--fence", old])
        .assert_error(4, "lower version");
    assert_eq!(store.ok(["get", "k"]), "v");
    store.ok(["vdel", "k", "v", "--fence", new]);
}

#[test]
fn a_full_store_is_exit_code_4() {
    let store = Store::with_max_keys(1);
    store.ok(["set", "k", "v"]);
    store
        .run(["set", "other", "v"])
        .assert_error(4, "the quota has been exceeded");
    store.ok(["set", "k", "w"]);
}

#[test]
fn a_value_above_the_packet_limit_is_an_error() {
    let store = Store::start();
    let run = store.run_with_input(["set", "k"], &vec![0; 64 << 20]);
    run.assert_error(2, "store it in parts");
    store.run(["get", "k"]).assert_error(1, "absent");
}

#[test]
fn names_may_have_spaces_and_any_letters() {
    let store = Store::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ein Wert für 水.txt");
    fs::write(&file, b"one\r\ntwo\n").unwrap();
    let file = file.to_str().unwrap();
    store.ok(["set", "Zähler 1 \u{6c34}", "--file", file]);
    assert_eq!(
        store.run(["get", "Zähler 1 \u{6c34}"]).stdout,
        b"one\r\ntwo\n"
    );
    store.ok(["set", "k", "größer \"als\" \\\\ zwei"]);
    assert_eq!(store.ok(["get", "k"]), "größer \"als\" \\\\ zwei");
    assert_eq!(store.ok(["scan", "Z*"]), "Zähler 1 \u{6c34}\n");
}
