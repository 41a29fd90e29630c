//! What a salvage brings out of damaged files: all that is intact, and nothing that was never written.
use super::conformance::any_history;
use super::damage::{Store, store};
use super::format::{LAST, fixture};
use super::manual_machine::ManualMachine;
use super::model::{
    Model, SMALL_LOGS, after, commit, current_log, end_of_frames, open, read_files, write_files,
};
use proptest::prelude::*;
use statestored_storage::durable::{self, SalvageReport};
use statestored_storage::{DurableOptions, Record, Storage, StorageError, Write};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use tempfile::TempDir;

type FileContents = BTreeMap<String, Vec<u8>>;
/// Key, value and version of a record.
type Identity = (Vec<u8>, Vec<u8>, (u64, u64));

/// Salvages these files; the new store has to be intact, and the files stay as they are.
fn salvage(files: &FileContents, case: &str) -> (SalvageReport, Model) {
    let place = TempDir::new().expect("a temporary directory");
    let (from, to) = (place.path().join("damaged"), place.path().join("new"));
    write_files(&from, files);
    let report = durable::salvage(&from, &to, &mut |_| Ok(())).expect(case);
    assert_eq!(read_files(&from), *files, "{case}: the files were changed");
    let checked = durable::check(&to, &mut |_| Ok(())).expect("readable");
    assert!(checked.damage.is_empty(), "{case}: {checked:?}");
    assert!(checked.unknown_files.is_empty(), "{case}: {checked:?}");
    assert_eq!(checked.records, Some(report.records), "{case}");
    let (_, model) = open(&to, SMALL_LOGS).expect("a store");
    assert_eq!(model.records.len() as u64, report.records, "{case}");
    (report, model)
}

/// The content after these commits alone.
fn after_only(numbers: impl Iterator<Item = u64>) -> Model {
    let mut model = Model::default();
    for number in numbers {
        model.apply(&commit(number));
    }
    model
}

/// Asserts that the content is that of these commits, and that versions continue above all of them.
fn assert_salvaged(model: &Model, numbers: impl Iterator<Item = u64>) {
    let mut expected = after_only(numbers);
    expected.clock = Some(expected.highest());
    assert!(*model == expected, "{model:?} instead of {expected:?}");
}

/// Every record that the commits up to this one wrote.
fn written(last: u64) -> HashSet<Identity> {
    let mut records = HashSet::new();
    for number in 1..=last {
        for write in commit(number).into_iter().flat_map(|batch| batch.writes) {
            if let Write::Put(record) = write {
                records.insert(identity(&record));
            }
        }
    }
    records
}

fn identity(record: &Record) -> Identity {
    (record.key.to_vec(), record.value.to_vec(), record.version)
}

/// The positions of the frames of a file.
fn frames(content: &[u8]) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let mut begin = 40;
    while content[begin..].starts_with(b"\x93SSF") {
        let length = content[begin + 16..begin + 24].try_into().expect("8 bytes");
        let end = begin + 28 + usize::try_from(u64::from_le_bytes(length)).expect("it is there");
        frames.push(begin..end);
        begin = end;
    }
    frames
}

/// A store that was never merged, of these commits, with at least so many logs.
fn logs(min_count: usize) -> (FileContents, u64) {
    let place = TempDir::new().expect("a temporary directory");
    let folder = place.path().join("store");
    let mut storage = ManualMachine::default()
        .open(&folder, SMALL_LOGS)
        .expect("a store");
    Model::load(&mut storage).expect("loads");
    let mut sequence = 0;
    loop {
        sequence += 1;
        storage.commit(&commit(sequence)).expect("commit");
        storage.prepare().expect("room");
        let files = read_files(&folder);
        let logs = files.iter().filter(|(name, _)| name.starts_with("log-"));
        if logs
            .filter(|(_, content)| end_of_frames(content) > 40)
            .count()
            >= min_count
            && frames(&files[&current_log(&files)]).len() > 5
        {
            return (files, sequence);
        }
    }
}

