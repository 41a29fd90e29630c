//! Each example prints the output that its comment describes, and ends at Ctrl-C.
//!
//! They belong to the package `statestore`: cargo builds them with all tests of the workspace, and with `--examples`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use statestore::{Client, GetOptions, Settings};
use statestored::{RunningServer, config::Config};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// An example that runs in a process of its own.
struct Example {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Example {
    fn start(server: &RunningServer, name: &str, arguments: &[&str]) -> Self {
        let test = std::env::current_exe().unwrap();
        // Tests are in `deps` beside `examples`.
        let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
        let mut process = Command::new(&program)
            .args(arguments)
            .env("STATESTORE_URL", server.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// Returns the next line of its output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Presses Ctrl-C, and waits for the end.
    fn interrupt(self) -> (bool, String, String) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(sent.success());
        self.end()
    }

    /// Waits for the end: whether it succeeded, the rest of its output, and its standard error.
    fn end(mut self) -> (bool, String, String) {
        let (mut printed, mut complained) = (String::new(), String::new());
        self.output.read_to_string(&mut printed).unwrap();
        let mut errors = self.process.stderr.take().unwrap();
        errors.read_to_string(&mut complained).unwrap();
        let is_success = self.process.wait().unwrap().success();
        (is_success, printed, complained)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // It has ended, unless a test failed or wants it to die.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The end of an example that succeeded.
fn done(printed: &str) -> (bool, String, String) {
    (true, printed.to_owned(), String::new())
}

fn start_server() -> RunningServer {
    RunningServer::start(Config::in_memory()).unwrap()
}

async fn connect(server: &RunningServer) -> Client {
    let settings = Settings::from_url(&server.url()).unwrap();
    Client::connect(settings).await.unwrap()
}

#[tokio::test]
async fn the_cache_computes_once() {
    let server = start_server();
    let client = connect(&server).await;
    let plates = "press-1: Contoso 400\n".repeat(3);
    let computed = format!("reading the plate of press-1\n{plates}");
    let first = Example::start(&server, "cache", &[]).end();
    assert_eq!(first, done(&computed));
    let second = Example::start(&server, "cache", &[]).end();
    assert_eq!(second, done(&plates));
    let remaining = GetOptions::new().remaining(true);
    let entry = client.get_with("cache/plate/press-1", &remaining).await;
    let expires_in = entry.unwrap().unwrap().expires_in;
    assert!(
        matches!(expires_in, statestore::Expiry::After(time) if time <= Duration::from_secs(60)),
        "{expires_in:?}"
    );
}

#[tokio::test]
async fn the_cache_computes_without_the_store() {
    let server = start_server();
    // Longer than a key can be.
    let machine = "x".repeat(70_000);
    let (is_success, printed, complained) = Example::start(&server, "cache", &[&machine]).end();
    assert!(is_success, "{complained}");
    let each = format!("reading the plate of {machine}\n{machine}: Contoso 400\n");
    assert_eq!(printed, each.repeat(3));
    assert_eq!(complained.matches("the cache was not").count(), 6);
}

#[tokio::test]
async fn the_settings_of_a_line_are_followed() {
    let server = start_server();
    let client = connect(&server).await;
    client.set("line-1/settings/speed", "90").await.unwrap();
    let mut line = Example::start(&server, "line_settings", &[]);
    assert_eq!(line.line(), "the line runs with pressure 5, speed 90");
    let change = Example::start(&server, "line_settings", &["pressure", "7"]);
    assert_eq!(change.end(), done(""));
    assert_eq!(line.line(), "the line runs with pressure 7, speed 90");
    for (name, value) in [("speed", "fast"), ("colour", "red"), ("speed", "120")] {
        let key = format!("line-1/settings/{name}");
        client.set(key, value).await.unwrap();
    }
    assert_eq!(line.line(), "the line runs with pressure 7, speed 120");
    client.del("line-1/settings/pressure").await.unwrap();
    assert_eq!(line.line(), "the line runs with pressure 5, speed 120");
    let (is_success, printed, _) = line.interrupt();
    assert_eq!((is_success, &*printed), (true, ""));
}

#[tokio::test]
async fn one_program_moves_the_machine_at_a_time() {
    let server = start_server();
    let client = connect(&server).await;
    let mut first = Example::start(&server, "machine_lock", &["1000000"]);
    assert_eq!(first.line(), "waiting for the press");
    let stroke = first.line();
    let token = stroke.strip_prefix("stroke 1 with the token ").unwrap();
    let mut second = Example::start(&server, "machine_lock", &["1"]);
    let mut third = Example::start(&server, "machine_lock", &[]);
    assert_eq!(second.line(), "waiting for the press");
    assert_eq!(third.line(), "waiting for the press");
    assert_eq!(third.interrupt(), done(""));
    assert_eq!(first.line(), format!("stroke 2 with the token {token}"));
    let (is_success, printed, complained) = first.interrupt();
    assert!(is_success, "{complained}");
    assert!(printed.ends_with("the press stands still\n"), "{printed}");
    let (is_success, printed, complained) = second.end();
    assert!(is_success, "{complained}");
    let (stroke, still) = printed.split_once('\n').unwrap();
    assert!(stroke.strip_prefix("stroke 1 with the token ").unwrap() > token);
    assert_eq!(still, "the press stands still\n");
    let strokes = client.get("press-1/strokes").await.unwrap().unwrap();
    assert_eq!(strokes.value, "1");
}

#[tokio::test]
async fn a_lost_lock_stops_the_machine() {
    let server = start_server();
    let client = connect(&server).await;
    let mut example = Example::start(&server, "machine_lock", &["1000000"]);
    assert_eq!(example.line(), "waiting for the press");
    assert!(example.line().starts_with("stroke 1 "));
    client.set("press-1/owner", "other").await.unwrap();
    let (is_success, printed, complained) = example.end();
    assert!(!is_success);
    assert!(printed.ends_with("the press stands still\n"), "{printed}");
    assert!(complained.starts_with("LockLost: "), "{complained}");
}

#[tokio::test]
async fn a_standby_takes_over() {
    let server = start_server();
    let client = connect(&server).await;
    let mut first = Example::start(&server, "active_standby", &["gateway-a"]);
    assert_eq!(first.line(), "gateway-a stands by");
    assert_eq!(first.line(), "gateway-a is active");
    let mut second = Example::start(&server, "active_standby", &["gateway-b", "2"]);
    let mut third = Example::start(&server, "active_standby", &["gateway-c"]);
    assert_eq!(second.line(), "gateway-b stands by");
    assert_eq!(third.line(), "gateway-c stands by");
    assert_eq!(third.interrupt(), done(""));
    let election = client.election("line-1/active").unwrap();
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!(leader.value.unwrap(), "gateway-a");
    assert_eq!(first.interrupt(), done(""));
    assert_eq!(second.end(), done("gateway-b is active\n"));
    let plan = client.get("line-1/plan").await.unwrap().unwrap();
    assert_eq!(plan.value, "round 1 of gateway-b");
}

#[tokio::test]
async fn a_lost_lead_makes_a_standby() {
    let server = start_server();
    let client = connect(&server).await;
    let mut example = Example::start(&server, "active_standby", &["gateway-a"]);
    assert_eq!(example.line(), "gateway-a stands by");
    assert_eq!(example.line(), "gateway-a is active");
    client.set("line-1/active", "other").await.unwrap();
    assert_eq!(example.line(), "gateway-a stands by");
    client.del("line-1/active").await.unwrap();
    assert_eq!(example.line(), "gateway-a is active");
    let (is_success, _, complained) = example.interrupt();
    let expected = "gateway-a is not active: ";
    assert!(
        is_success && complained.starts_with(expected),
        "{complained}"
    );
}

#[tokio::test]
async fn gateways_are_present_while_they_run() {
    let server = start_server();
    let mut early = Example::start(&server, "presence", &[]);
    assert_eq!(early.line(), "gateways present: 0");
    let mut first = Example::start(&server, "presence", &["gateway-a"]);
    let one = format!("gateway-a is present: process {}", first.process.id());
    assert_eq!(early.line(), one);
    let second = Example::start(&server, "presence", &["gateway-b"]);
    let two = format!("gateway-b is present: process {}", second.process.id());
    assert_eq!(early.line(), two);
    let mut late = Example::start(&server, "presence", &[]);
    assert_eq!([late.line(), late.line()], [one, two]);
    assert_eq!(late.line(), "gateways present: 2");
    // Renewals print nothing.
    for _ in 0..3 {
        assert_eq!(first.line(), "gateway-a is announced");
    }
    // The key of a gateway that ends disappears at once; that of a gateway that dies expires.
    assert!(first.interrupt().0);
    drop(second);
    for mut watcher in [early, late] {
        assert_eq!(watcher.line(), "gateway-a is gone");
        assert_eq!(watcher.line(), "gateway-b is gone");
        assert_eq!(watcher.interrupt(), done(""));
    }
}
