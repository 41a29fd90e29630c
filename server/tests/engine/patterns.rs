//! KEYNOTIFY of patterns, and their notifications.
use crate::simulation::{Simulation, WALL, config};
use statestored_store::keyspace::Quota;
use statestored_store::service::ServiceConfig;

#[test]
fn each_client_is_notified_once_of_a_key_that_matches() {
    let mut sim = Simulation::new();
    for pattern in ["line*", "*1", "line?"] {
        let watch = format!("KEYNOTIFY {pattern} MATCH");
        assert_eq!(sim.run_as("a", &watch), "+OK");
        assert_eq!(sim.run_as("a", &watch), "+OK");
    }
    assert_eq!(sim.run_as("a", "KEYNOTIFY line1"), "+OK");
    assert_eq!(sim.run_as("b", "KEYNOTIFY line1"), "+OK");
    assert_eq!(sim.run_as("c", "KEYNOTIFY * MATCH"), "+OK");
    assert!(sim.notified().is_empty());
    sim.run_as("b", "SET line1 v");
    let expected = ["a", "b", "c"].map(|client| format!("{client} line1 SET v @{WALL}+1"));
    assert_eq!(sim.notified(), expected);
    sim.run_as("b", "SET line2 v");
    let expected = ["a", "c"].map(|client| format!("{client} line2 SET v @{WALL}+1"));
    assert_eq!(sim.notified(), expected);
    sim.run_as("b", "DEL line1");
    let expected = ["a", "b", "c"].map(|client| format!("{client} line1 DELETE @{WALL}+2"));
    assert_eq!(sim.notified(), expected);
    sim.run_as("b", "SET other v");
    assert_eq!(sim.notified(), [format!("c other SET v @{WALL}+3")]);
}

#[test]
fn every_kind_of_change_is_notified() {
    let mut sim = Simulation::new();
    sim.run("KEYNOTIFY k* MATCH");
    sim.run("SET k1 v PX 10");
    sim.run("SET k2 v NX");
    sim.run("SET k2 v NX");
    sim.run("VDEL k2 v");
    sim.run("TXN 3 SET k3 1 2 DEL k3 3 SET other 1");
    let kinds = |lines: Vec<String>| {
        let kind = |line: &String| line.split(" @").next().map(str::to_owned);
        lines.iter().filter_map(kind).collect::<Vec<_>>()
    };
    let expected = [
        "c k1 SET v",
        "c k2 SET v",
        "c k2 DELETE",
        "c k3 SET 1",
        "c k3 DELETE",
    ];
    assert_eq!(kinds(sim.notified()), expected);
    sim.pass(10);
    sim.expire();
    assert_eq!(kinds(sim.notified()), ["c k1 DELETE"]);
}

#[test]
fn a_watch_of_a_pattern_ends_by_stop_or_with_the_connection() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run_as("a", "KEYNOTIFY k* MATCH STOP"), ":0");
    sim.run_as("a", "KEYNOTIFY k* MATCH");
    assert_eq!(
        sim.run_as("a", "KEYNOTIFY k* STOP"),
        ":0",
        "the key k* is not watched"
    );
    for client in ["b", "c"] {
        sim.run_as(client, "KEYNOTIFY k* MATCH");
    }
    assert_eq!(sim.service.watch_count(), 3);
    assert_eq!(sim.run_as("a", "KEYNOTIFY k* MATCH STOP"), "+OK");
    assert_eq!(sim.run_as("a", "KEYNOTIFY k* MATCH STOP"), ":0");
    sim.service.end_watches("b");
    assert!(!sim.service.is_watching_any("b") && sim.service.is_watching_any("c"));
    sim.run("SET k v");
    assert_eq!(sim.notified(), [format!("c k SET v @{WALL}+1")]);
    sim.service.end_watches("c");
    assert_eq!(sim.service.watch_count(), 0);
}

#[test]
fn patterns_are_checked_like_those_of_a_scan() {
    let mut sim = Simulation::new();
    for (command, error) in [
        ("KEYNOTIFY  MATCH", "the key length is zero"),
        ("KEYNOTIFY  MATCH STOP", "the key length is zero"),
        ("KEYNOTIFY k* match", "syntax error"),
        ("KEYNOTIFY k* MATCH GO", "syntax error"),
        ("KEYNOTIFY k* STOP MATCH", "wrong number of arguments"),
    ] {
        assert_eq!(sim.run(command), format!("-ERR {error}"), "{command}");
    }
    let long = "k".repeat(16_385);
    for command in [
        format!("KEYNOTIFY {long} MATCH"),
        format!("KEYNOTIFY {long} MATCH STOP"),
    ] {
        let refused = "-ERR the pattern is longer than 16384 bytes";
        assert_eq!(sim.run(&command), refused);
    }
    assert_eq!(sim.service.watch_count(), 0);
}

#[test]
fn patterns_count_as_watches() {
    let mut sim = Simulation::with(ServiceConfig {
        max_watches: 2,
        ..config()
    });
    sim.run("KEYNOTIFY k");
    assert_eq!(sim.run("KEYNOTIFY k* MATCH"), "+OK");
    let refused = "-ERR the quota has been exceeded";
    assert_eq!(sim.run("KEYNOTIFY l* MATCH"), refused);
    assert_eq!(sim.service.take_exceeded_quota(), Some(Quota::Watches));
    sim.run("KEYNOTIFY k STOP");
    assert_eq!(sim.run("KEYNOTIFY l* MATCH"), "+OK");
    assert!(sim.service.bytes_of("c") > 0);
}

#[test]
fn a_user_watches_few_patterns_that_begin_with_a_wildcard() {
    let mut sim = Simulation::new();
    for number in 0..32 {
        let watch = format!("KEYNOTIFY *{number} MATCH");
        assert_eq!(sim.request().user("ann").run(&watch), "+OK");
    }
    let refused = "-ERR the quota has been exceeded";
    let watch = "KEYNOTIFY * MATCH";
    assert_eq!(sim.request().user("ann").run(watch), refused);
    assert_eq!(sim.service.take_exceeded_quota(), Some(Quota::UserPatterns));
    assert_eq!(sim.run_as("other", watch), "+OK");
    let watch = "KEYNOTIFY k* MATCH";
    assert_eq!(sim.request().user("ann").run(watch), "+OK");
}

#[test]
fn comparisons_with_patterns_count_as_work() {
    let mut sim = Simulation::new();
    sim.run("SET line v");
    let usual = std::mem::take(&mut sim.work);
    for number in 0..1_000 {
        let client = format!("client-{number}");
        sim.run_as(&client, &format!("KEYNOTIFY other{number}/* MATCH"));
    }
    sim.work = 0;
    sim.run("SET line v");
    assert!(sim.work < usual + 100, "{} steps", sim.work);
    for number in 0..1_000 {
        let client = format!("client-{number}");
        sim.run_as(&client, &format!("KEYNOTIFY lin*{} MATCH", number % 30));
    }
    sim.work = 0;
    sim.run("SET line v");
    assert!(sim.work > usual + 30, "{} steps", sim.work);
}

#[test]
fn a_gap_is_notified_for_each_pattern() {
    let mut sim = Simulation::new();
    sim.run_as("a", "KEYNOTIFY k* MATCH");
    sim.run_as("a", "KEYNOTIFY l* MATCH");
    sim.run_as("a", "KEYNOTIFY k");
    sim.run_as("b", "KEYNOTIFY k* MATCH");
    sim.service.resync(&"a".into());
    sim.run("GET k");
    assert_eq!(sim.notified(), ["a k* RESYNC @0+0", "a l* RESYNC @0+0"]);
}