/// The first and the last commit of a log.
fn commits(log: &[u8]) -> (u64, u64) {
    let first = u64::from_le_bytes(log[32..40].try_into().expect("8 bytes"));
    (first, first + frames(log).len() as u64 - 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn an_intact_store_is_salvaged_completely(groups in any_history()) {
        let place = TempDir::new().expect("a temporary directory");
        let folder = place.path().join("store");
        let (mut storage, _) = open(&folder, SMALL_LOGS).expect("a new store");
        let mut expected = Model::default();
        for batches in &groups {
            storage.commit(batches).expect("commit");
            storage.prepare().expect("room");
            expected.apply(batches);
        }
        let killed = read_files(&folder);
        let seed = storage.seed();
        drop(storage);
        for (files, case) in [(killed, "killed"), (read_files(&folder), "closed")] {
            let (report, model) = salvage(&files, case);
            assert!(report.losses.is_empty(), "{case}: {report:?}");
            assert_eq!((report.possibly_stale, report.lost_commits), (0, 0));
            assert!(model == expected, "{case}: {model:?} instead of {expected:?}");
        }
        let to = place.path().join("new");
        durable::salvage(&folder, &to, &mut |_| Ok(())).expect("salvaged");
        let (storage, _) = open(&to, DurableOptions::default()).expect("a store");
        assert_eq!(storage.seed(), seed, "SCAN tokens stay valid");
    }
}

#[test]
fn a_store_without_its_manifest_is_salvaged_completely() {
    let Store {
        last,
        killed,
        closed,
    } = store();
    let (never_merged, count) = logs(4);
    let stores = [
        (fixture(), LAST),
        (killed, last),
        (closed, last),
        (never_merged, count),
    ];
    for (mut files, last) in stores {
        let manifest = files
            .remove("statestore.manifest")
            .expect("there is a manifest");
        let garbage = b"no manifest".to_vec();
        for manifest in [None, Some(garbage), Some(manifest[..40].to_vec())] {
            let mut files = files.clone();
            files.extend(manifest.map(|manifest| ("statestore.manifest".to_owned(), manifest)));
            let (report, model) = salvage(&files, "without the manifest");
            assert_eq!(report.losses.len(), 1, "{report:?}");
            assert!(
                report.losses[0].path.ends_with("statestore.manifest"),
                "{report:?}"
            );
            assert_eq!(report.possibly_stale, 0);
            assert_salvaged(&model, 1..=last);
        }
    }
}

/// Salvages each changed file of both stores. All that comes back was written once, and all of it if no loss is reported.
fn damage_each_file(change: impl Fn(&[u8]) -> Vec<(String, Option<Vec<u8>>)>) {
    let store = store();
    let expected = after(store.last);
    let written = written(store.last);
    for (kind, files) in [("killed", &store.killed), ("closed", &store.closed)] {
        for (name, content) in files {
            for (what, changed) in change(content) {
                let case = format!("{kind} {name} {what}");
                let mut damaged = files.clone();
                match changed {
                    Some(changed) => damaged.insert(name.clone(), changed),
                    None => damaged.remove(name),
                };
                let (report, model) = salvage(&damaged, &case);
                for record in model.records.values() {
                    assert!(written.contains(&identity(record)), "{case}: {record:?}");
                }
                if report.losses.is_empty() {
                    assert!(model == expected, "{case}: a loss is not reported");
                }
                if report.lost_commits == 0 && !name.starts_with("base-") {
                    assert!(model.records == expected.records, "{case}: {report:?}");
                }
            }
        }
    }
}

#[test]
fn flipped_bits_invent_nothing() {
    damage_each_file(|content| {
        let end = end_of_frames(content);
        let places = (0..end).step_by(end / 16 + 1);
        let flip = |at: usize| {
            let mut flipped = content.to_vec();
            flipped[at] ^= 1 << (at % 8);
            (format!("flipped at {at}"), Some(flipped))
        };
        places.map(flip).collect()
    });
}

#[test]
fn truncated_zeroed_foreign_and_missing_files_invent_nothing() {
    damage_each_file(|content| {
        let end = end_of_frames(content);
        let mut cases = vec![
            ("missing".to_owned(), None),
            ("text".to_owned(), Some(b"key = value\n".repeat(300))),
            ("zeros".to_owned(), Some(vec![0; content.len()])),
            ("twice".to_owned(), Some(content.repeat(2))),
        ];
        for at in (0..end).step_by(end / 6 + 1) {
            cases.push((format!("cut to {at}"), Some(content[..at].to_vec())));
            let mut zeroed = content.to_vec();
            zeroed[at..(at + 64).min(end)].fill(0);
            cases.push((format!("zeros at {at}"), Some(zeroed)));
        }
        cases
    });
}

#[test]
fn only_the_damaged_commit_of_a_log_is_lost() {
    let (files, last) = logs(1);
    let log = current_log(&files);
    let (first, end) = commits(&files[&log]);
    assert_eq!(end, last);
    let damaged_commit = first + 2;
    let frame = frames(&files[&log])[2].clone();
    // The checksum of the header, the header, and the payload.
    for at in [frame.start + 5, frame.start + 17, frame.start + 40] {
        let mut damaged = files.clone();
        damaged.get_mut(&log).expect("the log")[at] ^= 4;
        let (report, model) = salvage(&damaged, "a flipped bit");
        let [loss] = &report.losses[..] else {
            panic!("{report:?}")
        };
        assert!(loss.path.ends_with(&log), "{loss:?}");
        assert_eq!(loss.bytes, Some(frame.start as u64..frame.end as u64));
        assert_eq!(
            loss.problem,
            format!("is damaged; commit {damaged_commit} is lost"),
            "{at}"
        );
        assert_eq!(report.lost_commits, 1);
        assert_salvaged(&model, (1..damaged_commit).chain(damaged_commit + 1..=last));
        let later = after_only(damaged_commit + 1..=last).records.len() as u64;
        assert_eq!(report.possibly_stale, report.records - later);
    }
}

#[test]
fn a_zeroed_page_loses_its_commits() {
    let (files, last) = logs(1);
    let log = current_log(&files);
    let all = frames(&files[&log]);
    let (first, _) = commits(&files[&log]);
    let mut damaged = files.clone();
    damaged.get_mut(&log).expect("the log")[all[1].start + 3..all[3].end - 1].fill(0);
    let (report, model) = salvage(&damaged, "zeros");
    assert_eq!(report.lost_commits, 3, "{report:?}");
    assert_salvaged(&model, (1..=first).chain(first + 4..=last));
}

#[test]
fn a_missing_log_loses_its_commits() {
    let (files, last) = logs(4);
    let names: Vec<_> = files
        .keys()
        .filter(|name| name.starts_with("log-") && **name != current_log(&files))
        .filter(|name| end_of_frames(&files[*name]) > 40)
        .cloned()
        .collect();
    for name in names {
        let (first, end) = commits(&files[&name]);
        let expected = (1..first).chain(end + 1..=last);
        let problem = format!("commits {first} to {end} are lost");
        for garbage in [None, Some(b"garbage ".repeat(400))] {
            let mut damaged = files.clone();
            damaged.remove(&name);
            damaged.extend(garbage.map(|garbage| (name.clone(), garbage)));
            let (report, model) = salvage(&damaged, &name);
            let losses = &report.losses;
            assert!(
                losses
                    .iter()
                    .any(|loss| loss.path.ends_with(&name) && loss.problem.contains(&problem)),
                "{report:?}"
            );
            assert_eq!(report.lost_commits, end + 1 - first);
            assert_salvaged(&model, expected.clone());
        }
    }
}

#[test]
fn acknowledged_commits_that_were_cut_off_are_reported() {
    let (files, last) = logs(1);
    let log = current_log(&files);
    let all = frames(&files[&log]);
    let cut = all[all.len() - 2].start + 9;
    let mut damaged = files.clone();
    damaged.get_mut(&log).expect("the log").truncate(cut);
    let (report, model) = salvage(&damaged, "cut off");
    assert_eq!(report.lost_commits, 2, "{report:?}");
    let problem = &report.losses[0].problem;
    assert!(
        problem.ends_with(&format!("commits {} to {last} are lost", last - 1)),
        "{problem}"
    );
    assert_salvaged(&model, 1..=last - 2);
    // Without the mark, the end is unknown.
    damaged.remove("acknowledged");
    let (report, model) = salvage(&damaged, "cut off, without a mark");
    assert_eq!(report.lost_commits, 0, "{report:?}");
    assert!(report.losses[0].problem.contains("may be lost"));
    assert_salvaged(&model, 1..=last - 2);
}

#[test]
fn an_unfinished_commit_and_other_files_are_no_loss() {
    let (mut files, last) = logs(1);
    let log = current_log(&files);
    let end = end_of_frames(&files[&log]);
    let content = files.get_mut(&log).expect("the log");
    content.truncate(end);
    content.extend(b"torn");
    files.insert("notes.txt".into(), b"mine".to_vec());
    files.insert("log-999".into(), b"left".to_vec());
    let (report, model) = salvage(&files, "torn");
    assert!(report.losses.is_empty(), "{report:?}");
    assert!(report.torn_log.is_some_and(|path| path.ends_with(&log)));
    assert!(model == after(last));
}

#[test]
fn a_damaged_base_loses_only_records_that_no_log_has() {
    let store = store();
    let expected = after(store.last);
    let name = store
        .closed
        .keys()
        .find(|name| name.starts_with("base-"))
        .expect("a base");
    let mut damaged = store.closed.clone();
    let content = damaged.get_mut(name).expect("the base");
    let at = content.len() - 20;
    content[at] ^= 1;
    let (report, model) = salvage(&damaged, "a base");
    assert_eq!(
        report.losses[0].problem,
        "is damaged; all records from block 1 on are lost"
    );
    assert_eq!((report.lost_commits, report.possibly_stale), (0, 0));
    assert!(!model.records.is_empty());
    for (key, record) in &model.records {
        assert_eq!(expected.records.get(key), Some(record));
    }
    assert_eq!(model.clock, expected.clock);
}

#[test]
fn nothing_is_created_without_a_source() {
    let place = TempDir::new().expect("a temporary directory");
    let path = |name: &str| place.path().join(name);
    let run = |from: &Path, to: &Path| durable::salvage(from, to, &mut |_| Ok(()));
    fs::create_dir(path("empty")).expect("creatable");
    fs::create_dir(path("other")).expect("creatable");
    fs::write(path("other").join("log-1"), "text").expect("writable");
    for name in ["missing", "empty", "other"] {
        run(&path(name), &path("new")).expect_err(name);
        assert!(!path("new").exists(), "{name}");
    }

    let files = fixture();
    write_files(&path("data"), &files);
    let newer = {
        let text = String::from_utf8(files["statestore.manifest"].clone()).expect("text");
        let begin = text.find("checksum ").expect("a checksum");
        let content = text[..begin].replace("format 1", "format 2");
        let checksum = crc32fast::hash(content.as_bytes());
        format!("{content}checksum {checksum:08x}\n")
    };
    let mut of_newer_format = files.clone();
    of_newer_format.insert("statestore.manifest".into(), newer.into_bytes());
    write_files(&path("newer"), &of_newer_format);
    let error = run(&path("newer"), &path("new")).expect_err("a newer format");
    assert!(error.to_string().contains("format 2"), "{error}");
    assert!(!path("new").exists());

    // Inside of the damaged folder.
    fs::create_dir(path("data").join("in")).expect("creatable");
    for name in ["data", "data/in", "data/in/new", "data/new"] {
        let error = run(&path("data"), &path(name)).expect_err(name);
        assert!(error.to_string().contains("damaged directory"), "{error}");
    }
    fs::remove_dir(path("data").join("in")).expect("empty");
    assert_eq!(read_files(&path("data")), files);

    let error = run(&path("data"), &path("newer")).expect_err("not empty");
    assert!(error.to_string().contains("which holds"), "{error}");
    assert_eq!(read_files(&path("newer")), of_newer_format);
    let stopped = durable::salvage(&path("data"), &path("deep/new"), &mut |_| {
        Err(StorageError::Stopped)
    });
    assert!(matches!(stopped, Err(StorageError::Stopped)));
    assert!(!path("deep").exists());

    let running = open(&path("data"), SMALL_LOGS).expect("a store");
    let error = run(&path("data"), &path("new")).expect_err("in use");
    assert!(matches!(error, StorageError::InUse(_)), "{error}");
    drop(running);
    run(&path("data"), &path("new")).expect("salvaged");
}
