//! The end of a server while something is asked of it over HTTP.
use crate::http::{TIMEOUT, TOKEN, bearer, open, start, with_users_file};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use statestored::RunningServer;
use statestored::config::{AttachConfig, Config};
use statestored_broker::hub::BrokerConfig;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Instant;

/// Puts something in the place of a file that can be opened and never gives anything, like one of a server that is away.
fn make_fifo(path: &Path) {
    std::fs::remove_file(path).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Opens the other end of the pipe once the server reads from it.
fn open_when_read(path: &Path) -> File {
    let begin = Instant::now();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    loop {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(path);
        if let Ok(other_end) = opened {
            return other_end;
        }
        assert!(begin.elapsed() < TIMEOUT, "nobody reads");
        std::thread::yield_now();
    }
}

/// Whether the server ends although the pipe that it reads from stays empty.
fn stops_in_time(server: RunningServer) -> bool {
    let (told, stopped) = channel();
    std::thread::spawn(move || told.send(server.stop().is_ok()));
    stopped.recv_timeout(TIMEOUT) == Ok(true)
}

#[test]
fn a_stalled_password_file_does_not_block_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "secret\n").unwrap();
    make_fifo(&file);
    let server = start(Config {
        attach: Some(AttachConfig {
            address: "mqtt://127.0.0.1:1".parse().unwrap(),
            terms: BrokerConfig::default(),
            user: Some(("store".into(), file.clone())),
            ca: None,
            identity: None,
            identity_key: None,
        }),
        ..Config::in_memory()
    });
    let other_end = open_when_read(&file);
    assert!(stops_in_time(server));
    drop(other_end);
}

#[test]
fn a_stalled_reload_does_not_block_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:secret\n").unwrap();
    let server = start(with_users_file(file.clone()));
    make_fifo(&file);
    let mut asking = open(server.http_address().unwrap());
    let request = format!(
        "POST /api/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{}\r\n",
        bearer(TOKEN)
    );
    asking.write_all(request.as_bytes()).unwrap();
    let other_end = open_when_read(&file);
    assert!(stops_in_time(server));
    drop(other_end);
}
