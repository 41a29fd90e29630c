//! `statestore admin` against a real server.
use crate::admin::AdminFixture;
use crate::harness::{Running, interrupt, run};
use serde_json::{Value, json};

/// Starts a client that stays connected as `gateway-1`.
fn connect_gateway(fixture: &AdminFixture) -> Running {
    let arguments = ["watch", "k", "--initial", "--client-id", "gateway-1"];
    let mut watch = Running::start(&fixture.store, &arguments);
    assert!(watch.line().starts_with("DELETE\tk\t"));
    watch
}

/// Returns the lines of a command's JSON.
fn items(fixture: &AdminFixture, arguments: &[&str]) -> Vec<Value> {
    let listed = fixture.ok(&[&["admin", "--json"][..], arguments].concat());
    let lines = listed.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn exit_code(fixture: &AdminFixture, arguments: &[&str]) -> Option<i32> {
    run(fixture.command(arguments), b"").code
}

#[test]
fn clients_locks_and_keys_are_listed() {
    let fixture = AdminFixture::start();
    let acquire = ["lease", "acquire", "pump", "--holder", "gateway-1"];
    fixture.store.ok(acquire);
    let watch = connect_gateway(&fixture);
    for (arguments, end) in [
        (&["admin", "connections"][..], "  gateway-1"),
        (&["admin", "sessions"][..], "  gateway-1"),
        (&["admin", "locks", "pu*"][..], "  gateway-1  pump"),
        (&["admin", "keys"][..], "  pump"),
    ] {
        let table = fixture.ok(arguments);
        assert!(table.lines().any(|row| row.ends_with(end)), "{table}");
    }
    assert_eq!(fixture.ok(&["admin", "locks", "other*"]), "");
    assert_eq!(
        fixture.ok(&["admin", "disconnect", "gateway-1"]),
        "disconnected\n"
    );
    interrupt(&watch.child);
    assert_eq!(watch.end().code, Some(0));
}

#[test]
fn keys_have_sizes_and_folders() {
    let fixture = AdminFixture::start();
    for (key, value) in [("line1/a", "12345"), ("line1/b", "1"), ("top", "123")] {
        fixture.store.ok(["set", key, value]);
    }
    let brief = ["set", "line2/brief", "12", "--px", "10m"];
    fixture.store.ok(brief);
    let keys = items(&fixture, &["keys", "line1/a"]);
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0]["key"]["text"], "line1/a");
    assert_eq!(keys[0]["value_bytes"], 5);
    let level = items(&fixture, &["keys", "--tree"]);
    let names: Vec<&Value> = level
        .iter()
        .map(|item| &item.get("prefix").unwrap_or(&item["key"])["text"])
        .collect();
    assert_eq!(names, ["line1/", "line2/", "top"]);
    assert_eq!(
        (&level[0]["keys"], &level[0]["value_bytes"]),
        (&json!(2), &json!(6))
    );
}

#[test]
fn a_lock_is_released_for_its_holder_alone() {
    let fixture = AdminFixture::start();
    let acquire = ["lease", "acquire", "pump", "--holder", "gateway-1"];
    fixture.store.ok(acquire);
    let unlock = |holder: &'static str| ["admin", "unlock", "pump", "--holder", holder];
    assert_eq!(exit_code(&fixture, &unlock("gateway-2")), Some(1));
    assert_eq!(fixture.store.ok(["lease", "holder", "pump"]), "gateway-1\n");
    assert_eq!(fixture.ok(&unlock("gateway-1")), "released\n");
    let holder = fixture.store.run(["lease", "holder", "pump"]);
    holder.assert_error(1, "not held");
    assert_eq!(exit_code(&fixture, &unlock("gateway-1")), Some(1));
}

#[test]
fn a_client_limits_and_options_are_shown() {
    let fixture = AdminFixture::start();
    let watch = connect_gateway(&fixture);
    let client = fixture.ok(&["admin", "client", "gateway-1"]);
    assert!(client.contains("gateway-1"), "{client}");
    let filtered = ["connections", "--client", "way-1", "--sort", "rate"];
    let connections = items(&fixture, &filtered);
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0]["client"], "gateway-1");
    assert_eq!(exit_code(&fixture, &["admin", "client", "absent"]), Some(1));
    items(&fixture, &["limits"]);
    items(&fixture, &["config"]);
    interrupt(&watch.child);
    assert_eq!(watch.end().code, Some(0));
}

#[test]
fn without_a_policy_everything_is_allowed() {
    let fixture = AdminFixture::start();
    let allowed = fixture.ok(&["admin", "policy", "check", "-", "write", "k"]);
    assert!(allowed.starts_with("allowed"), "{allowed}");
}

#[test]
fn a_drained_server_is_not_ready_until_it_accepts_clients_again() {
    let fixture = AdminFixture::start();
    fixture.store.ok(["set", "k", "v"]);
    let draining = fixture.ok(&["admin", "drain", "--over", "1s"]);
    assert!(draining.starts_with("draining; "), "{draining}");
    assert_eq!(exit_code(&fixture, &["health", "--ready"]), Some(1));
    let refused = fixture.store.run(["get", "k", "--timeout", "1s"]);
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let accepting = fixture.ok(&["admin", "drain", "--off"]);
    assert!(accepting.starts_with("accepting clients; "), "{accepting}");
    assert_eq!(exit_code(&fixture, &["health", "--ready"]), Some(0));
    assert_eq!(fixture.store.ok(["get", "k"]), "v");
}

#[test]
fn large_brief_and_busy_keys_are_found() {
    let fixture = AdminFixture::start();
    for (key, value) in [("line1/a", "12345"), ("line1/b", "1"), ("top", "123")] {
        fixture.store.ok(["set", key, value]);
    }
    let brief = ["set", "line2/brief", "12", "--px", "10m"];
    fixture.store.ok(brief);
    let largest = items(&fixture, &["bigkeys", "--limit", "2"]);
    let sizes: Vec<&Value> = largest.iter().map(|item| &item["value_bytes"]).collect();
    assert_eq!(sizes, [5, 3]);
    let soonest = items(&fixture, &["ttl"]);
    assert_eq!(soonest.len(), 1);
    assert_eq!(soonest[0]["key"]["text"], "line2/brief");
    items(&fixture, &["hotkeys"]);
    items(&fixture, &["slowlog"]);
}

#[test]
fn commands_of_clients_are_monitored() {
    let fixture = AdminFixture::start();
    let arguments = ["admin", "--json", "monitor", "--key", "a*", "--limit", "1"];
    let mut monitor = Running::spawn(fixture.command(&arguments));
    while monitor.child.try_wait().unwrap().is_none() {
        fixture.store.ok(["set", "b", "v"]);
        fixture.store.ok(["set", "a", "v"]);
    }
    let monitored = monitor.end();
    assert_eq!(monitored.code, Some(0), "{monitored:?}");
    assert_eq!(monitored.json()["key"]["text"], "a");
    assert_eq!(monitored.json()["value"], Value::Null);
}
