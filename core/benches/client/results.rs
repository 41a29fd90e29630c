//! Keeps what a table measured, so that figures can be drawn of it.

use crate::table::{BenchmarkRow, Column, Ratio};
use serde_json::{Value, json};
use std::{env, fs::OpenOptions, io::Write};

/// Names the file that each table is appended to, as a line of JSON; `scripts/bench --keep` sets it.
const FILE: &str = "BENCH_RESULTS";

/// Appends every number of every round, if there is a file for it.
pub(crate) fn append_results(
    title: &str,
    columns: &[Column],
    subjects: &[BenchmarkRow<'_>],
    ratios: &[Ratio],
) {
    let Some(path) = env::var_os(FILE) else {
        return;
    };
    let line = table(title, columns, subjects, ratios);
    OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{line}"))
        .unwrap_or_else(|error| panic!("{FILE} names {}: {error}", path.display()));
}

fn table(
    title: &str,
    columns: &[Column],
    subjects: &[BenchmarkRow<'_>],
    ratios: &[Ratio],
) -> Value {
    let rows = subjects.iter().map(|subject| {
        let rounds = |numbers: &Vec<f64>| numbers.iter().map(|it| rounded(*it)).collect();
        let measured: Vec<Vec<f64>> = subject.measured.iter().map(rounds).collect();
        json!({ "name": subject.name, "measured": measured })
    });
    let columns = columns.iter().map(|column| {
        json!({ "name": column.name, "unit": column.unit.trim_start(), "decimals": column.decimals })
    });
    let name = |at: usize| &subjects[at].name;
    let ratios = ratios.iter().map(
        |ratio| json!({ "name": ratio.name, "one": name(ratio.one), "other": name(ratio.other) }),
    );
    json!({
        "title": title,
        "columns": columns.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
    })
}

/// To six digits behind the point: more are noise of the division that made them.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
