//! Records as text, out of a store and into one.
use crate::peer::statestored;
use crate::tools::{TestFolder, export, fail, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn merging_keeps_the_newer_version_of_a_key() {
    let place = TestFolder::new();
    let lines = |name: &str, records: &[(&str, &str, u64)], floor: u64| {
        let mut text = format!(
            "{{\"statestore_export\":1,\"made\":\"\",\"records\":{},\"floor\":\"{floor}:0:StateStore\"}}\n",
            records.len()
        );
        for (key, value, version) in records {
            writeln!(
                text,
                "{{\"key\":\"{key}\",\"value\":\"{value}\",\"version\":\"{version}:0:StateStore\"}}"
            )
            .unwrap();
        }
        fs::write(place.path(name), text).unwrap();
        place.text(name)
    };
    let here = lines(
        "here",
        &[
            ("a", "old", 1),
            ("b", "new", 9),
            ("c", "same", 5),
            ("d", "here", 1),
        ],
        7,
    );
    let there = lines(
        "there",
        &[
            ("a", "new", 2),
            ("b", "old", 8),
            ("c", "other", 5),
            ("e", "there", 1),
        ],
        6,
    );
    let data = place.text("data");
    run(&["import", &here, "--data-dir", &data]);
    for _ in 0..2 {
        let said = run(&["import", &there, "--data-dir", &data, "--merge"]);
        assert_eq!(said, format!("5 records are in {data}\n"));
        let values: BTreeSet<String> = export(&["--data-dir", &data])
            .iter()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                format!(
                    "{}={}",
                    line["key"].as_str().unwrap(),
                    line["value"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(
            values,
            ["a=new", "b=new", "c=same", "d=here", "e=there"]
                .map(String::from)
                .into()
        );
        let text = run(&["export", "--data-dir", &data]);
        assert!(
            text.lines()
                .next()
                .unwrap()
                .contains("\"floor\":\"000000000000007:00000:StateStore\"")
        );
        run(&["check", &data]);
    }
}

#[test]
fn invalid_lines_are_reported_and_change_nothing() {
    let place = TestFolder::new();
    let data = place.fill("data", 3);
    let before = export(&["--data-dir", &data]);
    let head = r#"{"statestore_export":1,"made":"","records":1}"#;
    let good = r#"{"key":"k","value":"v","version":"1:0:StateStore"}"#;
    let many = head.replace(":1}", ":2}");
    for (text, hint) in [
        (String::new(), "line 0: this is not the header"),
        ("{}".into(), "line 1: this is not the header of an export"),
        (
            head.replace("export\":1", "export\":2"),
            "line 1: the export has format 2",
        ),
        (
            head.into(),
            "the number of records is 0, but the header announces 1",
        ),
        (
            format!("{head}\n{good}\n{good}"),
            "line 3: this key exists twice",
        ),
        (
            format!("{many}\n{good}\n"),
            "the number of records is 1, but the header announces 2",
        ),
        (
            format!("{head}\n{}", good.replace("\"key\":\"k\",", "")),
            "line 2: it has either `key` or `key_base64`",
        ),
        (
            format!("{head}\n{}", good.replace("\"k\"", "\"\"")),
            "line 2: the key is empty",
        ),
        (
            format!("{head}\n{}", good.replace("value\"", "value_base64\"")),
            "line 2: `value_base64` is not base64",
        ),
        (
            format!("{head}\n{}", good.replace("1:0:StateStore", "1:0")),
            "line 2: `version`: an HLC has",
        ),
        (
            format!("{head}\n{}", good.replace("1:0:StateStore", "1:0:me")),
            "line 2: the node of `version`",
        ),
        (
            format!("{head}\n{}", good.replace('}', ",\"more\":1}")),
            "line 2: unknown field `more`",
        ),
        (
            format!("{head}\n{}", good.replace('}', "")),
            "line 2: EOF while parsing",
        ),
    ] {
        let file = place.text("lines");
        fs::write(&file, text).unwrap();
        let (code, said) = fail(&["import", &file, "--data-dir", &place.text("never")]);
        assert!(
            code == 1 && said.contains(hint),
            "{hint:?} is not in {said:?}"
        );
        assert!(!place.path("never").exists());
        let (code, said) = fail(&["import", &file, "--data-dir", &data, "--merge"]);
        assert!(
            code == 1 && said.contains(hint),
            "{hint:?} is not in {said:?}"
        );
    }
    assert_eq!(export(&["--data-dir", &data]), before);
}

#[test]
fn an_export_to_a_closed_pipe_ends_quietly() {
    let place = TestFolder::new();
    let data = place.fill("data", 3_000);
    let mut child = statestored(&["export", "--data-dir", &data])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    drop(output);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn merging_into_a_missing_folder_creates_a_store() {
    let place = TestFolder::new();
    let data = place.fill("data", 3);
    let (lines, new) = (place.text("fill.jsonl"), place.text("new"));
    run(&["import", &lines, "--data-dir", &new, "--merge"]);
    assert_eq!(
        export(&["--data-dir", &new]),
        export(&["--data-dir", &data])
    );
    let taken = place.path("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("letter.txt"), "Dear all").unwrap();
    let (code, text) = fail(&[
        "import",
        &lines,
        "--data-dir",
        taken.to_str().unwrap(),
        "--merge",
    ]);
    assert!(code == 1 && text.contains("letter.txt"), "{text}");
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
}
