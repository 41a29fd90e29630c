//! Errors are one line that says what to do.
use crate::peer::{Daemon, Peer, statestored};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Output, Stdio};

/// Runs it with arguments that it cannot start with.
fn fail(arguments: &[&str]) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = statestored(arguments)
        .args(["--log", "error"])
        .output()
        .unwrap();
    assert!(stdout.is_empty());
    (status.code(), String::from_utf8(stderr).unwrap())
}

fn assert_one_line(text: &str, hints: &[&str]) {
    assert!(
        text.starts_with("statestored: ") && text.ends_with('\n'),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    for hint in hints {
        assert!(text.contains(hint), "{hint:?} is not in {text:?}");
    }
}

#[test]
fn a_port_in_use() {
    let daemon = Daemon::in_memory();
    let address = format!("tcp://{}", daemon.address);
    let (code, text) = fail(&["--storage", "memory", "--listen", &address]);
    assert_eq!(code, Some(1));
    assert_one_line(&text, &[&address, "in use", "--listen"]);
}

#[test]
fn a_data_folder_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let _daemon = Daemon::start(&["--data-dir", path]);
    let (code, text) = fail(&["--data-dir", path, "--listen", "tcp://127.0.0.1:0"]);
    assert_eq!(code, Some(1));
    assert_one_line(&text, &[path]);
}

#[test]
fn a_foreign_folder_as_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter.txt");
    std::fs::write(&file, "Dear all").unwrap();
    let path = folder.path().to_str().unwrap();
    let (code, text) = fail(&["--data-dir", path, "--listen", "tcp://127.0.0.1:0"]);
    assert_eq!(code, Some(1));
    assert_one_line(&text, &[path]);
    assert_eq!(std::fs::read(&file).unwrap(), b"Dear all");
}

#[test]
fn contradictions_and_unusable_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (code, text) = fail(&["--storage", "memory", "--data-dir", path]);
    assert_eq!(code, Some(1));
    assert_one_line(&text, &["--data-dir", "--storage memory"]);
    let absent = folder.path().join("absent");
    let (_, text) = fail(&[
        "--storage",
        "memory",
        "--users-file",
        absent.to_str().unwrap(),
    ]);
    assert_one_line(&text, &["cannot read", "absent"]);
    let users = folder.path().join("users");
    for (content, hint) in [
        ("ann:x\nbob\n", "line 2: expected NAME:PASSWORD"),
        ("ann:x\nann:y\n", "line 2: this user exists twice"),
        ("ann:\n", "line 1: the password is empty"),
        ("# nobody\n", "is empty"),
    ] {
        std::fs::write(&users, content).unwrap();
        let (_, text) = fail(&[
            "--storage",
            "memory",
            "--users-file",
            users.to_str().unwrap(),
        ]);
        assert_one_line(&text, &[hint]);
    }
}

#[test]
fn bad_options_are_usage_errors() {
    for arguments in [
        &["--listen", "http://x:1"][..],
        &["--max-packet-bytes", "10"],
        &["--max-keys", "many"],
        &["--user", "ann"],
        &["--frobnicate"],
    ] {
        let (code, text) = fail(arguments);
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(text.contains("--help"), "{text}");
    }
}

#[test]
fn the_default_folder_is_in_the_users_data_folder() {
    let home = tempfile::tempdir().unwrap();
    let xdg = tempfile::tempdir().unwrap();
    for (variables, expected) in [
        (
            vec![("HOME", home.path())],
            home.path().join(".local/share/statestored"),
        ),
        (
            vec![("HOME", home.path()), ("XDG_DATA_HOME", xdg.path())],
            xdg.path().join("statestored"),
        ),
    ] {
        let daemon = Daemon::start_with(&[], &variables);
        assert!(expected.is_dir(), "{expected:?}");
        drop(daemon);
    }
}

#[test]
fn help_contains_examples() {
    let output = statestored(&["--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("Examples:") && text.contains("--storage memory"),
        "{text}"
    );
}

#[test]
fn each_listener_is_one_line_on_standard_output() {
    let listen = ["--listen", "tcp://127.0.0.1:0"];
    let mut child = statestored(&["--storage", "memory", "--log", "off"])
        .args([listen, listen].concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let addresses: Vec<_> = BufReader::new(stdout)
        .lines()
        .take(2)
        .map(|line| {
            let line = line.unwrap();
            line.strip_prefix("listening on tcp://")
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert_ne!(addresses[0], addresses[1]);
    let mut first = Peer::connect(addresses[0], "first");
    let mut second = Peer::connect(addresses[1], "second");
    assert_eq!(first.request(1, &[b"SET", b"k", b"v"]), b"+OK\r\n");
    assert_eq!(second.request(1, &[b"GET", b"k"]), b"$1\r\nv\r\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn no_color_is_respected() {
    for (no_color, has_colours) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let path = ptsname(&terminal, Vec::new()).unwrap().into_string();
        let inside = File::options().read(true).write(true).open(path.unwrap());
        let mut process = statestored(&["--storage", "memory", "--listen", "tcp://127.0.0.1:0"])
            .env_remove("NO_COLOR")
            .envs(no_color.map(|value| ("NO_COLOR", value)))
            .stdout(Stdio::piped())
            .stderr(inside.unwrap())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert!(ready.starts_with("listening on "), "{ready:?}");
        // A signal that it can obey, since its log comes behind: at its end everything is told.
        let id = Pid::from_child(&process);
        kill_process(id, Signal::TERM).unwrap();
        process.wait().unwrap();
        let mut shown = Vec::new();
        // A terminal without an inner end is a read error, not an end of file.
        let _ = File::from(terminal).read_to_end(&mut shown);
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("INFO"), "{shown:?}");
        assert_eq!(
            shown.contains('\x1b'),
            has_colours,
            "{no_color:?} {shown:?}"
        );
    }
}

#[test]
fn a_check_does_not_wait_for_a_pipe_without_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let path = pipe.to_str().unwrap();
    let check = |options: &[&str]| {
        statestored(&[options, &["--storage", "memory", "--check"]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let checks = [
        check(&["--user", "ann", "--password-file", path]),
        check(&["--users-file", path]),
        check(&["--policy-file", path]),
        check(&["--tls-cert", path, "--tls-key", path]),
        check(&["--http", "http://127.0.0.1:0", "--http-token-file", path]),
        check(&["--config", path]),
    ];
    for check in checks {
        let output = check.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let problem = format!("cannot read {path} within 5 s: it is a pipe without a writer");
        assert!(text.contains(&problem), "{text}");
    }
    // A pipe that can be read, such as <(COMMAND) of a shell.
    let mut readable = check(&["--user", "ann", "--password-file", "/dev/stdin"]);
    let mut stdin = readable.stdin.take().unwrap();
    stdin.write_all(b"secret\n").unwrap();
    drop(stdin);
    let output = readable.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
