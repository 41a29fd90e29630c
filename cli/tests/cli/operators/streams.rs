//! `statestore admin monitor` and `audit --follow`, which run until Ctrl-C.
use super::scripted_server::{ScriptedServer, read_request};
use crate::harness::{Run, Running, interrupt, statestore, terminate};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    process::Child,
};

/// A server that sends events until the test ends.
struct EventServer {
    listener: TcpListener,
    url: String,
}

impl EventServer {
    fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// Starts `statestore admin`; the process, the open stream and the request.
    fn start(&self, arguments: &[&str]) -> (Running, TcpStream, String) {
        let mut command = statestore([&["admin"][..], arguments].concat());
        command.env("STATESTORE_ADMIN", &self.url);
        let running = Running::spawn(command);
        let (mut stream, _) = self.listener.accept().unwrap();
        let request = read_request(&stream);
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        stream.write_all(head).unwrap();
        (running, stream, request)
    }
}

fn command(key: &str, duration_us: u64) -> Value {
    json!({
        "at_ms": 1000, "client": "c", "user": null, "verb": "set", "key": {"hex": key},
        "value_bytes": 3, "result": "ok", "duration_us": duration_us,
        "value": {"hex": "00ff", "text": null},
    })
}

/// Closes the reading end of the output.
fn close_output(running: Running) -> Child {
    running.child
}

fn send(stream: &mut TcpStream, event: &Value) {
    write!(stream, "data: {event}\n\n").unwrap();
}

#[test]
fn commands_are_printed_until_a_signal() {
    let server = EventServer::bind();
    for tell in [interrupt as fn(&Child), terminate] {
        let (mut monitor, mut stream, request) = server.start(&["monitor"]);
        assert_eq!(request, "GET /api/monitor");
        send(&mut stream, &command("6b", 250));
        assert!(monitor.line().starts_with("AT "));
        let row = monitor.line();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let time = "1970-01-01T00:00:01.000Z";
        assert_eq!(
            cells,
            [time, "250", "µs", "set", "ok", "3", "B", "-", "c", "k"]
        );
        tell(&monitor.child);
        assert_eq!(monitor.end().code, Some(0));
    }
}

#[test]
fn filters_of_the_monitor_are_parameters() {
    let server = EventServer::bind();
    let (mut monitor, mut stream, request) = server.start(&[
        "monitor", "--sample", "0.25", "--verb", "set", "--client", "c", "--user", "u", "--key",
        "line/*", "--values",
    ]);
    assert_eq!(
        request,
        "GET /api/monitor?sample=0.25&verb=set&client=c&user=u&key=line%2F%2A&values=1"
    );
    send(&mut stream, &command("6b", 1));
    assert!(monitor.line().ends_with("  VALUE"));
    assert!(monitor.line().ends_with(r"  k    \x00\xff"));
    interrupt(&monitor.child);
    assert_eq!(monitor.end().code, Some(0));
    let refused = ScriptedServer::start([(200, "")]).run(&["monitor", "--sample", "2"]);
    refused.assert_error(2, "at most 1");
}

#[test]
fn commands_that_were_left_out_are_reported_and_a_limit_ends_the_monitor() {
    let server = EventServer::bind();
    let (mut monitor, mut stream, _) = server.start(&["monitor", "--json", "--limit", "2"]);
    for event in [command("61", 1), json!({"left_out": 1}), command("62", 2)] {
        send(&mut stream, &event);
    }
    let mut line = || serde_json::from_str::<Value>(&monitor.line()).unwrap();
    assert_eq!(line()["key"]["hex"], "61");
    assert_eq!(line(), json!({"left_out": 1}));
    assert_eq!(line()["key"]["hex"], "62");
    let ended = monitor.end();
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), "left out 1 command: the output is too slow\n")
    );
}

#[test]
fn a_closed_output_ends_the_monitor_quietly() {
    let server = EventServer::bind();
    let (mut monitor, mut stream, _) = server.start(&["monitor"]);
    send(&mut stream, &command("61", 1));
    monitor.line();
    let mut child = close_output(monitor);
    // The next commands find the closed output.
    while child.try_wait().unwrap().is_none() {
        let event = format!("data: {}\n\n", command("61", 1));
        if stream.write_all(event.as_bytes()).is_err() {
            break;
        }
    }
    let ended = Run::from(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_idle_monitor_asks_whether_the_server_is_alive() {
    let server = EventServer::bind();
    let (monitor, stream, _) = server.start(&["monitor", "--timeout", "1s"]);
    let (mut check, _) = server.listener.accept().unwrap();
    assert_eq!(read_request(&check), "GET /healthz");
    let alive = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    check.write_all(alive).unwrap();
    // The next check is accepted by the system, but not answered.
    let ended = monitor.end();
    ended.assert_error(3, "no answer in time");
    drop(stream);
}

#[test]
fn the_end_of_the_stream_is_an_error() {
    let server = EventServer::bind();
    let (monitor, stream, _) = server.start(&["monitor"]);
    drop(stream);
    monitor
        .end()
        .assert_error(3, "the server has ended the stream");
    let busy = ScriptedServer::start([(503, "there are too many monitors\n")]);
    busy.run(&["monitor"]).assert_error(3, "too many monitors");
}

fn trail(names: &str, next: &Value) -> (u16, String) {
    let lines = names.chars().map(|name| {
        json!({"at_ms": 1000, "level": "info", "event": "action", "fields": {"action": name.to_string()}})
    });
    let page = json!({ "items": lines.collect::<Value>(), "next": next });
    (200, page.to_string())
}

#[test]
fn new_lines_of_the_audit_trail_follow() {
    let end = Value::Null;
    let server = ScriptedServer::start([
        trail("cba", &end),
        trail("cba", &end),
        // Two pages of new lines.
        trail("fe", &json!(2)),
        trail("dcb", &end),
        // No known line is left.
        trail("yx", &end),
        // The server fails for a moment.
        (503, "the server is stopping\n".to_owned()),
        trail("zyx", &end),
    ]);
    let mut command = server.command(&["audit", "--follow", "--limit", "2", "--json"]);
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        match line["fields"]["action"].as_str() {
            Some(name) => name.to_owned(),
            None => line["event"].to_string(),
        }
    };
    let printed: Vec<String> = (0..9).map(|_| line()).collect();
    let expected = ["b", "c", "d", "e", "f", "\"gap\"", "x", "y", "z"];
    assert_eq!(printed, expected);
    interrupt(&child);
    let ended = Run::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0));
    let notices: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(notices[0], "lines may have been missed");
    assert!(notices[1].contains("stopping; trying again"), "{notices:?}");
    assert_eq!(notices[2], "the server answers again");
}
