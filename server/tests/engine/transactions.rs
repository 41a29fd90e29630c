//! Transactions: all or nothing, in order, one version and one notification for each change.
use crate::simulation::{Simulation, WALL, config, hlc, payload, text};
use proptest::prelude::*;
use statestored_store::keyspace::PrefixLimit;
use statestored_store::service::ServiceConfig;

const TOKEN_REQUIRED: &str = "a fencing token is required for this request";

/// A TXN of operations that are written as words, each behind the number of its words.
fn txn(operations: &[&str]) -> bytes::Bytes {
    let mut words = vec!["TXN".to_owned()];
    for operation in operations {
        let own = operation.split(' ').map(str::to_owned).collect::<Vec<_>>();
        words.push(own.len().to_string());
        words.extend(own);
    }
    payload(words.iter().map(String::as_bytes))
}

fn run(sim: &mut Simulation, operations: &[&str]) -> String {
    text(&sim.request().send(&txn(operations)))
}

/// The answer to a transaction that gave these versions; `None` for a DEL of an absent key.
fn transacted(versions: &[Option<(u64, u64)>]) -> String {
    let mut out = format!("*{}", versions.len());
    for version in versions {
        out += &version.map_or("\r\n$-1".into(), bulk_of_version);
    }
    out
}

fn bulk_of_version((wall_ms, counter): (u64, u64)) -> String {
    let text = hlc(wall_ms, counter, "StateStore").to_string();
    format!("\r\n${}\r\n{text}", text.len())
}

fn refused(operation: usize, error: &str) -> String {
    format!("*3\r\n:-1\r\n:{operation}\r\n-ERR {error}")
}

/// The answer to a transaction that met a condition that was not met.
fn unmet(operation: usize, version: Option<(u64, u64)>) -> String {
    let version = version.map_or("\r\n$-1".into(), bulk_of_version);
    format!("*3\r\n:-1\r\n:{operation}{version}")
}

#[test]
fn operations_are_executed_in_order() {
    let mut sim = Simulation::new();
    for key in ["a", "b", "c"] {
        sim.run(&format!("KEYNOTIFY {key}"));
    }
    sim.run("SET b old");
    sim.notified();
    let operations = ["SET a 1", "DEL b", "DEL c", "SET a 2 PX 10", "SET b 3"];
    let answer = run(&mut sim, &operations);
    let versions = [(WALL, 1), (WALL, 2), (0, 0), (WALL, 2), (WALL, 3)];
    let versions = versions.map(|it| (it.0 > 0).then_some(it));
    assert_eq!(answer, transacted(&versions));
    let told = ["a SET 1", "b DELETE", "a SET 2", "b SET 3"];
    let notified = sim.notified();
    for (line, told) in notified.iter().zip(told) {
        assert!(line.starts_with(&format!("c {told} @")), "{line}");
    }
    assert_eq!(notified.len(), told.len());
    assert_eq!(sim.run("GET a"), format!("$1\r\n2 @{WALL}+2"));
    assert_eq!(sim.stored.len(), 2);
    sim.pass(10);
    assert_eq!(sim.run("GET a"), "$-1");
}

#[test]
fn a_long_transaction_sees_its_own_changes() {
    let mut sim = Simulation::new();
    let mut operations = (0..60)
        .map(|key| format!("SET k{key} 1"))
        .collect::<Vec<_>>();
    let run = |sim: &mut Simulation, operations: &[String]| {
        let words = operations.iter().map(String::as_str).collect::<Vec<_>>();
        run(sim, &words)
    };
    assert_eq!(
        run(&mut sim, &operations),
        transacted(&[Some((WALL, 1)); 60])
    );
    operations.push(format!("SET k7 2 IFV {WALL}:2:StateStore"));
    operations.push("DEL k59".into());
    operations.push("SET k59 3 NX".into());
    let mut versions = [Some((WALL, 2)); 63];
    versions[60..].copy_from_slice(&[(WALL, 3), (WALL, 3), (WALL, 4)].map(Some));
    assert_eq!(run(&mut sim, &operations), transacted(&versions));
    operations[60] = format!("SET k7 2 IFV {WALL}:3:StateStore");
    assert_eq!(run(&mut sim, &operations), unmet(60, Some((WALL, 4))));
}

