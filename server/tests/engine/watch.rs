//! KEYNOTIFY and notifications.
use crate::simulation::{Simulation, WALL, config, hlc};
use statestored_store::service::ServiceConfig;

#[test]
fn every_watcher_including_the_writer_is_notified() {
    let mut sim = Simulation::new();
    for client in ["b", "a", "c"] {
        assert_eq!(sim.run_as(client, "KEYNOTIFY k"), "+OK");
    }
    assert_eq!(sim.run_as("a", "KEYNOTIFY k"), "+OK");
    assert!(sim.notified().is_empty());
    sim.run_as("c", "SET k v");
    let expected = ["a", "b", "c"].map(|client| format!("{client} k SET v @{WALL}+1"));
    assert_eq!(sim.notified(), expected);
    sim.run_as("c", "DEL k");
    let expected = ["a", "b", "c"].map(|client| format!("{client} k DELETE @{WALL}+2"));
    assert_eq!(sim.notified(), expected);
    sim.run("SET k v");
    sim.notified();
    sim.run("VDEL k v");
    let expected = ["a", "b", "c"].map(|client| format!("{client} k DELETE @{WALL}+4"));
    assert_eq!(sim.notified(), expected);
}

#[test]
fn unchanged_keys_are_not_notified() {
    let mut sim = Simulation::new();
    sim.run("KEYNOTIFY k");
    sim.run("KEYNOTIFY fenced");
    sim.run("SET k v");
    sim.request().token(hlc(9, 0, "l")).run("SET fenced v");
    sim.notified();
    for command in [
        "SET k w NX",
        "SET k w NEX",
        "VDEL k w",
        "GET k",
        "DEL absent",
        "SET fenced w",
        "DEL fenced",
        "SET k",
        "SET other v",
    ] {
        sim.run(command);
        assert!(sim.notified().is_empty(), "{command}");
    }
    sim.run("SET k v NEX");
    assert_eq!(
        sim.notified().len(),
        1,
        "the same value again is a new version"
    );
}

#[test]
fn unwatch_ends_one_watch_of_one_client() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run_as("a", "KEYNOTIFY k STOP"), ":0");
    sim.run_as("a", "KEYNOTIFY k");
    sim.run_as("a", "KEYNOTIFY l");
    sim.run_as("b", "KEYNOTIFY k");
    assert_eq!(sim.run_as("a", "KEYNOTIFY k STOP"), "+OK");
    assert_eq!(sim.run_as("a", "KEYNOTIFY k STOP"), ":0");
    sim.run("SET k v");
    sim.run("SET l v");
    assert_eq!(
        sim.notified(),
        [
            format!("b k SET v @{WALL}+1"),
            format!("a l SET v @{WALL}+1")
        ]
    );
}

#[test]
fn watches_end_with_the_connection() {
    let mut sim = Simulation::new();
    sim.run_as("a", "KEYNOTIFY k");
    sim.run_as("a", "KEYNOTIFY l");
    sim.run_as("b", "KEYNOTIFY k");
    sim.service.end_watches("a");
    sim.service.end_watches("nobody");
    sim.run("SET k v");
    sim.run("SET l v");
    assert_eq!(sim.notified(), [format!("b k SET v @{WALL}+1")]);
    assert_eq!(sim.run_as("a", "KEYNOTIFY k STOP"), ":0");
    sim.run_as("a", "KEYNOTIFY l");
    sim.run("SET l v");
    assert_eq!(sim.notified(), [format!("a l SET v @{WALL}+2")]);
}

#[test]
fn a_client_has_a_limit_of_watches() {
    let mut sim = Simulation::with(ServiceConfig {
        max_watches_per_client: 2,
        ..config()
    });
    assert_eq!(sim.run_as("a", "KEYNOTIFY k"), "+OK");
    assert_eq!(sim.run_as("a", "KEYNOTIFY l"), "+OK");
    assert_eq!(
        sim.run_as("a", "KEYNOTIFY m"),
        "-ERR the client watches too many keys"
    );
    assert_eq!(
        sim.run_as("a", "KEYNOTIFY k"),
        "+OK",
        "it is watched already"
    );
    assert_eq!(
        sim.run_as("b", "KEYNOTIFY m"),
        "+OK",
        "others are not affected"
    );
    sim.run_as("a", "KEYNOTIFY l STOP");
    assert_eq!(sim.run_as("a", "KEYNOTIFY m"), "+OK");
}

#[test]
fn a_client_has_a_limit_of_bytes_that_it_watches() {
    let mut sim = Simulation::with(ServiceConfig {
        max_watched_bytes_per_client: 10,
        ..config()
    });
    assert_eq!(sim.run_as("a", "KEYNOTIFY 1234"), "+OK");
    assert_eq!(sim.run_as("a", "KEYNOTIFY 123456"), "+OK");
    let refused = "-ERR the client watches too many keys";
    assert_eq!(sim.run_as("a", "KEYNOTIFY 1"), refused);
    assert_eq!(sim.run_as("b", "KEYNOTIFY 1"), "+OK");
    assert_eq!(sim.run_as("a", "KEYNOTIFY 1234 STOP"), "+OK");
    assert_eq!(sim.run_as("a", "KEYNOTIFY 1"), "+OK");
    assert!(sim.service.bytes_of("a") > sim.service.bytes_of("b"));
    sim.service.end_watches("a");
    sim.service.end_watches("b");
    assert_eq!(sim.service.client_bytes(), 0);
}
