//! Commands, conditions, versions, fencing and errors, row by row.
use crate::simulation::{MONO, Simulation, WALL, hlc, payload, text, version};
use statestore_protocol::HlcError;
use statestored_common::ClockReading;

const SKEW: &str = "-ERR the request timestamp is too far in the future; ensure that the client and broker system clocks are synchronized";
const TOKEN_SKEW: &str = "-ERR the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized";
const TOKEN_REQUIRED: &str = "-ERR a fencing token is required for this request";
const TOKEN_LOWER: &str = "-ERR the request fencing token is a lower version than the fencing token protecting the resource";

/// `+OK` with the wall clock of the start and this counter.
fn ok(counter: u64) -> String {
    format!("+OK @{WALL}+{counter}")
}

#[test]
fn a_value_is_set_read_replaced_and_deleted() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run("GET k"), "$-1");
    assert_eq!(sim.run("DEL k"), ":0");
    assert_eq!(sim.run("SET k one"), ok(1));
    assert_eq!(sim.run("GET k"), format!("$3\r\none @{WALL}+1"));
    assert_eq!(sim.run("SET k three"), ok(2));
    assert_eq!(sim.run("GET k"), format!("$5\r\nthree @{WALL}+2"));
    assert!(sim.has_keys(1));
    assert_eq!(sim.run("DEL k"), format!(":1 @{WALL}+3"));
    assert_eq!(sim.run("GET k"), "$-1");
    assert!(sim.service.size().keys == 0);
}

#[test]
fn nx_sets_an_absent_key_only() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run("SET k a NX"), ok(1));
    assert_eq!(sim.run("SET k b NX"), format!(":-1 @{WALL}+1"));
    assert_eq!(sim.run("SET k a NX"), format!(":-1 @{WALL}+1"));
    assert_eq!(sim.run("GET k"), format!("$1\r\na @{WALL}+1"));
}

#[test]
fn nex_sets_an_absent_key_or_one_with_the_same_value() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run("SET k a NEX"), ok(1));
    assert_eq!(sim.run("SET k b NEX"), format!(":-1 @{WALL}+1"));
    assert_eq!(sim.run("SET k a NEX"), ok(2));
    assert_eq!(sim.run("GET k"), format!("$1\r\na @{WALL}+2"));
}

#[test]
fn vdel_deletes_only_a_matching_value() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run("VDEL k a"), ":0");
    sim.run("SET k a");
    assert_eq!(sim.run("VDEL k b"), ":-1");
    assert_eq!(sim.run("GET k"), format!("$1\r\na @{WALL}+1"));
    assert_eq!(sim.run("VDEL k a"), format!(":1 @{WALL}+2"));
    assert_eq!(sim.run("VDEL k a"), ":0");
}

#[test]
fn values_are_any_bytes_and_may_be_empty() {
    let mut sim = Simulation::new();
    for value in [&b""[..], b"\r\n", b"\0\xff$-1\r\n"] {
        let set = payload([&b"SET"[..], b"k\r\n", value]);
        assert!(text(&sim.request().send(&set)).starts_with("+OK"));
        let got = sim.request().send(&payload([&b"GET"[..], b"k\r\n"]));
        let expected = statestore_protocol::Reply::Value(value.to_vec().into());
        assert_eq!(got.reply, expected);
        let vdel = payload([&b"VDEL"[..], b"k\r\n", value]);
        assert!(text(&sim.request().send(&vdel)).starts_with(":1"));
    }
}

#[test]
fn malformed_payloads_are_refused() {
    let mut sim = Simulation::new();
    for (command, error) in [
        ("FLUSH k", "unknown command"),
        ("get k", "unknown command"),
        ("GET", "wrong number of arguments"),
        ("GET k l", "wrong number of arguments"),
        ("SET k", "wrong number of arguments"),
        ("SET k v XX", "syntax error"),
        ("SET k v NX NEX", "syntax error"),
        ("SET k v PX 0", "syntax error"),
        ("SET k v PX", "syntax error"),
        ("GET ", "the key length is zero"),
        ("SET  v", "the key length is zero"),
        ("KEYNOTIFY k START", "syntax error"),
        ("MGET", "wrong number of arguments"),
        ("MGET k ", "the key length is zero"),
        ("SCAN * t x", "wrong number of arguments"),
        ("SCAN * no-token VALUES", "syntax error"),
    ] {
        assert_eq!(sim.run(command), format!("-ERR {error}"), "{command}");
    }
    let raw = |sim: &mut Simulation, bytes: &'static [u8]| text(&sim.request().send(&bytes.into()));
    assert_eq!(raw(&mut sim, b""), "-ERR syntax error");
    assert_eq!(raw(&mut sim, b"*1\r\n$-1\r\n"), "-ERR syntax error");
    assert!(sim.service.size().keys == 0);
}

