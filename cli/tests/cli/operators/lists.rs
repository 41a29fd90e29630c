//! Lists of `statestore admin`: tables, JSON, pages, filters, and servers that are older.
use super::scripted_server::ScriptedServer;
use crate::harness::{Run, run, statestore};
use serde_json::{Value, json};

/// Returns the body of a page.
fn page(items: &Value, next: &Value) -> (u16, String) {
    (200, json!({ "items": items, "next": next }).to_string())
}

fn last_page(items: &Value) -> (u16, String) {
    page(items, &Value::Null)
}

fn text(text: &str) -> Value {
    let digits = text.bytes().map(|byte| format!("{byte:02x}"));
    json!({ "hex": digits.collect::<String>(), "text": text })
}

#[test]
fn help_has_examples_of_the_lists() {
    for words in [
        "connections",
        "client",
        "sessions",
        "locks",
        "keys",
        "refusals",
        "audit",
        "config",
        "limits",
        "policy check",
        "monitor",
        "slowlog",
        "bigkeys",
        "hotkeys",
        "ttl",
        "disconnect",
        "unlock",
        "drain",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let run = run(
            statestore([&["admin"][..], &words, &["--help"]].concat()),
            b"",
        );
        let help = String::from_utf8(run.stdout).unwrap();
        assert_eq!(run.code, Some(0), "{words:?}");
        let example = "Examples:\n  statestore admin ";
        assert!(help.contains(example), "{help}");
    }
}