#[test]
fn a_failed_operation_aborts_the_transaction() {
    let mut sim = Simulation::new();
    sim.run("SET a old");
    sim.run("KEYNOTIFY a");
    sim.run("KEYNOTIFY b");
    let stale = format!("SET a x IFV {WALL}:7:StateStore");
    for (operations, answer) in [
        (["SET b 1", "SET a x NX"], unmet(1, Some((WALL, 1)))),
        (["SET a x NEX", "SET b 1"], unmet(0, Some((WALL, 1)))),
        (["SET b 1", &stale], unmet(1, Some((WALL, 1)))),
        (["SET b 1", "DEL c IFV 1:1:StateStore"], unmet(1, None)),
        (["DEL a", &stale], unmet(1, None)),
        // Later operations see the effects that earlier ones would have had.
        (["SET b 1", "SET b 2 NX"], unmet(1, Some((WALL, 1)))),
        (["SET b 1", "SET  x"], refused(1, "the key length is zero")),
    ] {
        assert_eq!(run(&mut sim, &operations), answer, "{operations:?}");
        assert_eq!(sim.run("GET b"), "$-1");
        assert_eq!(sim.run("GET a"), format!("$3\r\nold @{WALL}+1"));
        assert!(sim.notified().is_empty());
    }
    assert_eq!(sim.stored.len(), 1);
}

#[test]
fn each_operation_has_its_own_fencing_token() {
    let mut sim = Simulation::new();
    let low = format!("FT {WALL}:1:lock");
    let high = format!("FT {WALL}:2:lock");
    let guarded = |what: &str, token: &str| format!("{what} {token}");
    let set = guarded("SET a 1", &high);
    assert_eq!(
        run(&mut sim, &[&set, "SET b 1"]),
        transacted(&[Some((WALL, 1)), Some((WALL, 1))])
    );
    let lower = "the request fencing token is a lower version than the fencing token protecting the resource";
    let late = guarded("DEL a", &low);
    assert_eq!(
        run(&mut sim, &["SET b 2", "SET a 2"]),
        refused(1, TOKEN_REQUIRED)
    );
    assert_eq!(run(&mut sim, &[&late, "SET b 2"]), refused(0, lower));
    // A token of the same transaction counts, and goes with its entry.
    let guard = guarded("SET b 2", &high);
    assert_eq!(
        run(&mut sim, &[&guard, "SET b 3"]),
        refused(1, TOKEN_REQUIRED)
    );
    let delete = guarded("DEL a", &high);
    assert!(run(&mut sim, &[&delete, "SET a 3"]).starts_with("*2\r\n$"));
    assert_eq!(sim.run("GET b"), format!("$1\r\n1 @{WALL}+1"));
    let skew = "the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized";
    let ahead = format!("SET c 1 FT {}:0:lock", WALL + 60_001);
    // Before any condition.
    assert_eq!(run(&mut sim, &["SET a 1 NX", &ahead]), refused(1, skew));
}

#[test]
fn a_transaction_has_a_timestamp_and_no_token() {
    let mut sim = Simulation::new();
    let payload = txn(&["DEL a"]);
    let missing = sim.request().timestamp(None).send(&payload);
    assert_eq!(text(&missing), "-ERR missing timestamp");
    let skewed = Some(Ok(hlc(WALL + 60_001, 0, "c")));
    let skewed = sim.request().timestamp(skewed).send(&payload);
    assert!(text(&skewed).starts_with("-ERR the request timestamp is too far in the future"));
    let token = sim.request().token(hlc(WALL, 0, "lock")).send(&payload);
    assert_eq!(text(&token), "-ERR syntax error");
    let malformed = sim.request().malformed_token().send(&payload);
    assert_eq!(text(&malformed), "-ERR malformed timestamp");
}

#[test]
fn the_quota_applies_to_the_result_of_the_transaction() {
    let mut sim = Simulation::with(ServiceConfig {
        max_keys: 2,
        ..config()
    });
    let full = |operation| refused(operation, "the quota has been exceeded");
    assert_eq!(run(&mut sim, &["SET a 1", "SET b 1", "SET c 1"]), full(2));
    assert_eq!(sim.service.size().keys, 0);
    assert!(run(&mut sim, &["SET a 1", "SET b 1", "SET a 2"]).starts_with("*3\r\n$"));
    assert_eq!(run(&mut sim, &["SET c 1", "DEL a"]), full(0));
    assert!(run(&mut sim, &["DEL a", "SET c 1"]).starts_with("*2\r\n$"));
    assert_eq!(run(&mut sim, &["DEL a", "SET a 1"]), full(1));
    assert_eq!(sim.service.size().keys, 2);
}