#[test]
fn only_set_needs_a_timestamp() {
    let mut sim = Simulation::new();
    let without = |sim: &mut Simulation, command| sim.request().timestamp(None).run(command);
    assert_eq!(without(&mut sim, "SET k v"), "-ERR missing timestamp");
    assert_eq!(without(&mut sim, "GET k"), "$-1");
    assert_eq!(without(&mut sim, "DEL k"), ":0");
    assert_eq!(without(&mut sim, "VDEL k v"), ":0");
    assert_eq!(without(&mut sim, "KEYNOTIFY k"), "+OK");
    assert_eq!(without(&mut sim, "SCAN *"), "*1\r\n*0");
    assert_eq!(without(&mut sim, "SCAN * VALUES"), "*1\r\n*0");
    assert_eq!(without(&mut sim, "MGET k"), "*2\r\n:0\r\n*1\r\n$-1");
}

#[test]
fn a_malformed_timestamp_is_refused_on_every_command() {
    let mut sim = Simulation::new();
    for command in [
        "SET k v",
        "GET k",
        "DEL k",
        "VDEL k v",
        "KEYNOTIFY k",
        "KEYNOTIFY k STOP",
        "MGET k",
        "SCAN *",
    ] {
        let malformed = sim.request().timestamp(Some(Err(HlcError::Wall)));
        assert_eq!(malformed.run(command), "-ERR malformed timestamp");
        let malformed = sim.request().malformed_token();
        assert_eq!(malformed.run(command), "-ERR malformed timestamp");
    }
    let neither = sim.request().timestamp(None).malformed_token();
    assert_eq!(neither.run("SET k v"), "-ERR malformed timestamp");
}

#[test]
fn a_timestamp_more_than_a_minute_ahead_is_refused() {
    let mut sim = Simulation::new();
    let ahead = |ms| Some(Ok(hlc(WALL + ms, 7, "c")));
    let too_far = sim.request().timestamp(ahead(60_001));
    assert_eq!(too_far.run("SET k v"), SKEW);
    let reading = sim.request().timestamp(ahead(60_001));
    assert_eq!(reading.run("GET k"), "$-1");
    let deleting = sim.request().timestamp(ahead(60_001));
    assert_eq!(deleting.run("DEL k"), ":0");
    let most = sim.request().timestamp(ahead(60_000));
    assert_eq!(most.run("SET k v"), format!("+OK @{}+8", WALL + 60_000));
}

#[test]
fn a_fencing_token_more_than_a_minute_ahead_is_refused() {
    let mut sim = Simulation::new();
    for command in ["SET k v", "DEL k", "VDEL k v", "GET k"] {
        let too_far = sim.request().token(hlc(WALL + 60_001, 0, "l"));
        assert_eq!(too_far.run(command), TOKEN_SKEW, "{command}");
    }
    let most = sim.request().token(hlc(WALL + 60_000, 0, "l"));
    assert_eq!(most.run("SET k v"), ok(1));
}

#[test]
fn a_version_exceeds_the_request_the_former_version_and_the_clock() {
    let mut sim = Simulation::new();
    let at = |wall, counter| Some(Ok(hlc(wall, counter, "zzz")));
    let behind = sim.request().timestamp(at(WALL - 1, 9));
    assert_eq!(behind.run("SET k v"), ok(0));
    let behind = sim.request().timestamp(at(1, 0));
    assert_eq!(behind.run("SET k v"), ok(1));
    let equal = sim.request().timestamp(at(WALL, 5));
    assert_eq!(equal.run("SET k v"), ok(6));
    let ahead = sim.request().timestamp(at(WALL + 50, 3));
    assert_eq!(ahead.run("SET k v"), format!("+OK @{}+4", WALL + 50));
    assert_eq!(sim.run("SET k v"), format!("+OK @{}+5", WALL + 50));
    sim.pass(51);
    let behind = sim.request().timestamp(at(WALL, 0));
    assert_eq!(behind.run("SET k v"), format!("+OK @{}+0", WALL + 51));
}

#[test]
fn a_client_with_a_fast_clock_affects_only_its_own_keys() {
    let mut sim = Simulation::new();
    let ahead = sim
        .request()
        .timestamp(Some(Ok(hlc(WALL + 60_000, 0, "fast"))));
    ahead.run("SET its v");
    assert_eq!(sim.run("SET other v"), ok(1));
}

#[test]
fn versions_of_a_key_rise_through_deletion_even_if_the_clock_is_set_back() {
    let mut sim = Simulation::new();
    let ahead = sim
        .request()
        .timestamp(Some(Ok(hlc(WALL + 60_000, 0, "fast"))));
    let far = WALL + 60_000;
    assert_eq!(ahead.run("SET k v"), format!("+OK @{far}+1"));
    assert_eq!(sim.run("DEL k"), format!(":1 @{far}+2"));
    sim.now = ClockReading {
        wall_ms: WALL - 3_600_000,
        mono_ms: MONO,
    };
    assert_eq!(sim.run("SET k v"), format!("+OK @{far}+3"));
    assert_eq!(sim.run("VDEL k v"), format!(":1 @{far}+4"));
    sim.restart(crate::simulation::config());
    assert_eq!(sim.run("SET k v"), format!("+OK @{far}+5"));
}

