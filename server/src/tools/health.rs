//! `statestored health`: the health check for containers that have no other program for it.
use crate::http_address::HttpAddress;
use clap::Args;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit of each operation.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum length of a response.
const MAX_RESPONSE_BYTES: u64 = 64 * 1024;

/// Whether a server is alive.
#[derive(Debug, Args)]
pub struct Health {
    /// The HTTP port of the server
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:9883")]
    address: HttpAddress,
    /// Check whether the server is ready for clients
    #[arg(long)]
    ready: bool,
}

/// Reason why the server is not healthy, or does not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum HealthError {
    #[error("cannot ask {address}: {source}")]
    Unreachable {
        address: HttpAddress,
        source: io::Error,
    },
    #[error("{0}")]
    Unhealthy(String),
}

impl Health {
    pub(super) fn run(&self) -> Result<(), HealthError> {
        let answer = self.request().map_err(|source| HealthError::Unreachable {
            address: self.address.clone(),
            source,
        })?;
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if head.starts_with("HTTP/1.1 200 ") {
            return Ok(());
        }
        let problem: String = text.lines().collect::<Vec<_>>().join("; ");
        let problem = problem.chars().filter(|it| !it.is_control()).collect();
        Err(HealthError::Unhealthy(problem))
    }

    fn request(&self) -> io::Result<String> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.address.resolve()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => return self.exchange(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn exchange(&self, mut stream: TcpStream) -> io::Result<String> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let path = if self.ready { "/readyz" } else { "/healthz" };
        let host = self.address.to_string();
        let host = host.trim_start_matches("http://");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream
            .take(MAX_RESPONSE_BYTES)
            .read_to_string(&mut answer)?;
        Ok(answer)
    }
}