#[test]
fn a_prefix_limit_applies_to_the_result_of_the_transaction() {
    let mut sim = Simulation::with(ServiceConfig {
        prefixes: vec![PrefixLimit::parse("p/ keys=2").unwrap()],
        ..config()
    });
    let operations = ["SET p/a 1", "SET q 1", "SET p/b 1", "SET p/c 1"];
    assert_eq!(
        run(&mut sim, &operations),
        refused(3, "the quota has been exceeded")
    );
    assert!(run(&mut sim, &operations[..3]).starts_with("*3\r\n$"));
    assert!(run(&mut sim, &["DEL p/a", "SET p/c 1"]).starts_with("*2\r\n$"));
}

#[test]
fn a_redelivered_transaction_gets_the_same_response() {
    let mut sim = Simulation::new();
    let again = |sim: &mut Simulation, correlation: &[u8], operations: &[&str]| {
        let timestamp = Some(Ok(hlc(WALL, 0, "c")));
        let draft = sim.request().correlation(correlation).timestamp(timestamp);
        text(&draft.send(&txn(operations)))
    };
    let first = again(&mut sim, b"1", &["SET a 1", "DEL b"]);
    let refusal = again(&mut sim, b"2", &["SET c 1", "SET a 1 NX"]);
    let before = sim.service.client_bytes();
    sim.run("SET a 2");
    sim.run("DEL a");
    assert_eq!(again(&mut sim, b"1", &["SET a 1", "DEL b"]), first);
    assert_eq!(again(&mut sim, b"2", &["SET c 1", "SET a 1 NX"]), refusal);
    assert_eq!(sim.service.size().keys, 0);
    // A remembered response counts with its memory, which is returned later.
    let operation = ["DEL x"; 1_000];
    again(&mut sim, b"3", &operation);
    assert!(sim.service.client_bytes() > before + 1_000 * 16);
    sim.service.forget_replies("c");
    assert_eq!(sim.service.client_bytes(), 0);
}

#[test]
fn an_expired_entry_is_absent() {
    let mut sim = Simulation::new();
    for number in 0..20 {
        sim.run(&format!("SET k{number} 1 PX 10"));
    }
    sim.run("KEYNOTIFY k19");
    sim.pass(10);
    let answer = run(&mut sim, &["DEL k18", "SET k19 2 NX"]);
    assert_eq!(answer, transacted(&[None, Some((WALL + 10, 1))]));
    let notified = sim.notified();
    assert!(notified[0].starts_with("c k19 DELETE"), "{notified:?}");
    assert!(notified[1].starts_with("c k19 SET 2"), "{notified:?}");
}

#[test]
fn the_store_reports_its_capabilities() {
    let mut sim = Simulation::new();
    let all = "*14\r\n$3\r\nIFV\r\n:1\r\n$4\r\nPTTL\r\n:1\r\n$3\r\nTXN\r\n:10000\r\n$8\r\nEVENTUAL\r\n:1\r\n$4\r\nMGET\r\n:10000\r\n$6\r\nVALUES\r\n:1\r\n$5\r\nMATCH\r\n:1";
    assert_eq!(sim.run("CAPS"), all);
    let many = vec!["SET a 1"; 10_001];
    assert_eq!(
        run(&mut sim, &many),
        "-ERR a transaction has at most 10000 operations"
    );
    assert!(run(&mut sim, &many[..10_000]).starts_with("*10000\r\n"));
    assert_eq!(sim.run("GET a"), format!("$1\r\n1 @{WALL}+10000"));
}

#[test]
fn a_read_only_store_refuses_transactions() {
    let mut sim = Simulation::new();
    sim.service.set_read_only(true);
    let refusal = format!("-ERR {}", statestored_store::service::READ_ONLY);
    assert_eq!(run(&mut sim, &["SET a 1"]), refusal);
    assert_eq!(sim.service.size().keys, 0);
}

/// An operation on one of a few keys, with the options that a transaction has.
fn operation() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["p/a", "p/b", "q"]);
    let value = prop::sample::select(vec!["1", "22", "longer"]);
    let version = (0..5u64).prop_map(|counter| format!(" IFV {WALL}:{counter}:StateStore"));
    let condition = prop_oneof![
        6 => Just(String::new()),
        1 => Just(" NX".to_owned()),
        1 => Just(" NEX".to_owned()),
        1 => version.clone(),
    ];
    let if_version = prop_oneof![4 => Just(String::new()), 1 => version];
    let px = prop::sample::select(vec!["", "", " PX 5"]);
    let token = prop::sample::select(vec![0, 0, 0, 1, 2]);
    let token = token.prop_map(|counter| match counter {
        0 => String::new(),
        counter => format!(" FT {WALL}:{counter}:lock"),
    });
    prop_oneof![
        3 => (key.clone(), value, condition, px, token.clone())
            .prop_map(|(key, value, condition, px, token)| format!("SET {key} {value}{condition}{px}{token}")),
        1 => (key, if_version, token)
            .prop_map(|(key, condition, token)| format!("DEL {key}{condition}{token}")),
    ]
}

