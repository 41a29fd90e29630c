//! Expiry, exact to the millisecond of the monotonic clock.
use crate::simulation::{MONO, Simulation, WALL};
use statestored_common::ClockReading;

#[test]
fn an_entry_expires_exactly_at_its_deadline() {
    let mut sim = Simulation::new();
    assert!(sim.run("SET k v PX 100").starts_with("+OK"));
    assert_eq!(sim.service.next_ms(), Some(MONO + 100));
    sim.pass(99);
    assert!(sim.run("GET k").starts_with("$1"));
    assert!(sim.run("SET k w NX").starts_with(":-1"));
    sim.pass(1);
    assert_eq!(sim.run("GET k"), "$-1");
    assert_eq!(sim.service.next_ms(), None);
}

#[test]
fn every_command_treats_an_expired_key_as_absent() {
    for (command, answer) in [
        ("GET k", "$-1"),
        ("DEL k", ":0"),
        ("VDEL k v", ":0"),
        ("SET k w NX", "+OK"),
        ("SET k w NEX", "+OK"),
        ("SET k w", "+OK"),
        ("SCAN *", "*1\r\n*0"),
    ] {
        let mut sim = Simulation::new();
        sim.request()
            .token(crate::simulation::hlc(9, 0, "l"))
            .run("SET k v PX 100");
        sim.pass(100);
        let got = sim.run(command);
        assert!(got.starts_with(answer), "{command}: {got}");
        assert!(sim.notified().is_empty());
    }
}

#[test]
fn a_wall_clock_jump_does_not_change_a_lease() {
    for wall_ms in [1, WALL + 86_400_000] {
        let mut sim = Simulation::new();
        sim.run("SET k v PX 100");
        sim.now = ClockReading {
            wall_ms,
            mono_ms: MONO + 99,
        };
        sim.expire();
        assert!(sim.run("GET k").starts_with("$1"));
        sim.now.mono_ms += 1;
        assert_eq!(sim.run("GET k"), "$-1");
    }
}

#[test]
fn expiry_is_notified_with_a_higher_version() {
    let mut sim = Simulation::new();
    sim.run_as("w", "KEYNOTIFY k");
    sim.run("SET k v PX 100");
    assert_eq!(sim.notified(), [format!("w k SET v @{WALL}+1")]);
    sim.expire();
    assert!(sim.notified().is_empty());
    sim.now.mono_ms += 100;
    sim.expire();
    assert_eq!(sim.notified(), [format!("w k DELETE @{WALL}+2")]);
    assert!(sim.stored.is_empty());
    assert_eq!(sim.run("SET k v"), format!("+OK @{WALL}+3"));
}

#[test]
fn a_set_at_the_deadline_is_notified_after_the_expiry() {
    let mut sim = Simulation::new();
    sim.run_as("w", "KEYNOTIFY k");
    sim.run("SET k v PX 100");
    sim.notified();
    sim.now.mono_ms += 100;
    assert_eq!(sim.run("SET k x"), format!("+OK @{WALL}+3"));
    assert_eq!(
        sim.notified(),
        [
            format!("w k DELETE @{WALL}+2"),
            format!("w k SET x @{WALL}+3")
        ]
    );
    assert_eq!(sim.stored.len(), 1);
}

#[test]
fn a_set_without_px_clears_the_expiry_and_one_that_is_not_applied_does_not() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 100");
    sim.run("SET k w NX");
    assert_eq!(sim.service.next_ms(), Some(MONO + 100));
    sim.run("SET k w");
    assert_eq!(sim.service.next_ms(), None);
    sim.pass(1_000_000);
    assert!(sim.run("GET k").starts_with("$1\r\nw"));
}

#[test]
fn a_renewal_counts_from_its_own_time() {
    let mut sim = Simulation::new();
    sim.run("SET k v NEX PX 100");
    sim.pass(60);
    sim.run("SET k v NEX PX 100");
    sim.pass(99);
    assert!(sim.run("GET k").starts_with("$1"));
    sim.pass(1);
    assert_eq!(sim.run("GET k"), "$-1");
    sim.run("SET k v PX 100");
    sim.run("SET k v PX 10");
    assert_eq!(sim.service.next_ms(), Some(sim.now.mono_ms + 10));
}

#[test]
fn an_expiry_beyond_the_clock_range_never_happens() {
    let mut sim = Simulation::new();
    let ok = sim.run(&format!("SET k v PX {}", u64::MAX));
    assert!(ok.starts_with("+OK"));
    assert_eq!(sim.service.next_ms(), Some(u64::MAX));
    sim.now.mono_ms = u64::MAX - 1;
    assert!(sim.run("GET k").starts_with("$1"));
    let too_much = sim.run("SET k v PX 18446744073709551616");
    assert!(too_much.starts_with("-ERR"), "{too_much}");
}

#[test]
fn a_hundred_thousand_simultaneous_expiries_are_processed_in_slices() {
    let keys = 100_000;
    let mut sim = Simulation::new();
    for key in 0..keys {
        sim.run(&format!("SET {key} v PX 100"));
    }
    sim.pass(100);
    let before = sim.service.size().keys;
    sim.expire();
    let slice = before - sim.service.size().keys;
    assert!((1..=1_000).contains(&slice), "{slice}");
    assert_eq!(sim.run("GET 99999"), "$-1");
    assert_eq!(sim.run("GET 50000"), "$-1");
    assert_eq!(
        sim.service.next_ms(),
        Some(MONO + 100),
        "more is to be done at once"
    );
    while sim.service.next_ms().is_some() {
        sim.expire();
    }
    assert!(sim.service.size().keys == 0 && sim.stored.is_empty());
}

#[test]
fn requests_alone_keep_up_with_expiry() {
    let mut sim = Simulation::new();
    for key in 0..1_000 {
        sim.run(&format!("SET old-{key} v PX 100"));
    }
    sim.pass(100);
    for key in 0..500 {
        sim.run(&format!("SET new-{key} v"));
    }
    assert_eq!(sim.service.size().keys, 500);
}
