//! An HTTP port of a server whose answers are written beforehand.
use crate::harness::{Run, run, statestore};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::mpsc::{self, Receiver},
    thread,
};

/// An HTTP server that gives each connection the next answer.
pub(crate) struct ScriptedServer {
    url: String,
    /// The requests, each with its body.
    requests: Receiver<String>,
}

impl ScriptedServer {
    /// Starts a server with these answers: status and body.
    pub(crate) fn start<T: Into<String>>(answers: impl IntoIterator<Item = (u16, T)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Vec<(u16, String)> = answers
            .into_iter()
            .map(|(status, body)| (status, body.into()))
            .collect();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                // The test may have ended.
                let _ = sender.send(read_request(&stream));
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {length}\r\n\r\n");
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { url, requests }
    }

    /// `statestore admin` for this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = statestore([&["admin"][..], arguments].concat());
        command.env("STATESTORE_ADMIN", &self.url);
        command
    }

    /// Runs `statestore admin` to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        run(self.command(arguments), b"")
    }

    /// Runs `statestore admin`, which must succeed, and gives what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        String::from_utf8(run.stdout).unwrap()
    }

    /// Returns the requests since the last call: method, path, and a body if there is one.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}

/// Reads a request: its method, its path, and its body if there is one.
pub(crate) fn read_request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut request = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut body_length: usize = 0;
    while line != "\r\n" {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0);
        let lower = line.to_lowercase();
        if let Some(length) = lower.strip_prefix("content-length:") {
            body_length = length.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; body_length];
    reader.read_exact(&mut body).unwrap();
    if !body.is_empty() {
        request.push(' ');
        request.push_str(&String::from_utf8(body).unwrap());
    }
    request
}
