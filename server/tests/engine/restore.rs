//! State that survives a restart.
use crate::simulation::{Simulation, WALL, config, hlc, version};
use statestored_store::service::{ClockReading, ServiceConfig};

#[test]
fn values_versions_and_tokens_survive() {
    let mut sim = Simulation::new();
    sim.run("SET a 1");
    let token = hlc(20, 3, "a node id that is longer than most node ids are");
    sim.request().token(token.clone()).run("SET b 2");
    sim.restart(config());
    assert_eq!(sim.run("GET a"), format!("$1\r\n1 @{WALL}+1"));
    assert_eq!(
        sim.run("DEL b"),
        "-ERR a fencing token is required for this request"
    );
    let version = sim.request().token(token).run("DEL b");
    assert_eq!(version, format!(":1 @{WALL}+2"));
}

#[test]
fn a_lease_keeps_its_remaining_time_after_a_restart() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 1000");
    sim.now = ClockReading {
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
fn a_clock_set_back_does_not_extend_a_lease_beyond_its_duration() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 1000");
    sim.now = ClockReading {
        wall_ms: WALL - 86_400_000,
        mono_ms: 0,
    };
    sim.restart(config());
    assert_eq!(sim.service.next_ms(), Some(1000));
}

#[test]
fn a_lease_that_expired_during_downtime_is_deleted() {
    let mut sim = Simulation::new();
    sim.run("SET k v PX 1000");
    sim.run("SET l v");
    sim.now = ClockReading {
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
fn a_key_recreated_after_a_restart_has_a_higher_version() {
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
fn fencing_tokens_stay_usable_after_a_clock_was_ahead() {
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
        let fenced = sim
            .request()
            .token(token.clone())
            .run("SET protected value");
        assert!(fenced.starts_with("+OK"), "{fenced}");
        let renewed = sim.request().token(token.clone()).run("SET lease b");
        assert!(renewed.starts_with("+OK"), "{renewed}");
        let released = sim.request().token(token).run("DEL lease");
        assert!(released.starts_with(":1"), "{released}");
    }
}

#[test]
fn a_fencing_token_more_than_a_minute_ahead_is_refused_after_a_restart() {
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
        assert!(
            sim.request()
                .token(minute)
                .run("SET l v")
                .starts_with("+OK")
        );
        let more = hlc(WALL + HOUR_MS + 60_001, 0, "c");
        assert_eq!(sim.request().token(more).run("SET l v"), SKEWED);
    }
}

#[test]
fn watches_do_not_survive_a_restart() {
    let mut sim = Simulation::new();
    sim.run("KEYNOTIFY k");
    sim.restart(config());
    sim.run("SET k v");
    assert!(sim.notified().is_empty());
}
