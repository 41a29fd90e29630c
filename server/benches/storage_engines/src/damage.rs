//! Results of opening and reading a small database when one of its files was damaged.
use crate::engines::{BenchError, open};
use crate::{mix, pair};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILLED: u64 = 20_000;

/// Damages each file in turn, in copies of one database that was killed, and prints the outcomes.
pub(crate) fn run(name: &str, base: &Path) -> Result<(), BenchError> {
    let (whole, copy) = (base.join("whole"), base.join("copy"));
    fs::create_dir_all(&whole)?;
    let program = std::env::current_exe()?;
    Command::new(&program)
        .arg("fill")
        .arg(name)
        .arg(&whole)
        .status()?;
    let mut outcomes = BTreeMap::<&str, [u64; 4]>::new();
    for file in files_below(&whole) {
        let bytes = fs::read(whole.join(&file))?;
        for (kind, content) in cases(&bytes) {
            let _ = fs::remove_dir_all(&copy);
            copy_tree(&whole, &copy)?;
            match content {
                Some(content) => fs::write(copy.join(&file), content)?,
                None => fs::remove_file(copy.join(&file))?,
            }
            let output = Command::new(&program)
                .arg("check")
                .arg(name)
                .arg(&copy)
                .output()?;
            let outcome = match output.status.code() {
                Some(0) => 0,
                Some(4) => 1,
                Some(3) => 2,
                _ => 3,
            };
            outcomes.entry(kind).or_default()[outcome] += 1;
        }
    }
    for (kind, [full, error, other, crash]) in outcomes {
        println!("| {name} | {kind} | {full} | {error} | {other} | {crash} |");
    }
    Ok(())
}

fn cases(bytes: &[u8]) -> Vec<(&'static str, Option<Vec<u8>>)> {
    // Trailing zeros are space set aside.
    let used = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let text = b"key = value\n".repeat(400);
    let mut cases = vec![
        ("file deleted", None),
        ("file replaced by text", Some(text)),
    ];
    for part in 0..16 {
        let at = (used * part / 16 + part * 7).min(used.saturating_sub(1));
        cases.push(("file cut off", Some(bytes[..at].to_vec())));
        let mut flipped = bytes.to_vec();
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 0x10;
            cases.push(("one bit flipped", Some(flipped)));
        }
    }
    cases
}

/// Makes the database, and leaves it as a kill would.
pub(crate) fn fill(name: &str, directory: &Path) -> Result<(), BenchError> {
    let mut engine = open(name, directory)?;
    for start in (0..FILLED).step_by(100) {
        let pairs: Vec<_> = (start..start + 100).map(|key| pair(key, key)).collect();
        engine.commit(&pairs)?;
    }
    std::process::exit(0);
}

/// Opens what may be damaged: exit code 0 for all records, 3 for other ones, 4 for an error.
pub(crate) fn check(name: &str, directory: &Path) -> i32 {
    let (mut sum, mut count) = (0_u64, 0_u64);
    let loaded = open(name, directory).and_then(|mut engine| {
        engine.load(&mut |key, value| {
            sum = sum.wrapping_add(digest(key, value));
            count += 1;
        })
    });
    let all = (0..FILLED).map(|number| pair(number, number));
    let expected = all.fold(0_u64, |sum, (key, value)| {
        sum.wrapping_add(digest(&key, &value))
    });
    match loaded {
        Ok(()) if (sum, count) == (expected, FILLED) => 0,
        Ok(()) => 3,
        Err(_) => 4,
    }
}

fn digest(key: &[u8], value: &[u8]) -> u64 {
    let bytes = key.iter().chain(value);
    bytes.fold(0, |digest, byte| mix(digest ^ u64::from(*byte)))
}

/// Every file except empty lock files.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_path_buf()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else if entry.file_name() != "lock"
                && let Ok(relative) = path.strip_prefix(directory)
            {
                found.push(relative.to_path_buf());
            }
        }
    }
    found.sort();
    found
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
