//! SIGHUP while the process begins.
use crate::peer::{TIMEOUT, statestored};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A process that is killed at the end of the test.
struct StartingServer {
    child: Child,
    log: Receiver<String>,
}

impl StartingServer {
    fn new(arguments: &[&str]) -> Self {
        let mut child = statestored(arguments)
            .args(["--storage", "memory", "--log", "info"])
            .args(["--listen", "tcp://127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (lines, log) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The test may have ended.
                let _ = lines.send(line);
            }
        });
        Self { child, log }
    }

    fn hang_up(&self) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-HUP", &id]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until it listens.
    fn listens(&mut self) {
        let mut line = String::new();
        let stdout = self.child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line:?}");
    }

    fn until_logged(&self, text: &str) {
        loop {
            let line = self.log.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|error| panic!("no {text:?} is logged: {error}"));
            if line.contains(text) {
                return;
            }
        }
    }
}

impl Drop for StartingServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Opens a pipe once the process reads it.
fn open_when_read(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

#[test]
fn sighup_during_startup_causes_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    for (option, content) in [
        ("--config", "max-keys = 1000\n"),
        ("--users-file", "ann:secret\n"),
    ] {
        let path = folder.path().join(option);
        pipe(&path);
        let mut process = StartingServer::new(&[option, path.to_str().unwrap()]);
        let mut file = open_when_read(&path);
        process.hang_up();
        // The reader may be gone.
        let _ = file.write_all(content.as_bytes());
        drop(file);
        process.listens();
        open_when_read(&path).write_all(content.as_bytes()).unwrap();
        process.until_logged("read again");
    }
}

#[test]
fn sighup_during_a_reload_causes_another_reload() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let next = folder.path().join("next");
    std::fs::write(&path, "max-keys = 1\n").unwrap();
    let mut process = StartingServer::new(&["--config", path.to_str().unwrap()]);
    process.listens();
    pipe(&next);
    std::fs::rename(&next, &path).unwrap();
    process.hang_up();
    let mut first = open_when_read(&path);
    process.hang_up();
    pipe(&next);
    std::fs::rename(&next, &path).unwrap();
    first.write_all(b"max-keys = 2\n").unwrap();
    drop(first);
    let mut second = open_when_read(&path);
    std::fs::write(&next, "no-option = 1\n").unwrap();
    std::fs::rename(&next, &path).unwrap();
    second.write_all(b"max-keys = 3\n").unwrap();
    drop(second);
    process.until_logged("read again");
    process.until_logged("read again");
    // A reload too many would read the broken file.
    let stopped = Command::new("kill")
        .arg(process.child.id().to_string())
        .status()
        .unwrap();
    assert!(stopped.success());
    process.child.wait().unwrap();
    let lines: Vec<String> = process.log.iter().collect();
    let is_failure = |line: &String| line.contains("cannot reload");
    assert!(!lines.iter().any(is_failure), "{lines:#?}");
}

#[test]
fn a_tool_ends_at_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    pipe(&path);
    let passwd = statestored(&["passwd", "--stdin", path.to_str().unwrap(), "ann"]);
    // The test may have been started with the signal ignored, as by nohup.
    let mut tool = Command::new("env")
        .arg("--default-signal=HUP")
        .arg(passwd.get_program())
        .args(passwd.get_args())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tool.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    // The tool reads the users until then.
    let _users = open_when_read(&path);
    let id = tool.id().to_string();
    let status = Command::new("kill").args(["-HUP", &id]).status().unwrap();
    assert!(status.success());
    let status = tool.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(1), "{status}");
}
