//! Changes and questions of `statestore admin`, and their exit codes.
use super::scripted_server::ScriptedServer;
use crate::harness::Run;
use serde_json::json;

/// Runs `statestore admin` against an answer; the run and the request.
fn exchange(status: u16, answer: &str, arguments: &[&str]) -> (Run, String) {
    let server = ScriptedServer::start([(status, answer)]);
    let run = server.run(arguments);
    (run, server.requests().remove(0))
}

#[track_caller]
fn assert_printed(run: &Run, code: i32, stdout: &str) {
    let printed = String::from_utf8_lossy(&run.stdout);
    assert_eq!((run.code, &*printed), (Some(code), stdout), "{run:?}");
}

#[test]
fn a_lock_is_released_only_for_its_holder() {
    let unlock = ["unlock", "pump", "--holder", "gateway-1"];
    let (run, request) = exchange(200, r#"{"released":true}"#, &unlock);
    assert_printed(&run, 0, "released\n");
    let body = json!({"holder": "gateway-1", "key": "pump"});
    assert_eq!(request, format!("POST /api/unlock {body}"));

    let (run, _) = exchange(200, r#"{"released":false}"#, &unlock);
    run.assert_error(1, "'pump' is not held");
    let conflict = r#"{"error":"gateway-2 holds it"}"#;
    let (run, _) = exchange(409, conflict, &unlock);
    run.assert_error(1, "gateway-2 holds it");
    let (run, _) = exchange(401, "this needs the token\n", &unlock);
    run.assert_error(4, "this needs the token");
    let server = ScriptedServer::start([(200, "")]);
    server.run(&["unlock", "pump"]).assert_error(2, "--holder");
}

#[test]
fn a_key_that_is_no_text_is_sent_in_hexadecimal() {
    let arguments = ["unlock", "--escaped", r"a\xff", "--holder", "h"];
    let (_, request) = exchange(200, r#"{"released":true}"#, &arguments);
    let body = json!({"hex": "61ff", "holder": "h"});
    assert_eq!(request, format!("POST /api/unlock {body}"));
}

#[test]
fn all_clients_of_a_user_are_disconnected() {
    let by_user = ["disconnect", "--user", "line1"];
    let (run, request) = exchange(200, r#"{"disconnected":2}"#, &by_user);
    assert_printed(&run, 0, "2 clients disconnected\n");
    let body = json!({"user": "line1"});
    assert_eq!(request, format!("POST /api/disconnect {body}"));
    let (run, _) = exchange(200, r#"{"disconnected":0}"#, &by_user);
    run.assert_error(1, "no client of user 'line1' is connected");

    let older = r#"{"error":"unknown field `user`, expected `client` at line 1 column 7"}"#;
    let (run, _) = exchange(400, older, &by_user);
    run.assert_error(
        4,
        "this server does not have 'user' of /api/disconnect; it is older than this command",
    );
    for answer in [r#"{"disconnected":1}"#, r#"{"disconnected":true}"#] {
        let (run, _) = exchange(200, answer, &["disconnect", "gateway-1"]);
        assert_printed(&run, 0, "disconnected\n");
    }
}

#[test]
fn a_disconnect_names_a_client_or_a_user() {
    for arguments in [&["disconnect"][..], &["disconnect", "a", "--user", "b"]] {
        let server = ScriptedServer::start([(200, "{}")]);
        assert_eq!(server.run(arguments).code, Some(2));
        assert_eq!(server.requests(), [""; 0]);
    }
}

#[test]
fn a_server_is_drained_and_accepts_clients_again() {
    let draining = r#"{"draining":true,"connections":1}"#;
    let (run, request) = exchange(200, draining, &["drain", "--over", "1m"]);
    assert_printed(&run, 0, "draining; 1 connection\n");
    let body = json!({"on": true, "seconds": 60});
    assert_eq!(request, format!("POST /api/drain {body}"));
    let accepting = r#"{"draining":false,"connections":0}"#;
    let (run, request) = exchange(200, accepting, &["drain", "--off"]);
    assert_printed(&run, 0, "accepting clients; 0 connections\n");
    assert_eq!(request, r#"POST /api/drain {"on":false}"#);
}

#[test]
fn a_policy_check_has_exit_codes() {
    let write = ["policy", "check", "line1", "write", "line1/speed"];
    let (run, request) = exchange(200, r#"{"allowed":true,"rule":"writers"}"#, &write);
    assert_printed(&run, 0, "allowed by writers\n");
    let body = json!({"action": "write", "key": "line1/speed", "user": "line1"});
    assert_eq!(request, format!("POST /api/policy/check {body}"));

    let subscribe = [
        "policy",
        "check",
        "-",
        "subscribe",
        "alarms/#",
        "--client",
        "c",
    ];
    let (run, request) = exchange(200, r#"{"allowed":false,"rule":null}"#, &subscribe);
    assert_printed(&run, 1, "denied\n");
    let body = json!({"action": "subscribe", "client": "c", "topic": "alarms/#", "user": null});
    assert_eq!(request, format!("POST /api/policy/check {body}"));
}
