//! `statestore admin` against a real server.
use crate::admin::AdminFixture;
use crate::harness::{Running, interrupt};

/// Starts a client that stays connected as `gateway-1`.
fn connect_gateway(fixture: &AdminFixture) -> Running {
    let arguments = ["watch", "k", "--initial", "--client-id", "gateway-1"];
    let mut watch = Running::start(&fixture.store, &arguments);
    assert!(watch.line().starts_with("DELETE\tk\t"));
    watch
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
