//! A wall clock that jumps while the store runs: what the storage has of leases holds for the next start.
use crate::simulation::{Simulation, WALL, config, hlc};
use statestored_access::policy::{KeyPatterns, KeyType};
use statestored_store::service::{ClockReading, Retention, ServiceConfig};

const DAY_MS: u64 = 86_400_000;

/// Everything happens that is due.
fn settle(sim: &mut Simulation) {
    sim.expire();
    while let Some(at_ms) = sim.service.next_ms()
        && at_ms <= sim.now.mono_ms
    {
        sim.expire();
    }
}

/// Another process begins, whose clock that never jumps begins anew.
fn restart(sim: &mut Simulation, config: ServiceConfig) {
    sim.now.mono_ms = 17;
    sim.restart(config);
}

#[test]
fn a_lease_survives_a_restart_after_a_clock_jump() {
    let mut sim = Simulation::new();
    let token = hlc(20, 3, "holder");
    sim.run_as("watcher", "KEYNOTIFY lease");
    let set = sim
        .request()
        .token(token.clone())
        .run("SET lease holder PX 60000");
    let version = set.strip_prefix("+OK ").unwrap().to_owned();
    sim.run("SET forever v");
    sim.pass(10_000);
    sim.notified();
    sim.now.wall_ms += DAY_MS;
    settle(&mut sim);
    assert!(sim.notified().is_empty(), "nothing has changed");
    restart(&mut sim, config());
    assert_eq!(sim.service.next_ms(), Some(17 + 50_000));
    assert_eq!(sim.run("GET lease"), format!("$6\r\nholder {version}"));
    let fenced = sim.run("DEL lease");
    assert_eq!(fenced, "-ERR a fencing token is required for this request");
    sim.pass(50_000);
    assert_eq!(sim.run("GET lease"), "$-1");
    assert!(sim.run("GET forever").starts_with("$1"));
}

#[test]
fn many_leases_survive_several_clock_jumps() {
    const LEASES: u64 = 3_000;
    let mut sim = Simulation::new();
    sim.now.wall_ms -= DAY_MS;
    for number in 0..LEASES {
        sim.run(&format!("SET k{number} v PX {}", 60_000 + number));
    }
    // Right, wrong again, and right.
    for jump in [DAY_MS, 0, DAY_MS] {
        sim.now.wall_ms = WALL - DAY_MS + jump;
        sim.run(&format!("SET after-{jump} v PX 60000"));
        sim.expire();
        let is_told_in_parts = sim.service.next_ms() == Some(0);
        assert_eq!(is_told_in_parts, jump > 0);
        settle(&mut sim);
    }
    restart(&mut sim, config());
    assert!(sim.has_keys(LEASES + 2));
    settle(&mut sim);
    assert!(sim.has_keys(LEASES + 2));
}

#[test]
fn a_lease_stored_by_a_former_process_survives_a_clock_jump() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 60000");
    restart(&mut sim, config());
    sim.now.wall_ms += DAY_MS;
    settle(&mut sim);
    restart(&mut sim, config());
    assert_eq!(sim.service.next_ms(), Some(17 + 60_000));
}

#[test]
fn expiry_is_rewritten_only_after_a_forward_jump_with_free_space() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 600000");
    let stored = sim.stored.clone();
    sim.now.wall_ms += 900;
    settle(&mut sim);
    sim.now.wall_ms -= DAY_MS;
    settle(&mut sim);
    assert_eq!(sim.stored, stored);
    sim.now.wall_ms += 2 * DAY_MS;
    sim.service.set_read_only(true);
    settle(&mut sim);
    assert_eq!(sim.stored, stored);
    sim.service.set_read_only(false);
    settle(&mut sim);
    assert_ne!(sim.stored, stored);
}

#[test]
fn keys_without_retention_are_not_rewritten() {
    let mut keys = KeyPatterns::default();
    keys.add(KeyType::Pattern, "kept/*").unwrap();
    let config = ServiceConfig {
        retention: Retention::Custom {
            keys,
            on_request: false,
        },
        ..config()
    };
    let mut sim = Simulation::with(config);
    sim.run("SET kept/a v PX 60000");
    sim.run("SET other v PX 60000");
    sim.now = ClockReading {
        wall_ms: WALL + DAY_MS,
        ..sim.now
    };
    settle(&mut sim);
    assert_eq!(sim.stored.len(), 1);
    assert!(sim.stored[&b"kept/a"[..]].expiry.unwrap().at_wall_ms > WALL + DAY_MS);
}
