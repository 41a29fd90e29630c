//! lock, elect, lease.
use crate::harness::{
    Running, SilentBroker, Store, interrupt, resume, statestore, stop, terminate,
};
use serde_json::json;
use std::process::Child;

/// Says that it runs, and ends with this code when it gets SIGTERM.
const UNTIL_TERM: &str =
    "trap 'echo term; exit 5' TERM; echo started; while :; do sleep 0.02; done";
/// Says that it runs, and does not care for SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo started; while :; do sleep 0.02; done";

#[test]
fn a_command_runs_under_the_lock_with_its_token() {
    let store = Store::start();
    let script = "echo \"$STATESTORE_FENCING_TOKEN\"; exit 7";
    let run = store.run(["lock", "nightly", "--", "sh", "-c", script]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(7), ""));
    let token = String::from_utf8(run.stdout).unwrap();
    store.ok(["set", "state", "new", "--fence", token.trim_end()]);
    store
        .run(["lease", "holder", "nightly"])
        .assert_error(1, "not held");
    let next = store.ok([
        "lock",
        "nightly",
        "--",
        "printenv",
        "STATESTORE_FENCING_TOKEN",
    ]);
    assert!(next > token);
}

#[test]
fn a_command_does_not_run_while_another_client_holds_the_lock() {
    let store = Store::start();
    store.ok([
        "lease", "acquire", "nightly", "--holder", "node-7", "--lease", "1h",
    ]);
    let run = store.run(["lock", "nightly", "--wait", "50ms", "--", "echo", "ran"]);
    run.assert_error(1, "node-7");
    store.ok(["set", "data", "--", "a\nb"]);
    let run = store.run(["lock", "data", "--", "echo", "ran"]);
    run.assert_error(4, "not the name of a holder");
    assert_eq!(store.ok(["get", "data"]), "a\nb");
    let run = store.run(["lock", "nightly", "--wait", "0", "--", "echo", "ran"]);
    run.assert_error(1, "node-7");
    store.ok([
        "set",
        "fenced",
        "pump",
        "--fence",
        "000000000000001:00000:token",
    ]);
    let run = store.run(["lock", "fenced", "--", "echo", "ran"]);
    run.assert_error(4, "protected by a fencing token");
    let run = store.run(["lock", "nightly", "--lease", "99ms", "--", "echo", "ran"]);
    run.assert_error(2, "too short");
}

#[test]
fn a_command_that_cannot_run_leaves_the_lock_free() {
    let store = Store::start();
    let run = store.run(["lock", "nightly", "--", "/nonexistent/program"]);
    run.assert_error(127, "cannot run '/nonexistent/program'");
    store
        .run(["lease", "holder", "nightly"])
        .assert_error(1, "not held");
}

#[test]
fn a_command_gets_sigterm_when_the_lock_is_lost() {
    let store = Store::start();
    let arguments = [
        "lock", "nightly", "--lease", "500ms", "--", "sh", "-c", UNTIL_TERM,
    ];
    let mut running = Running::start(&store, &arguments);
    assert_eq!(running.line(), "started");
    store.stop();
    assert_eq!(running.line(), "term");
    let run = running.end();
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("the lock is lost"), "{run:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_ends_if_the_lock_holding_process_is_stopped() {
    let store = Store::start();
    let arguments = [
        "lock", "nightly", "--lease", "1s", "--", "sh", "-c", UNTIL_TERM,
    ];
    let mut running = Running::start(&store, &arguments);
    assert_eq!(running.line(), "started");
    // For several leases it is kept.
    store
        .run(["lock", "nightly", "--wait", "2s", "--", "true"])
        .assert_error(1, "holds it");
    stop(&running.child);
    assert_eq!(running.line(), "term");
    resume(&running.child);
    let run = running.end();
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.stderr.contains("still has the lock"), "{run:?}");
}

#[test]
fn a_lost_lock_turns_success_into_exit_code_3() {
    let store = Store::start();
    for (end, code, words) in [("0", 3, "the lock is lost"), ("7", 7, "")] {
        // The command ends with its input, which this test holds.
        let script = format!("echo started; cat; exit {end}");
        let arguments = [
            "lock", "nightly", "--lease", "1h", "--", "sh", "-c", &script,
        ];
        let mut running = Running::start(&store, &arguments);
        assert_eq!(running.line(), "started");
        store.ok(["del", "nightly"]);
        drop(running.child.stdin.take());
        let run = running.end();
        assert_eq!(run.code, Some(code), "{run:?}");
        assert!(run.stderr.contains(words), "{run:?}");
    }
}

#[test]
fn a_leader_that_lost_its_lead_is_exit_code_3() {
    let store = Store::start();
    let mut leader = Running::start(&store, &["elect", "gateway", "--lease", "1h"]);
    assert!(leader.line().starts_with("ELECTED\t"));
    store.ok(["del", "gateway"]);
    terminate(&leader.child);
    leader.end().assert_error(3, "the lead was lost");
}

#[test]
fn a_command_that_does_not_end_in_time_is_killed() {
    let store = Store::start();
    let arguments = [
        "lock", "nightly", "--lease", "500ms", "--grace", "50ms", "--", "sh", "-c", STUBBORN,
    ];
    let mut running = Running::start(&store, &arguments);
    assert_eq!(running.line(), "started");
    store.stop();
    let run = running.end();
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("killing them"), "{run:?}");
}