#[test]
fn pages_are_followed_and_columns_are_aligned() {
    let first = json!({
        "client": "gateway-1", "user": "line1", "peer": "10.0.0.1:5", "protocol": "tcp",
        "since_ms": 1_763_632_800_000_u64, "requests": 12, "requests_per_s": 1.5,
        "held_bytes": 2048, "outstanding_bytes": 0,
    });
    let second = json!({
        "client": "g\u{1b}[2J", "user": null, "peer": "10.0.0.2:61234", "protocol": "wss",
        "since_ms": 1_763_632_801_000_u64, "requests": 123_456_789, "requests_per_s": null,
        "held_bytes": 1, "outstanding_bytes": 5,
    });
    let server = ScriptedServer::start([
        page(&json!([first]), &json!(200)),
        last_page(&json!([second])),
    ]);
    let expected = "\
SINCE                 PROTOCOL  PEER        REQUESTS  PER S     HELD  UNSENT  USER   CLIENT
2025-11-20T10:00:00Z  tcp       10.0.0.1:5        12    1.5  2.0 KiB     0 B  line1  gateway-1
2025-11-20T10:00:01Z  wss       10.0.0.2:61234  123456789      -      1 B     5 B  -      g\\x1b[2J
";
    assert_eq!(server.ok(&["connections"]), expected);
    assert_eq!(
        server.requests(),
        ["GET /api/connections", "GET /api/connections?cursor=200"]
    );
}

#[test]
fn json_is_one_item_per_line_without_terminal_controls() {
    let items = json!([{"client": "a\u{9b}", "held_bytes": 1}, {"client": "b", "held_bytes": 2}]);
    let server = ScriptedServer::start([last_page(&items)]);
    assert_eq!(
        server.ok(&["sessions", "--json"]),
        "{\"client\":\"a\\u009b\",\"held_bytes\":1}\n{\"client\":\"b\",\"held_bytes\":2}\n"
    );
}

#[test]
fn a_limit_ends_the_list_within_a_page_and_asks_for_no_other() {
    let items = json!([{"client": "a"}, {"client": "b"}, {"client": "c"}]);
    let server = ScriptedServer::start([page(&items, &json!(3)), last_page(&json!([]))]);
    let listed = server.ok(&["sessions", "--json", "--limit", "2"]);
    assert_eq!(listed, "{\"client\":\"a\"}\n{\"client\":\"b\"}\n");
    assert_eq!(server.requests(), ["GET /api/sessions"]);
    server
        .run(&["sessions", "--limit", "0"])
        .assert_error(2, "--limit");
}

#[test]
fn filters_are_percent_encoded_parameters() {
    let item =
        json!({"client": "gateway 1", "user": "Line&1", "peer": "[fe80::1]:5", "requests": 0});
    let server = ScriptedServer::start([last_page(&json!([item]))]);
    server.ok(&[
        "connections",
        "--client",
        "way 1",
        "--user",
        "Line&1",
        "--address",
        "fe80:",
        "--sort",
        "held",
    ]);
    assert_eq!(
        server.requests(),
        ["GET /api/connections?client=way%201&user=Line%261&address=fe80%3A&sort=held"]
    );
}

#[test]
fn an_option_that_an_older_server_ignores_is_an_error() {
    let item = json!({"client": "b", "user": null, "peer": "10.0.0.1:5"});
    for arguments in [
        &["connections", "--client", "a"][..],
        &["connections", "--sort", "rate"],
        &["refusals", "--user", "line1"],
    ] {
        let server = ScriptedServer::start([last_page(&json!([item]))]);
        let refused = server.run(arguments);
        refused.assert_error(4, "does not have these options of /api/");
        refused.assert_error(4, "it is older than this command");
    }
}

#[test]
fn a_path_that_an_older_server_does_not_have_is_named() {
    let server = ScriptedServer::start([(404, "there is nothing here\n")]);
    let refused = server.run(&["hotkeys"]);
    refused.assert_error(
        4,
        "this server does not have /api/hotkeys; it is older than this command",
    );
    let server = ScriptedServer::start([(404, r#"{"error":"no such client"}"#)]);
    let refused = server.run(&["client", "gateway/1"]);
    refused.assert_error(1, "no such client");
    assert_eq!(server.requests(), ["GET /api/client?client=gateway%2F1"]);
}

#[test]
fn answers_of_another_form_and_repeated_pages_are_errors() {
    let server = ScriptedServer::start([(200, r#"{"things":[]}"#)]);
    server
        .run(&["sessions"])
        .assert_error(3, "the answer to /api/sessions has an unknown form");
    let repeated = || page(&json!([]), &json!("a."));
    let server = ScriptedServer::start([repeated(), repeated()]);
    server
        .run(&["sessions"])
        .assert_error(3, "repeats a page of /api/sessions");
}

#[test]
fn keys_have_sizes_and_keys_of_older_servers_have_none() {
    let key = json!({
        "key": {"hex": "61ff", "text": null}, "value_bytes": 1536, "expires_in_ms": 90_000,
        "changed_ms": 1_763_632_800_000_u64, "version": "v",
    });
    let server = ScriptedServer::start([last_page(&json!([key, text("b\n")]))]);
    let expected = r"  BYTES  EXPIRES IN  CHANGED               KEY
1.5 KiB      1m 30s  2025-11-20T10:00:00Z  a\xff
      -           -  -                     b\n
";
    assert_eq!(server.ok(&["keys", r"a\x2f*", "--escaped"]), expected);
    assert_eq!(server.requests(), ["GET /api/keys?match=a%2F%2A&details=1"]);
}

#[test]
fn a_folder_of_the_tree_is_the_sum_of_its_pages() {
    let folder =
        |keys: u64, bytes: u64| json!({"prefix": text("a/"), "keys": keys, "value_bytes": bytes});
    let key = json!({"key": text("b"), "value_bytes": 7, "expires_in_ms": null});
    let pages = || {
        [
            page(&json!([folder(2, 1000)]), &json!("x.")),
            last_page(&json!([folder(3, 24), key])),
        ]
    };
    let server = ScriptedServer::start(pages());
    let expected = "\
KEYS    BYTES  EXPIRES IN  NAME
   5  1.0 KiB           -  a/
   -      7 B           -  b
";
    assert_eq!(server.ok(&["keys", "--tree"]), expected);
    assert_eq!(
        server.requests(),
        [
            "GET /api/prefixes?prefix=&delimiter=%2F",
            "GET /api/prefixes?prefix=&delimiter=%2F&cursor=x."
        ]
    );
    let server = ScriptedServer::start(pages());
    let arguments = [
        "keys",
        "--tree",
        "c:",
        "--delimiter",
        ":",
        "--limit",
        "1",
        "--json",
    ];
    let sum = r#"{"keys":5,"prefix":{"hex":"612f","text":"a/"},"value_bytes":1024}"#;
    assert_eq!(server.ok(&arguments), format!("{sum}\n"));
    assert_eq!(
        server.requests()[0],
        "GET /api/prefixes?prefix=c%3A&delimiter=%3A"
    );
    let refused = ScriptedServer::start(pages()).run(&["keys", "a*", "--tree"]);
    refused.assert_error(2, "--tree");
}

#[test]
fn the_largest_and_the_first_to_expire_are_those_of_all_pages() {
    let items = |field: &str, numbers: &[u64]| -> Value {
        let items = numbers
            .iter()
            .map(|number| json!({"key": text("k"), field: number}));
        items.collect()
    };
    for (command, field, expected) in [
        ("bigkeys", "value_bytes", [9, 8, 5]),
        ("ttl", "expires_in_ms", [1, 3, 5]),
    ] {
        let server = ScriptedServer::start([
            page(&items(field, &[5, 3]), &json!("a.")),
            page(&items(field, &[]), &json!("b.")),
            last_page(&items(field, &[8, 1, 9])),
        ]);
        let listed = server.ok(&[command, "--limit", "3", "--json"]);
        let lines = listed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let numbers: Vec<Value> = lines.map(|line| line[field].clone()).collect();
        assert_eq!(numbers, expected);
    }
    let refused = ScriptedServer::start([last_page(&json!([]))]).run(&["ttl", "--limit", "21"]);
    refused.assert_error(2, "1..=20");
}

#[test]
fn amounts_have_the_unit_of_their_limit() {
    let items = json!([
        {"name": "max-bytes", "limit": 4096, "used": 1024, "unit": "bytes", "subject": null},
        {"name": "max-keys", "limit": 0, "used": 3, "unit": "count", "subject": {"user": "line 1"}},
    ]);
    let server = ScriptedServer::start([last_page(&items)]);
    let expected = "LIMIT         USED       OF  SHARE  SUBJECT\n\
                    max-bytes  1.0 KiB  4.0 KiB   25 %  -\n\
                    max-keys         3        0      -  user=\"line 1\"\n";
    assert_eq!(server.ok(&["limits"]), expected);
}

#[test]
fn options_of_the_server_are_a_list() {
    let options = json!({ "options": [
        {"name": "storage", "value": "/data", "source": "file", "needs_restart": true},
        {"name": "log", "value": null, "source": "default", "needs_restart": false},
    ]});
    let server = ScriptedServer::start([(200, options.to_string())]);
    let expected = "OPTION   SOURCE   RESTART  VALUE\n\
                    storage  file     yes      /data\n\
                    log      default  no       -\n";
    assert_eq!(server.ok(&["config"]), expected);
}

#[test]
fn a_client_is_shown_with_its_parts() {
    let client = json!({
        "client": "gateway-1",
        "connection": {"peer": "10.0.0.1:5", "protocol": "tls"},
        "watches": [text("k\n")],
    });
    let server = ScriptedServer::start([(200, client.to_string())]);
    let expected = r"client  gateway-1
connection:
  peer      10.0.0.1:5
  protocol  tls
watches:
  k\n
";
    assert_eq!(server.ok(&["client", "gateway-1"]), expected);
}

#[test]
fn the_newest_line_of_the_audit_trail_is_the_last() {
    let line = |at: u64, client: &str| json!({"at_ms": at, "level": "info", "event": "connected", "fields": {"client": client}});
    let pages = || {
        [
            page(&json!([line(3000, "c"), line(2000, "b")]), &json!(2)),
            last_page(&json!([line(1000, "a")])),
        ]
    };
    let server = ScriptedServer::start(pages());
    let expected = "AT                        LEVEL  EVENT      FIELDS\n\
                    1970-01-01T00:00:01.000Z  info   connected  client=a\n\
                    1970-01-01T00:00:02.000Z  info   connected  client=b\n\
                    1970-01-01T00:00:03.000Z  info   connected  client=c\n";
    assert_eq!(server.ok(&["audit"]), expected);
    let server = ScriptedServer::start(pages());
    let listed: Run = server.run(&["audit", "--limit", "1", "--event", "connected", "--json"]);
    assert_eq!(listed.json()["fields"]["client"], "c");
    assert_eq!(server.requests(), ["GET /api/audit?event=connected"]);
}
