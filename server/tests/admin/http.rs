//! A server with an HTTP port, and requests to it byte by byte.
use statestore::{Client, Settings};
use statestored::RunningServer;
use statestored::access_files::read_users;
use statestored::admin::{AdminConfig, Token};
use statestored::config::{Config, ConfigError, ConfigSource};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// How long a test waits for what must happen. Only a failing test waits that long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const TOKEN: &str = "a-token-that-nobody-guesses";

/// The configuration of a port on a free one of this machine.
pub(crate) fn admin() -> AdminConfig {
    let token = Token::new(TOKEN).unwrap();
    AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), Some(token)).unwrap()
}

/// A configuration with the users of a file, which a reload reads again.
pub(crate) fn with_users_file(path: PathBuf) -> Config {
    let read = move || -> Result<Config, ConfigError> {
        Ok(Config {
            authenticator: read_users(&path)?.into(),
            admin: Some(admin()),
            ..Config::in_memory()
        })
    };
    Config {
        source: Some(ConfigSource::new(read.clone())),
        ..read().unwrap()
    }
}

/// A server in memory that has such a port.
pub(crate) fn server() -> RunningServer {
    start(Config::in_memory())
}

pub(crate) fn start(config: Config) -> RunningServer {
    let admin = config.admin.clone().unwrap_or_else(admin);
    RunningServer::start(Config {
        admin: Some(admin),
        ..config
    })
    .unwrap()
}

/// A client of a server.
pub(crate) async fn client(server: &RunningServer, id: &str) -> Client {
    let settings = Settings::from_url(&server.url()).unwrap();
    Client::connect(settings.client_id(id)).await.unwrap()
}

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (its, value) = line.split_once(": ")?;
            its.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// A connection on which nothing has been said.
pub(crate) fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends these bytes, and gives back all that comes until the server closes the connection.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    String::from_utf8(raw_bytes(address, bytes)).unwrap()
}

/// The same for what need not be text.
pub(crate) fn raw_bytes(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = open(address);
    // The server may respond and close before it has read all of it.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}, after {:?}", String::from_utf8_lossy(&answer)),
        }
    }
    answer
}

/// The first answer in what came.
pub(crate) fn parse_response(text: &str) -> HttpResponse {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    HttpResponse {
        status: status.unwrap_or_else(|| panic!("no answer: {text:?}")),
        head: head.replace('\r', ""),
        body: body.into(),
    }
}

/// Asks for a path with further lines in the head, each with its end.
pub(crate) fn get_with(address: SocketAddr, path: &str, lines: &str) -> HttpResponse {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{lines}\r\n");
    parse_response(&raw(address, request.as_bytes()))
}

/// Asks for a path without a token.
pub(crate) fn get(server: &RunningServer, path: &str) -> HttpResponse {
    get_with(server.http_address().unwrap(), path, "")
}

/// The line of the head that has this token.
pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Asks with the token, and reads the JSON of the answer.
pub(crate) fn json(server: &RunningServer, path: &str) -> serde_json::Value {
    let answer = get_with(server.http_address().unwrap(), path, &bearer(TOKEN));
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Sends a body to be acted upon.
pub(crate) fn post_with(
    server: &RunningServer,
    path: &str,
    lines: &str,
    body: &str,
) -> HttpResponse {
    let address = server.http_address().unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    );
    parse_response(&raw(address, request.as_bytes()))
}

/// The same with the token.
pub(crate) fn post(server: &RunningServer, path: &str, body: &str) -> HttpResponse {
    post_with(server, path, &bearer(TOKEN), body)
}

/// Stops it without blocking the runtime.
pub(crate) async fn stop(server: RunningServer) {
    let stopped = tokio::task::spawn_blocking(|| server.stop());
    stopped.await.unwrap().unwrap();
}
