//! bench.
use crate::harness::{Run, Store};

#[test]
fn the_report_counts_the_operations_and_the_keys_are_deleted() {
    let store = Store::start();
    let run = store.run([
        "bench",
        "--json",
        "--ops",
        "2000",
        "--in-flight",
        "16",
        "--connections",
        "3",
        "--keys",
        "100",
        "--value-bytes",
        "10",
        "--mix",
        "get=3,set=1",
    ]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let report = run.json();
    assert_eq!(report["settings"]["mix"], "get=3,set=1");
    assert_eq!(report["settings"]["value_bytes"], 10);
    assert_eq!(report["fill"]["operations"], 100);
    assert_eq!(report["clean_up"]["operations"], 100);
    let load = &report["load"];
    assert_eq!(
        (&load["operations"], &load["absent"]),
        (&2000.into(), &0.into())
    );
    assert_eq!(load["errors"], serde_json::json!({}));
    assert!(load["operations_per_second"].as_f64().unwrap() > 0.0);
    let latency = &load["latency"];
    let count = |verb: &str| latency[verb]["count"].as_u64().unwrap();
    assert_eq!(count("get") + count("set"), count("all"));
    assert!(count("get") > count("set"));
    let percentiles: Vec<f64> = ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"]
        .iter()
        .map(|name| latency["all"][name].as_f64().unwrap())
        .collect();
    assert!(
        percentiles.is_sorted() && percentiles[0] > 0.0,
        "{percentiles:?}"
    );
    assert_eq!(store.ok(["scan"]), "");
}

#[test]
fn keep_leaves_the_keys_in_the_store() {
    let store = Store::start();
    let report = store.ok([
        "bench", "--ops", "0", "--keys", "50", "--keep", "--mix", "set=1",
    ]);
    assert!(report.contains("fill      50 operations"), "{report}");
    assert_eq!(store.ok(["scan", "bench:*"]).lines().count(), 50);
    let report = store.ok(["bench", "--ops", "1", "--keys", "50"]);
    assert!(report.contains("load      1 operation in "), "{report}");
}

#[test]
fn a_timed_load_ends() {
    let store = Store::start();
    let report = store.ok([
        "bench",
        "--seconds",
        "1",
        "--in-flight",
        "1",
        "--mix",
        "set=1,del=1",
    ]);
    assert!(report.contains("p99.9"), "{report}");
}

#[test]
fn failures_are_counted_by_kind_and_decide_the_exit_code() {
    let store = Store::with_max_keys(10);
    let run = store.run([
        "bench", "--json", "--mix", "set=1", "--ops", "500", "--keys", "1000",
    ]);
    assert_eq!(run.code, Some(4), "{run:?}");
    let load = &run.json()["load"];
    let failed: u64 = load["errors"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(failed + load["operations"].as_u64().unwrap(), 500);
    assert!(failed > 400, "{load}");
}

#[test]
fn a_stopped_store_ends_the_load() {
    let store = Store::start();
    let arguments = [
        "bench",
        "--json",
        "--seconds",
        "1h",
        "--mix",
        "set=1",
        "--timeout",
        "100ms",
    ];
    let bench = store.command(arguments).spawn().unwrap();
    while store.ok(["scan"]).is_empty() {}
    store.stop();
    let run = Run::from(bench.wait_with_output().unwrap());
    assert_eq!(run.code, Some(3), "{run:?}");
    let report = run.json();
    assert!(report["load"]["operations"].as_u64().unwrap() > 0);
    assert!(!report["load"]["errors"].as_object().unwrap().is_empty());
    assert!(report.get("clean_up").is_none());
}