#[test]
fn a_set_with_a_lower_fencing_token_is_rejected() {
    let mut sim = Simulation::new();
    let run = |sim: &mut Simulation, token: Option<u64>, command: &str| {
        let token = token.map(|wall| hlc(wall, 5, "lock"));
        sim.request().token(token).run(command)
    };
    assert_eq!(run(&mut sim, None, "SET k v"), ok(1));
    assert_eq!(run(&mut sim, Some(20), "SET k v"), ok(2));
    for command in ["SET k w", "SET k w NX", "DEL k", "VDEL k v", "VDEL k w"] {
        assert_eq!(run(&mut sim, None, command), TOKEN_REQUIRED, "{command}");
        assert_eq!(run(&mut sim, Some(19), command), TOKEN_LOWER, "{command}");
    }
    assert_eq!(
        run(&mut sim, None, "GET k"),
        format!("$1\r\nv @{WALL}+2"),
        "reading needs no token"
    );
    assert_eq!(run(&mut sim, Some(20), "SET k v"), ok(3));
    assert_eq!(run(&mut sim, Some(30), "SET k v"), ok(4));
    assert_eq!(run(&mut sim, Some(20), "SET k v"), TOKEN_LOWER);
    assert_eq!(run(&mut sim, Some(40), "VDEL k w"), ":-1");
    assert_eq!(
        run(&mut sim, Some(30), "DEL k"),
        format!(":1 @{WALL}+5"),
        "a token that did not apply was not stored"
    );
    assert_eq!(
        run(&mut sim, None, "SET k v"),
        ok(6),
        "the token went with the key"
    );
}

#[test]
fn tokens_are_ordered_by_wall_clock_counter_and_node() {
    let mut sim = Simulation::new();
    let mut run = |token, command| sim.request().token(token).run(command);
    assert_eq!(run(hlc(20, 5, "b"), "SET k v"), ok(1));
    for lower in [hlc(19, 9, "z"), hlc(20, 4, "z"), hlc(20, 5, "a")] {
        assert_eq!(run(lower, "SET k v"), TOKEN_LOWER);
    }
    assert_eq!(run(hlc(20, 5, "b"), "SET k v"), ok(2));
    assert_eq!(run(hlc(20, 5, "ba"), "SET k v"), ok(3));
    assert_eq!(run(hlc(20, 5, "b"), "SET k v"), TOKEN_LOWER);
    assert_eq!(run(hlc(20, 10, "a"), "SET k v"), ok(4));
}

#[test]
fn a_set_that_is_not_applied_keeps_the_token() {
    let mut sim = Simulation::new();
    let mut run = |token, command| sim.request().token(token).run(command);
    run(hlc(20, 0, "l"), "SET k v");
    assert_eq!(run(hlc(30, 0, "l"), "SET k w NX"), format!(":-1 @{WALL}+1"));
    assert_eq!(
        run(hlc(30, 0, "l"), "SET k w NEX"),
        format!(":-1 @{WALL}+1")
    );
    assert_eq!(run(hlc(20, 0, "l"), "SET k v"), ok(2));
}

#[test]
fn deleting_an_absent_key_ignores_the_token() {
    let mut sim = Simulation::new();
    assert_eq!(sim.request().token(hlc(1, 0, "l")).run("DEL k"), ":0");
    assert_eq!(sim.request().token(hlc(1, 0, "l")).run("VDEL k v"), ":0");
}

#[test]
fn a_lock_is_taken_renewed_fenced_and_handed_over() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run_as("a", "SET lock a NEX PX 1000"), ok(1));
    assert_eq!(
        sim.run_as("b", "SET lock b NEX PX 1000"),
        format!(":-1 @{WALL}+1")
    );
    let of_a = version(WALL, 1);
    let guarded = sim.request().client("a").token(of_a.clone());
    assert!(guarded.run("SET data 1").starts_with("+OK"));
    sim.pass(999);
    let renewed = sim.run_as("a", "SET lock a NEX PX 1000");
    assert_eq!(renewed, format!("+OK @{}+1", WALL + 999));
    sim.pass(1000);
    let taken = sim.run_as("b", "SET lock b NEX PX 1000");
    assert_eq!(taken, format!("+OK @{}+1", WALL + 1999));
    let guarded = sim.request().client("b").token(version(WALL + 1999, 1));
    assert!(guarded.run("SET data 2").starts_with("+OK"));
    let late = sim.request().client("a").token(of_a);
    assert_eq!(late.run("SET data 3"), TOKEN_LOWER);
    assert_eq!(sim.run_as("a", "VDEL lock a"), ":-1");
    assert!(sim.run_as("b", "VDEL lock b").starts_with(":1 "));
}