#[test]
fn a_waiting_command_runs_after_the_holder_was_killed() {
    let store = Store::start();
    // The command ends with its input, which this test holds.
    let held = [
        "lock",
        "nightly",
        "--lease",
        "500ms",
        "--",
        "sh",
        "-c",
        "echo started; cat",
    ];
    let mut holder = Running::start(&store, &held);
    assert_eq!(holder.line(), "started");
    let mut waiter = Running::start(&store, &["lock", "nightly", "--", "echo", "ran"]);
    holder.child.kill().unwrap();
    assert_eq!(waiter.line(), "ran");
    assert_eq!(waiter.end().code, Some(0));
}

#[test]
fn a_command_ended_by_a_signal_has_the_exit_code_of_shells() {
    let store = Store::start();
    let run = store.run(["lock", "nightly", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(run.code, Some(128 + 9));
    let run = store.run(["lock", "nightly", "--", "/dev/null"]);
    run.assert_error(126, "cannot run '/dev/null'");
}

#[test]
fn a_command_has_the_input_and_output_of_this_program() {
    let store = Store::start();
    let run = store.run_with_input(["lock", "nightly", "--", "cat"], b"in\0out");
    assert_eq!((run.code, &run.stdout[..]), (Some(0), &b"in\0out"[..]));
}

#[test]
fn a_waiting_command_ends_at_a_signal() {
    for verb in [
        &["lock", "nightly", "--", "echo", "ran"][..],
        &["elect", "nightly"],
    ] {
        for (signal, code) in [(terminate as fn(&Child), 143), (interrupt, 130)] {
            let broker = SilentBroker::start();
            let arguments = [&["--url", &broker.url], verb].concat();
            let waiter = Running::spawn(statestore(arguments));
            broker.await_request();
            signal(&waiter.child);
            let run = waiter.end();
            assert_eq!((run.code, &run.stdout[..]), (Some(code), &b""[..]));
        }
    }
}

#[test]
fn a_disconnected_leader_ends() {
    let store = Store::start();
    let mut leader = Running::start(&store, &["elect", "gateway", "--lease", "500ms"]);
    assert!(leader.line().starts_with("ELECTED\t"));
    store.stop();
    leader.end().assert_error(3, "the lead is lost");
}

#[test]
fn sigterm_is_forwarded_and_the_lock_released() {
    let store = Store::start();
    let mut running = Running::start(&store, &["lock", "nightly", "--", "sh", "-c", UNTIL_TERM]);
    assert_eq!(running.line(), "started");
    terminate(&running.child);
    assert_eq!(running.end().code, Some(5));
    store
        .run(["lease", "holder", "nightly"])
        .assert_error(1, "not held");
}

#[test]
fn a_lease_goes_through_its_steps() {
    let store = Store::start();
    let named = |step| ["lease", step, "nightly", "--holder", "node-7"];
    let token = store.ok(named("acquire"));
    assert_eq!(store.ok(["lease", "holder", "nightly"]), "node-7\n");
    let other = store.run(["lease", "acquire", "nightly", "--holder", "node-8"]);
    other.assert_error(1, "'node-7' holds the lease");
    let other = store.run(["lease", "renew", "nightly", "--holder", "node-8"]);
    other.assert_error(1, "'node-7' holds the lease");
    let other = store.run(["lease", "release", "nightly", "--holder", "node-8"]);
    other.assert_error(1, "not held");
    assert!(store.ok(named("renew")) > token);
    assert_eq!(store.ok(named("release")), "");
    store.run(named("release")).assert_error(1, "not held");
    store.run(named("renew")).assert_error(1, "not held");

    let acquired = store
        .run([&named("acquire")[..], &["--json"]].concat())
        .json();
    let version = acquired["version"].as_str().unwrap().to_owned();
    let expected =
        json!({"result": "acquired", "key": "nightly", "holder": "node-7", "version": version});
    assert_eq!(acquired, expected);
    let held = store.run(["lease", "holder", "nightly", "--json"]).json();
    let expected =
        json!({"result": "held", "key": "nightly", "holder": "node-7", "version": version});
    assert_eq!(held, expected);
}

#[test]
fn a_leader_is_reported_until_it_resigns() {
    let store = Store::start();
    let mut watch = Running::start(&store, &["elect", "gateway", "--watch"]);
    assert_eq!(watch.line(), "NONE");
    let mut leader = Running::start(&store, &["elect", "gateway", "--value", "10.0.0.7"]);
    let elected = leader.line();
    let token = elected.strip_prefix("ELECTED\tgateway\t").unwrap();
    store.ok(["set", "state", "new", "--fence", token]);
    let seen = loop {
        let line = watch.line();
        // Before the value is proclaimed, the leader is seen without it.
        if !line.ends_with('\t') {
            break line;
        }
    };
    assert!(
        seen.starts_with("LEADER\tstatestore-") && seen.ends_with("\t10.0.0.7"),
        "{seen}"
    );
    let second = store.run(["elect", "gateway", "--wait", "50ms"]);
    second.assert_error(1, "holds it");
    terminate(&leader.child);
    assert_eq!(leader.end().code, Some(0));
    while watch.line() != "NONE" {}
    interrupt(&watch.child);
    assert_eq!(watch.end().code, Some(0));
}
