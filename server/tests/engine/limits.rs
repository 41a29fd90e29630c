//! Quota and lengths.
use crate::simulation::{Simulation, config, page, payload, text};
use statestored_store::service::ServiceConfig;

fn with_max_keys(max_keys: u64) -> Simulation {
    Simulation::with(ServiceConfig {
        max_keys,
        ..config()
    })
}

#[test]
fn a_full_store_refuses_new_keys_only() {
    let mut sim = with_max_keys(2);
    sim.run("SET a 1");
    sim.run("SET b 1");
    for command in ["SET c 1", "SET c 1 NX", "SET c 1 NEX"] {
        assert_eq!(sim.run(command), "-ERR the quota has been exceeded");
    }
    assert_eq!(sim.run("GET c"), "$-1");
    assert!(sim.run("SET a 2").starts_with("+OK"));
    assert!(sim.run("SET a 2 NEX").starts_with("+OK"));
    assert!(
        sim.run("SET a 3 NX").starts_with(":-1"),
        "a condition comes first"
    );
    sim.run("DEL b");
    assert!(sim.run("SET c 1").starts_with("+OK"));
}

#[test]
fn an_expired_key_frees_its_quota_immediately() {
    let mut sim = with_max_keys(1);
    sim.run("SET a 1 PX 10");
    sim.pass(10);
    assert!(sim.run("SET b 1").starts_with("+OK"));
}

#[test]
fn a_quota_below_the_current_size_deletes_nothing() {
    let mut sim = with_max_keys(3);
    for key in ["a", "b", "c"] {
        sim.run(&format!("SET {key} 1"));
    }
    sim.restart(ServiceConfig {
        max_keys: 2,
        ..config()
    });
    assert_eq!(sim.service.size().keys, 3);
    assert!(sim.run("SET a 2").starts_with("+OK"));
    sim.run("DEL b");
    assert_eq!(sim.run("SET b 1"), "-ERR the quota has been exceeded");
}

#[test]
fn keys_have_a_maximum_length() {
    let mut sim = Simulation::new();
    let longest = vec![b'k'; 16_384];
    let too_long = vec![b'k'; 16_385];
    let huge = vec![b'k'; 1 << 20];
    let mut run = |words: &[&[u8]]| text(&sim.request().send(&payload(words.iter().copied())));
    assert!(run(&[b"SET", &longest, b"v"]).starts_with("+OK"));
    assert!(run(&[b"GET", &longest]).starts_with("$1"));
    for key in [&too_long[..], &huge[..]] {
        for words in [
            &[b"SET", key, b"v"][..],
            &[b"GET", key],
            &[b"DEL", key],
            &[b"VDEL", key, b"v"],
            &[b"KEYNOTIFY", key],
            &[b"KEYNOTIFY", key, b"STOP"],
        ] {
            assert_eq!(run(words), "-ERR the key is longer than 16384 bytes");
        }
        let scan = run(&[b"SCAN", key]);
        assert_eq!(scan, "-ERR the pattern is longer than 16384 bytes");
    }
}

#[test]
fn a_value_may_be_large() {
    let mut sim = Simulation::new();
    let value = vec![b'v'; 1 << 20];
    let set = payload([&b"SET"[..], b"k", &value]);
    assert!(text(&sim.request().send(&set)).starts_with("+OK"));
    let got = sim.request().send(&payload([&b"GET"[..], b"k"]));
    assert_eq!(
        got.reply,
        statestore_protocol::Reply::Value(value.into()),
        "every byte comes back"
    );
}

#[test]
fn a_key_with_line_ends_is_a_key() {
    let mut sim = Simulation::new();
    let set = payload([&b"SET"[..], b"*1\r\n", b"v"]);
    assert!(text(&sim.request().send(&set)).starts_with("+OK"));
    let (keys, _) = page(sim.request().send(&payload([&b"SCAN"[..], b"*"])));
    assert_eq!(keys, [&b"*1\r\n"[..]]);
}

#[test]
fn entries_are_limited_in_bytes() {
    const MOST: u64 = 1_000_000;
    let mut sim = Simulation::with(ServiceConfig {
        max_bytes: MOST,
        ..config()
    });
    let refused = "-ERR the quota has been exceeded";
    let kilobyte = "v".repeat(1_000);
    let mut keys = 0;
    while sim
        .run(&format!("SET {keys} {kilobyte}"))
        .starts_with("+OK")
    {
        keys += 1;
        assert!(sim.service.size().bytes <= MOST);
    }
    assert!((900..1_000).contains(&keys), "{keys}");
    assert_eq!(sim.run(&format!("SET 0 {kilobyte}{kilobyte}")), refused);
    assert!(
        sim.run(&format!("SET 0 {} NEX", "w".repeat(1_000)))
            .starts_with(":-1")
    );
    assert!(
        sim.run(&format!("SET 0 {}", "w".repeat(1_000)))
            .starts_with("+OK"),
        "it is no larger"
    );
    assert!(sim.run("SET 0 less").starts_with("+OK"));
    assert!(
        sim.run(&format!("SET 1 v{kilobyte}")).starts_with("+OK"),
        "there is room again"
    );
    for key in 0..keys {
        assert!(sim.run(&format!("DEL {key}")).starts_with(":1"));
    }
    assert_eq!(sim.service.size().bytes, 0);
    sim.run("SET expires v PX 10");
    assert!(sim.service.size().bytes > 0);
    sim.pass(10);
    sim.expire();
    assert_eq!(sim.service.size().bytes, 0);
}

#[test]
fn an_entry_larger_than_the_quota_is_refused() {
    let mut sim = Simulation::with(ServiceConfig {
        max_bytes: 10_000,
        ..config()
    });
    let refused = "-ERR the quota has been exceeded";
    assert_eq!(sim.run(&format!("SET k {}", "v".repeat(10_000))), refused);
    assert_eq!(sim.run(&format!("SET {} v", "k".repeat(10_000))), refused);
    assert!(sim.run("SET k v").starts_with("+OK"));
}

#[test]
fn a_read_only_store_answers_everything_but_changes() {
    let mut sim = Simulation::new();
    sim.run("SET a 1");
    sim.run("SET lease 1 PX 10");
    let before = sim.stored.clone();
    sim.service.set_read_only(true);
    for command in [
        "SET a 2",
        "SET b 1",
        "SET a 1 NEX",
        "DEL a",
        "DEL b",
        "VDEL a 1",
    ] {
        let reply = sim.run(command);
        assert!(
            reply.starts_with("-ERR the store is read-only") && reply.contains("free space"),
            "{command}: {reply}"
        );
    }
    assert_eq!(sim.stored, before);
    assert!(sim.run("GET a").starts_with("$1\r\n1 "));
    assert_eq!(sim.run("KEYNOTIFY lease"), "+OK");
    assert_eq!(sim.run("KEYNOTIFY lease STOP"), "+OK");
    assert!(sim.run("SCAN a").starts_with("*1"));
    assert_eq!(sim.run("SET a"), "-ERR wrong number of arguments");
    sim.pass(10);
    sim.expire();
    assert_eq!(sim.run("GET lease"), "$-1");
    assert_eq!(sim.stored.len(), 1);
    sim.service.set_read_only(false);
    assert!(sim.run("SET a 2").starts_with("+OK"));
}
