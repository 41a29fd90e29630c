//! Conditions on the version of a key.
use crate::simulation::{Simulation, WALL, hlc};

/// An IFV with the wall clock of the start and this counter.
fn ifv(counter: u64) -> String {
    format!("IFV {WALL}:{counter}:StateStore")
}

#[test]
fn a_set_applies_only_to_the_named_version() {
    let mut sim = Simulation::new();
    sim.run("SET k a");
    assert_eq!(
        sim.run(&format!("SET k b {}", ifv(1))),
        format!("+OK @{WALL}+2")
    );
    // The second client receives the current version.
    let second = sim.run(&format!("SET k c {}", ifv(1)));
    assert_eq!(second, format!(":-1 @{WALL}+2"));
    assert_eq!(sim.run("GET k"), format!("$1\r\nb @{WALL}+2"));
    // The expiry works as with any SET.
    let third = sim.run(&format!("SET k d PX 5 {}", ifv(2)));
    assert_eq!(third, format!("+OK @{WALL}+3"));
    sim.pass(5);
    assert_eq!(sim.run("GET k"), "$-1");
}

#[test]
fn an_absent_key_has_no_version() {
    let mut sim = Simulation::new();
    for command in ["SET k a", "DEL k", "VDEL k a"] {
        assert_eq!(sim.run(&format!("{command} {}", ifv(0))), ":-1");
    }
    assert_eq!(sim.service.size().keys, 0);
    // A key that was made anew does not have an old version again.
    sim.run("SET k a");
    sim.run("DEL k");
    sim.run("SET k a");
    let old = sim.run(&format!("SET k b {}", ifv(1)));
    assert_eq!(old, format!(":-1 @{WALL}+3"));
    sim.pass(1);
    sim.run("SET short a PX 10");
    sim.pass(10);
    let expired = format!("SET short b IFV {}:0:StateStore", WALL + 1);
    assert_eq!(sim.run(&expired), ":-1");
}

#[test]
fn del_and_vdel_apply_only_to_the_named_version() {
    let mut sim = Simulation::new();
    sim.run("SET k a");
    assert_eq!(
        sim.run(&format!("DEL k {}", ifv(7))),
        format!(":-1 @{WALL}+1")
    );
    assert_eq!(
        sim.run(&format!("DEL k {}", ifv(1))),
        format!(":1 @{WALL}+2")
    );
    sim.run("SET k a");
    // A VDEL returns the version whichever of its two conditions is not met.
    for (value, counter) in [("a", 7), ("b", 3), ("b", 7)] {
        let vdel = sim.run(&format!("VDEL k {value} {}", ifv(counter)));
        assert_eq!(vdel, format!(":-1 @{WALL}+3"));
    }
    assert_eq!(
        sim.run(&format!("VDEL k a {}", ifv(3))),
        format!(":1 @{WALL}+4")
    );
}

#[test]
fn the_fencing_token_is_checked_before_the_condition() {
    let mut sim = Simulation::new();
    sim.request().token(hlc(WALL, 5, "lock")).run("SET k a");
    let refused = "-ERR a fencing token is required for this request";
    for command in ["SET k b", "DEL k", "VDEL k a"] {
        assert_eq!(sim.run(&format!("{command} {}", ifv(7))), refused);
        let fenced = sim
            .request()
            .token(hlc(WALL, 5, "lock"))
            .run(&format!("{command} {}", ifv(7)));
        assert_eq!(fenced, format!(":-1 @{WALL}+1"));
    }
    assert_eq!(sim.run("GET k"), format!("$1\r\na @{WALL}+1"));
}

#[test]
fn a_get_returns_the_remaining_time() {
    let mut sim = Simulation::new();
    assert_eq!(sim.run("GET k PTTL"), "$-1");
    sim.run("SET k a PX 10");
    let left = |ms: i64, counter: u64| format!("*2\r\n$1\r\na\r\n:{ms} @{WALL}+{counter}");
    assert_eq!(sim.run("GET k PTTL"), left(10, 1));
    sim.pass(9);
    assert_eq!(sim.run("GET k PTTL"), left(1, 1));
    sim.pass(1);
    assert_eq!(sim.run("GET k PTTL"), "$-1");
    sim.run("SET k a");
    assert!(sim.run("GET k PTTL").starts_with("*2\r\n$1\r\na\r\n:-1 @"));
}
