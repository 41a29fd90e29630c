//! How long a start takes, and how much memory it needs:
//!
//! ```sh
//! cargo bench -p statestored --bench load -- 1000000 10000000
//! STATESTORED=/path/of/another/statestored cargo bench -p statestored --bench load -- 1000000
//! ```
//!
//! For each number, the program makes a data folder with this number of keys of 16 bytes and values of 16 bytes. The keys
//! are written in commits of 10,000, and the store is closed. The program starts the server on it, three times, and waits
//! until it listens. `CPU` is the CPU time of the process until then, which depends less on other load of the machine.
//! `peak` and `after` are its memory: the maximum until then, and the value at the end.
use bytes::Bytes;
use statestored_storage::{
    Batch, DurableOptions, DurableStorage, Record, RecordView, Restore, Storage, Write,
};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const RUNS: usize = 3;
const KEYS_PER_COMMIT: u64 = 10_000;

type Failure = Box<dyn std::error::Error>;

/// A restore target that discards all records.
struct DiscardRecords;

impl Restore for DiscardRecords {
    fn put(&mut self, _record: &RecordView<'_>) {}
    fn delete(&mut self, _key: &[u8]) {}
}

fn fill(folder: &Path, keys: u64) -> Result<(), Failure> {
    let mut storage = DurableStorage::open(folder, DurableOptions::default())?;
    storage.load(&mut DiscardRecords)?;
    let record = |number: u64| Record {
        key: Bytes::from(format!("key-{number:012}")),
        value: Bytes::from(format!("val-{number:012}")),
        version: (1_700_000_000_000 + number, 0),
        fence: None,
        expiry: None,
    };
    let mut next = 0;
    while next < keys {
        let end = keys.min(next + KEYS_PER_COMMIT);
        let writes = (next..end)
            .map(|number| Write::Put(record(number)))
            .collect();
        let batch = Batch {
            writes,
            clock: None,
        };
        storage.commit(&[batch])?;
        storage.prepare()?;
        next = end;
    }
    Ok(())
}

fn bytes_in(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// A line of `/proc/PID/status`, in MiB.
fn memory(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024)
}

/// User and system time in a line of `/proc/PID/stat`, which counts in hundredths of a second.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

fn measure(program: &str, folder: &Path, keys: u64) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut child = Command::new(program)
        .args([
            "--listen",
            "tcp://127.0.0.1:0",
            "--log",
            "warn",
            "--data-dir",
        ])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    child.kill()?;
    child.wait()?;
    if !line.starts_with("listening") {
        return Err(format!("{program} did not start: {line:?}").into());
    }
    let mib = |name| memory(&status, name).unwrap_or_default();
    #[allow(clippy::cast_precision_loss, reason = "a figure to read")]
    let rate = keys as f64 / seconds / 1e6;
    println!(
        "{keys:>10} keys {seconds:>7.2} s, {rate:>5.2} million keys/s, CPU {:>6.2} s, peak {:>5} MiB, after {:>5} MiB",
        cpu_seconds(&stat).unwrap_or_default(),
        mib("VmHWM"),
        mib("VmRSS"),
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let program = std::env::var("STATESTORED");
    let program = program
        .as_deref()
        .unwrap_or(env!("CARGO_BIN_EXE_statestored"));
    let mut counts: Vec<u64> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    if counts.is_empty() {
        counts.push(1_000_000);
    }
    for keys in counts {
        let folder = tempfile::tempdir()?;
        fill(folder.path(), keys)?;
        println!(
            "{keys:>10} keys, {} MiB on disk",
            bytes_in(folder.path())? >> 20
        );
        for _ in 0..RUNS {
            measure(program, folder.path(), keys)?;
        }
    }
    Ok(())
}