/// The same operation as a command of its own.
fn execute_alone(sim: &mut Simulation, operation: &str) -> String {
    let (command, token) = match operation.split_once(" FT ") {
        Some((command, token)) => (command, Some(token.parse().unwrap())),
        None => (operation, None),
    };
    sim.request().token(token).run(command)
}

/// Returns the response of a transaction whose operations have these responses, in their order.
fn combined_response(answers: &[String]) -> String {
    let mut versions = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        let version = answer.split_once(" @").map(|(_, version)| {
            let (wall_ms, counter) = version.split_once('+').unwrap();
            (wall_ms.parse().unwrap(), counter.parse().unwrap())
        });
        if let Some(error) = answer.strip_prefix("-ERR ") {
            return refused(index, error);
        }
        if answer.starts_with(":-1") {
            return unmet(index, version);
        }
        versions.push(version);
    }
    transacted(&versions)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_transaction_equals_its_operations_in_sequence(
        transactions in prop::collection::vec((prop::collection::vec(operation(), 1..7), 0..4u64), 1..8),
    ) {
        let limits = || ServiceConfig {
            max_keys: 2,
            prefixes: vec![PrefixLimit::parse("p/ bytes=190").unwrap()],
            ..config()
        };
        let mut sim = Simulation::with(limits());
        sim.run("KEYNOTIFY p/a");
        sim.run("KEYNOTIFY q");
        for (operations, pause) in transactions {
            sim.pass(pause);
            sim.expire();
            sim.notified();
            // The same store, for which every operation is a command.
            let mut other = Simulation::with(limits());
            other.now = sim.now;
            other.stored = sim.stored.clone();
            other.stored_clock = sim.stored_clock;
            other.restart(limits());
            other.run("KEYNOTIFY p/a");
            other.run("KEYNOTIFY q");
            let answers = operations.iter().map(|it| execute_alone(&mut other, it)).collect::<Vec<_>>();
            let before = (sim.stored.clone(), sim.service.size());
            let words = operations.iter().map(String::as_str).collect::<Vec<_>>();
            let answer = run(&mut sim, &words);
            prop_assert_eq!(&answer, &combined_response(&answers), "{:?} {:?}", operations, answers);
            let size = sim.service.size();
            if answer.contains(":-1\r\n") {
                prop_assert_eq!((sim.stored.clone(), size), before);
                prop_assert!(sim.notified().is_empty());
            } else {
                prop_assert_eq!(&sim.stored, &other.stored);
                prop_assert_eq!(sim.notified(), other.notified());
                prop_assert_eq!(size, other.service.size());
            }
        }
    }
}

#[test]
fn new_prefixes_are_counted_incrementally_during_changes() {
    const KEYS: u32 = 10_000;
    let mut sim = Simulation::new();
    for number in 0..KEYS {
        sim.run(&format!("SET a/{number} v"));
    }
    let limit = |text: &str| ServiceConfig {
        prefixes: vec![PrefixLimit::parse(text).unwrap()],
        ..config()
    };
    sim.service.set_limits(&limit(&format!("a/ keys={KEYS}")));
    let mut parts = 0;
    while let Some(at_ms) = sim.service.next_ms() {
        // Wherever their hashes are, in what is counted and in what is not; there are as many as before.
        assert!(sim.run(&format!("DEL a/{parts}")).starts_with(":1"));
        assert!(sim.run(&format!("SET a/new-{parts} v")).starts_with("+OK"));
        assert!(sim.run(&format!("SET b/{parts} v")).starts_with("+OK"));
        let pause = at_ms.saturating_sub(sim.now.mono_ms);
        assert!(pause <= 1, "{pause}");
        sim.pass(pause);
        sim.expire();
        parts += 1;
        assert!(parts < KEYS / 100, "it takes for ever");
    }
    assert!(parts >= 3, "all was counted at once");
    let full = "-ERR the quota has been exceeded";
    assert_eq!(sim.run("SET a/more v"), full);
    assert!(sim.run(&format!("DEL a/{parts}")).starts_with(":1"));
    assert!(sim.run("SET a/more v").starts_with("+OK"));
    assert_eq!(sim.run("SET a/one-more v"), full);
    // The counts of a known prefix are not computed again.
    sim.service
        .set_limits(&limit(&format!("a/ keys={}", KEYS + 1)));
    assert_eq!(sim.service.next_ms(), None);
    assert!(sim.run("SET a/one-more v").starts_with("+OK"));
    assert_eq!(sim.run("SET a/another v"), full);
}
