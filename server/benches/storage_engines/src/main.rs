//! Compares embedded engines under the store's own load: group commits of small records, all of
//! them durable, over keys that exist already; then a cold load of everything; then damaged files.
//!
//! `cargo run --release -- DIRECTORY [ENGINE]…`, on the disk in question. Each cell is a process of
//! its own, and the engines take turns within a cell, so that they share the moods of the disk.
mod damage;
mod engines;

use engines::{BenchError, KeyValue, NAMES, open};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const CELL: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_secs(2);

/// splitmix64: spreads key numbers over the key space.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(crate) fn pair(key: u64, content: u64) -> KeyValue {
    let (mut k, mut v) = ([0; 16], [0; 100]);
    k[..8].copy_from_slice(&mix(key).to_be_bytes());
    k[8..].copy_from_slice(&key.to_be_bytes());
    for (i, chunk) in v.chunks_mut(8).enumerate() {
        let word = mix(content ^ ((i as u64) << 56)).to_be_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    (k, v)
}

/// A number of `/proc/self/<file>`, in its own unit.
fn process(file: &str, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text
        .lines()
        .find(|line| line.starts_with(field))
        .unwrap_or("");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// CPU time of all threads of this process.
fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let ticks = |i: usize| {
        fields
            .get(i)
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or(0)
    };
    Duration::from_millis((ticks(13) + ticks(14)) * 10)
}

fn size_on_disk(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = path.symlink_metadata() else {
        return 0;
    };
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    meta.blocks() * 512 + below.map(|entry| size_on_disk(&entry.path())).sum::<u64>()
}

/// Adds the keys `from..keys`, in groups.
fn grow(name: &str, directory: &Path, from: u64, keys: u64) -> Result<(), BenchError> {
    let mut engine = open(name, directory)?;
    for start in (from..keys).step_by(1000) {
        let end = (start + 1000).min(keys);
        engine.commit(&(start..end).map(|key| pair(key, key)).collect::<Vec<_>>())?;
    }
    // Compaction that this has started shall not be counted in the cells.
    let begun = Instant::now();
    while begun.elapsed() < SETTLE {
        std::thread::sleep(Duration::from_millis(10));
        engine.commit(&[pair(0, 0)])?;
    }
    Ok(())
}

/// Overwrites random keys in commits of `size` records, and prints one row.
fn run_cell(name: &str, directory: &Path, keys: u64, size: u64) -> Result<(), BenchError> {
    let mut engine = open(name, directory)?;
    let seed = mix(size ^ keys);
    let mut content = 0_u64;
    let mut group = || -> Vec<KeyValue> {
        let next = |content: &mut u64| {
            *content += 1;
            pair(mix(seed ^ *content) % keys, seed ^ *content)
        };
        (0..size).map(|_| next(&mut content)).collect()
    };
    // The first commit may load what is there.
    engine.commit(&group())?;
    let (mut commits, mut slowest, mut spent) = (0_u64, Duration::ZERO, Duration::ZERO);
    let (written, cpu_before, begun) = (process("io", "write_bytes"), cpu(), Instant::now());
    while begun.elapsed() < CELL {
        let pairs = group();
        let started = Instant::now();
        engine.commit(&pairs)?;
        slowest = slowest.max(started.elapsed());
        spent += started.elapsed();
        commits += 1;
    }
    let records = commits * size;
    println!(
        "| {keys} | {size} | {name} | {:.0} | {:.0} | {:.2} | {:.0} | {:.1} | {:.1} |",
        commits as f64 / spent.as_secs_f64(),
        records as f64 / spent.as_secs_f64(),
        1000.0 * spent.as_secs_f64() / commits as f64,
        slowest.as_secs_f64() * 1000.0,
        (cpu() - cpu_before).as_secs_f64() * 1e6 / records as f64,
        (process("io", "write_bytes") - written) as f64 / (records * 116) as f64,
    );
    Ok(())
}

fn load(name: &str, directory: &Path) -> Result<(), BenchError> {
    let before = process("status", "VmRSS");
    let begun = Instant::now();
    let mut engine = open(name, directory)?;
    let mut bytes = 0;
    engine.load(&mut |key, value| bytes += key.len() + value.len())?;
    println!(
        "| {name} | {} | {:.2} | {} | {} | {} |",
        bytes / 116,
        begun.elapsed().as_secs_f64(),
        (process("status", "VmHWM") - before) / 1024,
        (process("status", "VmRSS") - before) / 1024,
        size_on_disk(directory) >> 20,
    );
    Ok(())
}

fn compare(base: &Path, names: &[&str]) -> Result<(), BenchError> {
    let program = std::env::current_exe()?;
    let run = |arguments: &[&str], name: &str| -> Result<(), BenchError> {
        let directory = base.join(name);
        fs::create_dir_all(&directory)?;
        let mut command = Command::new(&program);
        command
            .arg(arguments[0])
            .arg(name)
            .arg(directory)
            .args(&arguments[1..])
            .status()?;
        Ok(())
    };
    println!(
        "| keys | batch | engine | commits/s | records/s | ms per commit | slowest ms | CPU µs per record | bytes written per byte |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut from = 0;
    for keys in [1_000_u64, 100_000, 1_000_000] {
        for name in names {
            run(&["grow", &from.to_string(), &keys.to_string()], name)?;
        }
        for size in ["1", "64", "256", "1024"] {
            for name in names {
                run(&["cell", &keys.to_string(), size], name)?;
            }
        }
        from = keys;
    }
    println!("\n| engine | records | load s | peak MiB | resident MiB | on disk MiB |");
    println!("|---|---|---|---|---|---|");
    names.iter().try_for_each(|name| run(&["load"], name))?;
    println!(
        "\n| engine | damage | all records | error | other records, no error | panic or abort |"
    );
    println!("|---|---|---|---|---|---|");
    for name in names {
        damage::run(name, &base.join("damage").join(name))?;
    }
    Ok(())
}

fn main() -> Result<(), BenchError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["grow", name, directory, from, keys] => {
            grow(name, Path::new(directory), from.parse()?, keys.parse()?)
        }
        ["cell", name, directory, keys, size] => {
            run_cell(name, Path::new(directory), keys.parse()?, size.parse()?)
        }
        ["load", name, directory] => load(name, Path::new(directory)),
        ["fill", name, directory] => damage::fill(name, Path::new(directory)),
        ["check", name, directory] => std::process::exit(damage::check(name, Path::new(directory))),
        [] => Err("usage: storage-engines DIRECTORY [ENGINE]…".into()),
        [base] => compare(Path::new(base), &NAMES),
        [base, names @ ..] => compare(Path::new(base), names),
    }
}
