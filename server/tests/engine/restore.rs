//! State that survives a restart.
use crate::simulation::{Simulation, WALL, config, hlc, version};
use statestored::service::{Now, ServiceConfig};

#[test]
fn values_versions_and_tokens_survive() {
    let mut sim = Simulation::new();
    sim.run("SET a 1");
    let token = hlc(20, 3, "a node id that is longer than most node ids are");
    sim.draft().token(token.clone()).run("SET b 2");
    sim.restart(config());
    assert_eq!(sim.run("GET a"), format!("$1\r\n1 @{WALL}+1"));
    assert_eq!(
        sim.run("DEL b"),
        "-ERR a fencing token is required for this request"
    );
    let version = sim.draft().token(token).run("DEL b");
    assert_eq!(version, format!(":1 @{WALL}+2"));
}

#[test]
fn a_lease_goes_on_for_the_time_it_has_left() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 1000");
    sim.now = Now {
        wall_ms: WALL + 400,
        mono_ms: 17,
    };
    sim.restart(config());
    assert_eq!(sim.service.next_ms(), Some(17 + 600));
    sim.pass(599);
    assert!(sim.run("GET k").starts_with("$1"));
    sim.pass(1);
    assert_eq!(sim.run("GET k"), "$-1");
}

#[test]
fn a_clock_that_was_set_back_does_not_prolong_a_lease_beyond_its_length() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 1000");
    sim.now = Now {
        wall_ms: WALL - 86_400_000,
        mono_ms: 0,
    };
    sim.restart(config());
    assert_eq!(sim.service.next_ms(), Some(1000));
}

#[test]
fn a_lease_that_ended_meanwhile_is_not_seen_and_is_deleted_from_the_storage() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 1000");
    sim.run("SET l v");
    sim.now = Now {
        wall_ms: WALL + 1000,
        mono_ms: 0,
    };
    sim.restart(config());
    assert_eq!(sim.service.next_ms(), Some(0));
    assert_eq!(sim.stored.len(), 2);
    sim.expire();
    assert_eq!(sim.stored.len(), 1);
    assert_eq!(sim.run("GET k"), "$-1");
    assert!(sim.notified().is_empty());
}

#[test]
fn a_key_deleted_before_the_restart_comes_back_with_a_higher_version() {
    let mut sim = Simulation::new();
    sim.run("SET k v");
    sim.run("SET k v");
    assert_eq!(sim.run("DEL k"), format!(":1 @{WALL}+3"));
    sim.restart(ServiceConfig {
        hash_key: [1, 2],
        ..config()
    });
    sim.now.wall_ms -= 10;
    assert_eq!(sim.run("SET k v"), format!("+OK @{WALL}+4"));
}

/// An hour, by which the wall clock is ahead for a time.
const HOUR_MS: u64 = 3_600_000;

#[test]
fn tokens_stay_usable_when_the_clock_was_ahead_for_a_time() {
    let mut sim = Simulation::new();
    sim.now.wall_ms += HOUR_MS;
    sim.run("SET lease a PX 1000");
    sim.pass(1000);
    sim.expire();
    sim.now.wall_ms -= HOUR_MS;
    for is_restarted in [false, true] {
        if is_restarted {
            sim.restart(config());
        }
        let acquired = sim.run("SET lease b NX");
        let counter = 1 + u64::from(is_restarted) * 3;
        assert_eq!(
            acquired,
            format!("+OK @{}+{counter}", WALL + HOUR_MS + 1000)
        );
        let token = version(WALL + HOUR_MS + 1000, counter);
        let fenced = sim.draft().token(token.clone()).run("SET protected value");
        assert!(fenced.starts_with("+OK"), "{fenced}");
        let renewed = sim.draft().token(token.clone()).run("SET lease b");
        assert!(renewed.starts_with("+OK"), "{renewed}");
        let released = sim.draft().token(token).run("DEL lease");
        assert!(released.starts_with(":1"), "{released}");
    }
}

#[test]
fn a_token_is_not_further_ahead_than_a_minute_of_clock_and_versions() {
    const SKEWED: &str = "-ERR the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized";
    let mut sim = Simulation::new();
    sim.now.wall_ms += HOUR_MS;
    sim.run("SET k v");
    sim.now.wall_ms -= HOUR_MS;
    for is_restarted in [false, true] {
        if is_restarted {
            sim.restart(config());
        }
        let minute = hlc(WALL + HOUR_MS + 60_000, 9, "c");
        assert!(sim.draft().token(minute).run("SET l v").starts_with("+OK"));
        let more = hlc(WALL + HOUR_MS + 60_001, 0, "c");
        assert_eq!(sim.draft().token(more).run("SET l v"), SKEWED);
    }
}

#[test]
fn watches_do_not_survive() {
    let mut sim = Simulation::new();
    sim.run("KEYNOTIFY k");
    sim.restart(config());
    sim.run("SET k v");
    assert!(sim.notified().is_empty());
}
