//! `statestore admin`, `health` and `top`: a server looked after over its HTTP port.
#[cfg(target_os = "linux")]
use crate::disk::Disk;
use crate::harness::{Run, Store, interrupt, run, statestore, terminate};
use serde_json::json;
use statestored::admin::{AdminConfig, Token};
use statestored::config::{Config, ConfigLayers, ConfigSource, LogControl};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

const TOKEN: &str = "a-token-that-nobody-guesses";

/// A store on disk that has an HTTP port, and the token's file.
pub(crate) struct AdminFixture {
    pub(crate) store: Store,
    folder: TempDir,
}

impl AdminFixture {
    pub(crate) fn start() -> Self {
        Self::with(|_| ())
    }

    /// Starts a store with a different configuration of its HTTP port.
    fn with(change: impl FnOnce(&mut AdminConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        let mut config = Config::durable(folder.path().join("data"));
        let token = Token::new(TOKEN).unwrap();
        let address = "http://127.0.0.1:0".parse().unwrap();
        let mut admin = AdminConfig::new(address, Some(token)).unwrap();
        change(&mut admin);
        config.admin = Some(admin);
        Self {
            store: Store::with(config),
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `statestore` that knows where, but not the token.
    fn command_without_token(&self, arguments: &[&str]) -> Command {
        let mut command = self.store.command(arguments);
        command.env("STATESTORE_ADMIN", self.store.admin_url());
        command
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_without_token(arguments);
        command.env("STATESTORE_ADMIN_TOKEN_FILE", self.path("token"));
        command
    }

    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let run = run(self.command(arguments), b"");
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        String::from_utf8(run.stdout).unwrap()
    }
}

#[test]
fn administration_requires_the_token() {
    let watched = AdminFixture::start();
    watched.store.ok(["set", "key", "value"]);
    let status: serde_json::Value =
        serde_json::from_str(&watched.ok(&["admin", "status"])).unwrap();
    assert_eq!(status["counts"]["keys"], 1);
    assert_eq!(
        watched.ok(&["admin", "reload"]),
        "reloaded; 0 clients disconnected\n"
    );
    let refused = run(watched.command_without_token(&["admin", "reload"]), b"");
    refused.assert_error(4, "token");
    std::fs::write(watched.path("token"), "another-token-that-is-wrong").unwrap();
    let refused = run(watched.command(&["admin", "delete", "key"]), b"");
    refused.assert_error(4, "not the token");
    assert!(!refused.stderr.contains("another-token"));
    std::fs::write(watched.path("token"), TOKEN).unwrap();
    assert_eq!(watched.ok(&["admin", "delete", "key"]), "deleted\n");
    assert_eq!(
        run(watched.command(&["admin", "delete", "key"]), b"").code,
        Some(1)
    );
    run(watched.command(&["admin", "disconnect", "nobody"]), b"").assert_error(1, "no such client");
}

#[test]
fn a_reload_names_the_options_that_need_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("statestored.toml");
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let write = |further: &str| {
        let text = format!(
            "storage = 'memory'\nlisten = ['tcp://127.0.0.1:0']\nhttp = 'http://127.0.0.1:0'\n\
             http-token-file = '{}'\n{further}\n",
            token.display()
        );
        std::fs::write(&file, text).unwrap();
    };
    write("");
    let command_line = [
        "statestored".into(),
        "--config".into(),
        file.clone().into_os_string(),
    ];
    let layers = ConfigLayers::new(command_line);
    let read = move || layers.read()?.into_config();
    let mut config = read().unwrap();
    config.source = Some(ConfigSource::new(read));
    let store = Store::with(config);
    let reload = || {
        let mut command = store.command(["admin", "reload"]);
        command.env("STATESTORE_ADMIN", store.admin_url());
        command.env("STATESTORE_ADMIN_TOKEN_FILE", folder.path().join("own"));
        run(command, b"")
    };
    std::fs::write(folder.path().join("own"), TOKEN).unwrap();
    assert_eq!(reload().code, Some(0));
    write("max-keys = 5");
    assert_eq!(reload().code, Some(0));
    write("trusted-proxy = ['192.0.2.7']\nmetrics-names = 'both'");
    std::fs::write(&token, "another-token-that-comes-later").unwrap();
    let reloaded = reload();
    assert_eq!(reloaded.code, Some(1));
    let text = String::from_utf8(reloaded.stdout).unwrap();
    let options = "metrics-names, trusted-proxy";
    assert!(
        text.ends_with(&format!("needs a restart: {options}\n")),
        "{text}"
    );
    reload().assert_error(4, "not the token");
    std::fs::write(folder.path().join("own"), "another-token-that-comes-later").unwrap();
    assert_eq!(reload().code, Some(1));
}

#[test]
fn the_log_filter_is_shown_and_changed() {
    let filter = Arc::new(Mutex::new("info".to_owned()));
    let (get, set) = (Arc::clone(&filter), filter);
    let log = LogControl::new(
        move || get.lock().unwrap().clone(),
        move |filter| *set.lock().unwrap() = filter.to_string(),
    );
    let watched = AdminFixture::with(|admin| admin.log = Some(log));
    assert_eq!(watched.ok(&["admin", "log"]), "info\n");
    let changed = watched.ok(&["admin", "log", "warn,statestored::audit=DEBUG"]);
    assert_eq!(changed, "warn,statestored::audit=debug\n");
    assert_eq!(watched.ok(&["admin", "log"]), changed);
    let refused = run(watched.command(&["admin", "log", "verbose"]), b"");
    refused.assert_error(4, "LEVEL or TARGET=LEVEL");
    let stranger = run(watched.command_without_token(&["admin", "log", "off"]), b"");
    stranger.assert_error(4, "token");
}

#[test]
fn a_backup_is_complete_and_replaces_no_file() {
    let watched = AdminFixture::start();
    watched.store.ok(["set", "key", "in the backup"]);
    let file = watched.path("store.backup");
    let name = file.to_str().unwrap();
    let told = watched.ok(&["admin", "backup", name]);
    let content = std::fs::read(&file).unwrap();
    assert_eq!(told, format!("{} bytes\n", content.len()));
    let value = b"in the backup";
    assert!(content.windows(value.len()).any(|part| part == value));
    run(watched.command(&["admin", "backup", name]), b"").assert_error(2, "exists");
    assert_eq!(std::fs::read(&file).unwrap(), content);
    assert!(!watched.path("store.backup.partial").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_backup_is_synced_to_disk() {
    let watched = AdminFixture::start();
    let file = watched.path("store.backup");
    let disk = Disk::under(file.parent().unwrap());
    let mut command = watched.command(&["admin", "backup", file.to_str().unwrap()]);
    command.envs(disk.variables());
    assert_eq!(run(command, b"").code, Some(0));
    assert_eq!(disk.trace(), ["sync store.backup.partial", "sync ."]);
}

/// Begins a backup and does not end it.
fn begin_backup(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut asked = [0; 4096];
    assert!(stream.read(&mut asked).unwrap() > 0);
    let begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n";
    stream.write_all(begun).unwrap();
    stream
}

#[test]
fn a_backup_ended_by_a_signal_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let file = folder.path().join("store.backup");
    let partial = folder.path().join("store.backup.partial");
    let name = file.to_str().unwrap();
    for tell in [interrupt as fn(&Child), terminate] {
        let child = statestore(["admin", "--admin", &url, "backup", name]).spawn();
        let child = child.unwrap();
        let _server = begin_backup(&listener);
        while std::fs::read(&partial).unwrap_or_default() != b"part" {
            std::thread::yield_now();
        }
        tell(&child);
        child.wait_with_output().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    // A file that was left by SIGKILL is named.
    std::fs::write(&partial, "left").unwrap();
    let child = statestore(["admin", "--admin", &url, "backup", name]).spawn();
    let _server = begin_backup(&listener);
    let refused = Run::from(child.unwrap().wait_with_output().unwrap());
    refused.assert_error(2, "store.backup.partial': File exists");
    assert_eq!(std::fs::read(&partial).unwrap(), b"left");
}

/// Accepts a connection, and reads the request on it.
fn request(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut asked = [0; 4096];
    let length = stream.read(&mut asked).unwrap();
    let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
    (stream, asked)
}

#[test]
fn a_long_backup_is_awaited_while_the_server_answers_health_checks() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let file = folder.path().join("store.backup");
    let name = file.to_str().unwrap();
    let begin = |timeout: &str| {
        let arguments = [
            "admin",
            "--timeout",
            timeout,
            "--admin",
            &url,
            "backup",
            name,
        ];
        let child = statestore(arguments).spawn().unwrap();
        let (stream, asked) = request(&listener);
        assert!(asked.starts_with("POST /api/backup "), "{asked}");
        (child, stream)
    };
    let (child, mut backup) = begin("3s");
    let (mut other, asked) = request(&listener);
    assert!(asked.starts_with("GET /healthz "), "{asked}");
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    other.write_all(answer).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhole";
    backup.write_all(answer).unwrap();
    let ended = Run::from(child.wait_with_output().unwrap());
    assert_eq!(
        (ended.code, &ended.stdout[..]),
        (Some(0), &b"5 bytes\n"[..]),
        "{ended:?}"
    );
    std::fs::remove_file(&file).unwrap();

    let (child, _backup) = begin("100ms");
    let ended = Run::from(child.wait_with_output().unwrap());
    ended.assert_error(3, "no answer in time");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_single_user_or_client_is_counted_in_the_singular() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    for (users, disconnected, expected) in [
        ("1", "1", "reloaded; 1 user; 1 client disconnected\n"),
        ("0", "2", "reloaded; 0 users; 2 clients disconnected\n"),
    ] {
        let child = statestore(["admin", "reload", "--admin", &url]).spawn();
        let (mut stream, _) = request(&listener);
        let body = format!(r#"{{"users":{users},"disconnected":{disconnected}}}"#);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
        let ended = Run::from(child.unwrap().wait_with_output().unwrap());
        assert_eq!(String::from_utf8(ended.stdout).unwrap(), expected);
    }
}

#[test]
fn keys_of_any_bytes_can_be_deleted() {
    let watched = AdminFixture::start();
    for key in [r"a\x00\\", r"a\xff"] {
        watched.store.ok(["set", "--escaped", key, "value"]);
        assert_eq!(
            watched.ok(&["admin", "delete", "--escaped", key]),
            "deleted\n"
        );
    }
    assert_eq!(watched.store.ok(["scan"]), "");
    run(watched.command(&["admin", "delete", ""]), b"").assert_error(2, "the key is empty");
}

#[test]
fn health_has_exit_codes() {
    let watched = AdminFixture::start();
    let url = watched.store.admin_url();
    let alive = run(statestore(["health", "--admin", &url]), b"");
    assert_eq!(
        (alive.code, alive.stdout.as_slice()),
        (Some(0), &b"alive\n"[..])
    );
    let ready = run(statestore(["health", "--ready", "--admin", &url]), b"");
    assert_eq!(
        (ready.code, ready.stdout.as_slice()),
        (Some(0), &b"ready\n"[..])
    );
    watched.store.stop();
    run(statestore(["health", "--admin", &url]), b"").assert_error(3, "cannot ask");
    // A server that accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let nothing = run(
        statestore(["health", "--admin", &url, "--timeout", "200ms"]),
        b"",
    );
    nothing.assert_error(3, "no answer in time");
    for bad in [
        "ftp://127.0.0.1:1",
        "127.0.0.1:9883",
        "http://a@b:1",
        "http://a:1/x",
    ] {
        run(statestore(["health", "--admin", bad]), b"").assert_error(2, "expected http://");
    }
}

#[test]
fn options_are_accepted_before_and_after_the_action() {
    let watched = AdminFixture::start();
    let (url, token) = (watched.store.admin_url(), watched.path("token"));
    let options = ["--admin", &url, "--token-file", token.to_str().unwrap()];
    let backup = watched.path("store.backup");
    for action in [
        &["status"][..],
        &["reload"],
        &["log"],
        &["backup", backup.to_str().unwrap()],
        &["delete", "key"],
        &["disconnect", "absent"],
    ] {
        for arguments in [[action, &options].concat(), [&options[..], action].concat()] {
            let ended = run(statestore([&["admin"][..], &arguments].concat()), b"");
            let words = match action[0] {
                "delete" => "'key' is absent",
                "disconnect" => "no such client",
                "log" => "the log belongs to the program",
                _ => "",
            };
            assert!(ended.stderr.contains(words), "{ended:?}");
            let code = i32::from(!words.is_empty());
            assert_eq!(ended.code, Some(code), "{ended:?}");
            let _ = std::fs::remove_file(&backup);
        }
    }
}

#[test]
fn json_is_the_response_of_the_server() {
    let watched = AdminFixture::start();
    let json = |arguments: &[&str]| {
        let run = run(watched.command(&[&["--json"][..], arguments].concat()), b"");
        let lines = String::from_utf8_lossy(&run.stdout).lines().count();
        assert_eq!(lines, 1, "{run:?}");
        (run.code.unwrap(), run.json())
    };
    let reasons = json!([]);
    let alive = json!({"status": "alive", "reasons": reasons});
    assert_eq!(json(&["health"]), (0, alive));
    let ready = json!({"status": "ready", "reasons": reasons});
    assert_eq!(json(&["health", "--ready"]), (0, ready));
    watched.store.ok(["set", "key", "value"]);
    let (code, status) = json(&["admin", "status"]);
    assert_eq!((code, &status["counts"]["keys"]), (0, &json!(1)));
    let reloaded = json!({"users": null, "disconnected": 0, "needs_restart": []});
    assert_eq!(json(&["admin", "reload"]), (0, reloaded));
    assert_eq!(
        json(&["admin", "delete", "key"]),
        (0, json!({"deleted": 1}))
    );
    assert_eq!(
        json(&["admin", "delete", "key"]),
        (1, json!({"deleted": 0}))
    );
    let backup = watched.path("store.backup");
    let (_, written) = json(&["admin", "backup", backup.to_str().unwrap()]);
    let length = std::fs::metadata(&backup).unwrap().len();
    assert_eq!(written, json!({"bytes": length}));
    for arguments in [
        &["top"][..],
        &["lock", "nightly", "--", "true"],
        &["completions", "bash"],
    ] {
        let rejected = run(watched.command(&[&["--json"][..], arguments].concat()), b"");
        rejected.assert_error(2, "--json is not possible");
    }
}

#[test]
fn top_prints_once_without_a_terminal() {
    let watched = AdminFixture::start();
    watched.store.ok(["set", "key", "value"]);
    let block = watched.ok(&["top"]);
    assert!(block.starts_with("statestored "), "{block}");
    assert!(
        block.contains("keys 1 in ") && block.contains("\nset "),
        "{block}"
    );
    assert!(
        block.contains("disk   commits ") && !block.contains('\x1b'),
        "{block}"
    );
}
