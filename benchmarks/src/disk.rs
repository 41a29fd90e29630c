//! The limit of the disk: a loop that writes the bytes of a commit and waits for them, without a server.

use crate::{
    load::{micros, quantile},
    plan::BenchmarkPlan,
    process::DataFolder,
    table::{Column, Table},
};
use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::Path,
    time::{Duration, Instant},
};

/// Number of SETs of the load in a commit, and the bytes that a server writes for them.
const SETS: usize = 256;
static COMMIT: [u8; 38_000] = [b'v'; 38_000];
/// Length of a log.
const FILE_BYTES: usize = 32 << 20;

const COLUMNS: [Column; 4] = [
    Column::new("commits/s", "", 0),
    Column::new("p50", " µs", 0),
    Column::new("p99", " µs", 0),
    Column::new("SETs/s, 256 in each", "", 0),
];

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    let folder = DataFolder::new("disk");
    fs::create_dir_all(folder.path()).expect("a folder");
    let path = &folder.path().join("file");
    let mut table = Table::new(&COLUMNS);
    for (name, is_written) in [("file that is there", true), ("file that grows", false)] {
        table.row(name, move || commits(path, is_written, plan.time));
    }
    let title = format!("The disk alone, {} bytes at a time", COMMIT.len());
    table.print(&title, plan.rounds);
}

/// Writes and syncs in a loop: over zeros, or at the end of a growing file.
fn commits(path: &Path, is_written: bool, time: Duration) -> Vec<f64> {
    let mut file = begin(path, is_written);
    let mut latencies = Vec::new();
    let mut took = Duration::ZERO;
    let mut at = 0;
    while took < time {
        if at + COMMIT.len() > FILE_BYTES {
            file = begin(path, is_written);
            at = 0;
        }
        let began = Instant::now();
        file.write_all(&COMMIT).expect("there is room");
        file.sync_data().expect("a disk that works");
        let elapsed = began.elapsed();
        at += COMMIT.len();
        took += elapsed;
        latencies.push(elapsed.as_nanos() as u64);
    }
    let rate = latencies.len() as f64 / took.as_secs_f64();
    vec![
        rate,
        micros(quantile(&mut latencies, 0.5)),
        micros(quantile(&mut latencies, 0.99)),
        rate * SETS as f64,
    ]
}

/// Creates a file, positioned at its start.
fn begin(path: &Path, is_written: bool) -> File {
    let mut file = File::create(path).expect("a file");
    if is_written {
        file.write_all(&vec![0; FILE_BYTES]).expect("there is room");
        file.seek(SeekFrom::Start(0)).expect("a file has places");
    }
    file.sync_all().expect("a disk that works");
    file
}
