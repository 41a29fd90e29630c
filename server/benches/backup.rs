//! Impact of a backup on concurrent writers, and the duration of backup, restore and check:
//!
//! ```sh
//! cargo bench -p statestored --bench backup -- 1000000
//! ```
//!
//! A server gets a data folder with this number of keys of 16 bytes and values of 100 bytes, written in commits of 10,000. A client
//! then sends SETs without pause, 64 at a time, to existing keys. Another client sends one SET after the other and measures each: for
//! some seconds without a backup, then during backups (`ServerHandle::backup`) and copies (`ServerHandle::snapshot`). Finally the program
//! restores and checks the last backup. Each step runs three times.
use bytes::Bytes;
use statestore::{Client, Settings};
use statestored::RunningServer;
use statestored::config::Config;
use statestored_storage::{
    Batch, DurableOptions, DurableStorage, Record, RecordView, Restore, Storage, Write,
};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RUNS: usize = 3;
const KEYS_PER_COMMIT: u64 = 10_000;
const IN_FLIGHT: u64 = 64;
const QUIET: Duration = Duration::from_secs(3);

type Failure = Box<dyn Error>;

/// A restore target that discards all records.
struct DiscardRecords;

impl Restore for DiscardRecords {
    fn put(&mut self, _record: &RecordView<'_>) {}
    fn delete(&mut self, _key: &[u8]) {}
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("key-{number:012}"))
}

fn fill(folder: &Path, keys: u64) -> Result<(), Failure> {
    let mut storage = DurableStorage::open(folder, DurableOptions::default())?;
    storage.load(&mut DiscardRecords)?;
    let record = |number: u64| Record {
        key: key(number),
        value: Bytes::from(vec![b'v'; 100]),
        version: (1_700_000_000_000, 0),
        fence: None,
        expiry: None,
    };
    let mut next = 0;
    while next < keys {
        let end = keys.min(next + KEYS_PER_COMMIT);
        let writes = (next..end).map(|it| Write::Put(record(it))).collect();
        storage.commit(&[Batch {
            writes,
            clock: None,
        }])?;
        storage.prepare()?;
        next = end;
    }
    Ok(())
}

/// Counters of the writing clients.
#[derive(Default)]
struct WriterMetrics {
    sets: AtomicU64,
    max_us: AtomicU64,
    is_finished: AtomicBool,
}

impl WriterMetrics {
    /// The SETs and the longest of them since the last call.
    fn take_interval(&self) -> (u64, Duration) {
        let longest = self.max_us.swap(0, Ordering::Relaxed);
        let sets = self.sets.swap(0, Ordering::Relaxed);
        (sets, Duration::from_micros(longest))
    }
}

async fn connect(url: &str) -> Result<Client, Failure> {
    Ok(Client::connect(Settings::from_url(url)?).await?)
}

/// Writes until the benchmark is over.
async fn write(url: String, keys: u64, seen: Arc<WriterMetrics>) -> Result<(), Failure> {
    let (crowd, probe) = (connect(&url).await?, connect(&url).await?);
    let value = Bytes::from(vec![b'w'; 100]);
    let mut writers = tokio::task::JoinSet::new();
    for first in 0..IN_FLIGHT {
        let (crowd, seen, value) = (crowd.clone(), Arc::clone(&seen), value.clone());
        writers.spawn(async move {
            let mut number = first;
            while !seen.is_finished.load(Ordering::Relaxed) {
                number = (number + 7_919) % keys;
                crowd.set(key(number), value.clone()).await?;
                seen.sets.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, statestore::Error>(())
        });
    }
    let mut number = 0;
    while !seen.is_finished.load(Ordering::Relaxed) {
        number = (number + 104_729) % keys;
        let begin = Instant::now();
        probe.set(key(number), value.clone()).await?;
        let took = u64::try_from(begin.elapsed().as_micros())?;
        seen.max_us.fetch_max(took, Ordering::Relaxed);
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    Ok(())
}

/// Does something while others write, and says what they saw.
fn measure_during(
    what: &str,
    seen: &WriterMetrics,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    seen.take_interval();
    let begin = Instant::now();
    work()?;
    let took = begin.elapsed().as_secs_f64();
    let (sets, longest) = seen.take_interval();
    #[allow(clippy::cast_precision_loss, reason = "a figure to read")]
    let rate = sets as f64 / took;
    println!(
        "{what:<10} {took:>6.2} s, meanwhile {rate:>7.0} SET/s, the longest {:>6.1} ms",
        longest.as_secs_f64() * 1e3
    );
    Ok(())
}

fn tool(arguments: &[&str], paths: &[&Path]) -> Result<(), Failure> {
    let begin = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_statestored"))
        .args(arguments)
        .args(paths)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    println!(
        "{:<10} {:>6.2} s",
        arguments[0],
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

fn measure(place: &Path, keys: u64) -> Result<(), Failure> {
    let data = place.join("data");
    fill(&data, keys)?;
    let server = RunningServer::start(Config::durable(&data))?;
    let seen = Arc::new(WriterMetrics::default());
    let (url, watched) = (server.url(), Arc::clone(&seen));
    let writing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let written = runtime
            .map_err(Failure::from)
            .and_then(|runtime| runtime.block_on(write(url, keys, watched)));
        written.map_err(|error| error.to_string())
    });
    while seen.sets.load(Ordering::Relaxed) == 0 && !writing.is_finished() {
        std::thread::yield_now();
    }
    let (control, backup) = (server.handle(), place.join("backup"));
    for run in 0..RUNS {
        measure_during("nothing", &seen, || {
            std::thread::sleep(QUIET);
            Ok(())
        })?;
        measure_during("backup", &seen, || {
            control.backup_to_file_blocking(&backup, true)?;
            Ok(())
        })?;
        let copy = place.join(format!("copy-{run}"));
        measure_during("copy", &seen, || Ok(control.snapshot_blocking(&copy)?))?;
    }
    seen.is_finished.store(true, Ordering::Relaxed);
    writing.join().map_err(|_| "the writers panicked")??;
    server.stop()?;
    println!("{} MiB in the backup", backup.metadata()?.len() >> 20);
    for run in 0..RUNS {
        let restored = place.join(format!("restored-{run}"));
        tool(&["restore", "--data-dir"], &[&restored, &backup])?;
        tool(&["check"], &[&restored])?;
        tool(&["check"], &[&backup])?;
        std::fs::remove_dir_all(restored)?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut counts: Vec<u64> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    if counts.is_empty() {
        counts.push(1_000_000);
    }
    for keys in counts {
        let place = tempfile::tempdir()?;
        println!("{keys} keys");
        measure(place.path(), keys)?;
    }
    Ok(())
}
