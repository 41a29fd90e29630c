//! Client and server of another build against those of this build: each pair by its own `statestore bench`.

use crate::{
    load::micros,
    plan::BenchmarkPlan,
    process::Server,
    table::{Column, Table},
};
use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const COLUMNS: [Column; 4] = [
    Column::new("req/s", "", 0),
    Column::new("p50", " µs", 0),
    Column::new("p99", " µs", 0),
    Column::new("server CPU per request", " µs", 2),
];

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    let builds = plan.builds();
    let [now, before] = &builds[..] else {
        println!("\nWithout a build to compare with (--before), builds are not compared.");
        return;
    };
    for (connections, in_flight) in [(1, 1), (1, 64), (1, 256), (50, 1), (500, 1)] {
        let mut table = Table::new(&COLUMNS);
        let [now, before] = [(now, "now"), (before, "before")].map(|(build, name)| {
            let server = build.in_memory(&[]);
            let statestore = build.binary.with_file_name("statestore");
            table.row(name, move || {
                bench(&statestore, &server, plan.time, connections, in_flight)
            })
        });
        table.ratio("now / before", now, before);
        let title = format!(
            "`statestore bench` and `statestored` of two builds, connections: {connections}, in flight on each: {in_flight}"
        );
        table.print(&title, plan.rounds);
    }
}

/// Runs the command line tool of a build once; returns its numbers for [`COLUMNS`].
fn bench(
    statestore: &Path,
    server: &Server,
    time: Duration,
    connections: usize,
    in_flight: usize,
) -> Vec<f64> {
    let cpu = server.cpu();
    let output = Command::new(statestore)
        .args(["--url", &format!("mqtt://127.0.0.1:{}", server.port)])
        .args([
            "--json",
            "bench",
            "--keys",
            "1000",
            "--mix",
            "get=50,set=50",
        ])
        .args(["--seconds", &time.as_secs().max(1).to_string()])
        .args(["--connections", &connections.to_string()])
        .args(["--in-flight", &in_flight.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|e| panic!("cannot start {}: {e}", statestore.display()));
    let cpu = server.cpu().saturating_sub(cpu);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("no report of {}: {e}", statestore.display()));
    let number = |path: &str| -> f64 {
        report
            .pointer(path)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("no {path} in the report of {}", statestore.display()))
    };
    assert!(output.status.success(), "operations failed: {report}");
    // The CPU time of the server covers all these operations.
    let operations: f64 = ["/fill", "/load", "/clean_up"]
        .map(|phase| number(&format!("{phase}/operations")))
        .iter()
        .sum();
    vec![
        number("/load/operations_per_second"),
        number("/load/latency/all/p50_us"),
        number("/load/latency/all/p99_us"),
        micros(cpu) / operations,
    ]
}
