//! `statestored health`: the health check for containers that have no other program for it.
use clap::Args;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use statestored_admin::HttpAddress;
use statestored_listeners::client_tls;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
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
    /// File with the certificate authorities of the server, in PEM, for https
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// File with a certificate to show to the server, in PEM
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// File with the private key of --cert-file, in PEM
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
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
        if self.address.has_tls() {
            return self.ask(&mut StreamOwned::new(self.tls()?, stream));
        }
        self.ask(&mut stream)
    }

    /// Returns the state of a TLS connection to the server.
    fn tls(&self) -> io::Result<ClientConnection> {
        let Some(ca) = &self.ca_file else {
            let problem = "https needs the authorities of the server: --ca-file FILE";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        };
        let identity = self.cert_file.as_deref().zip(self.key_file.as_deref());
        let config = client_tls(ca, identity).map_err(io::Error::other)?;
        let name =
            ServerName::try_from(self.address.host().to_owned()).map_err(io::Error::other)?;
        ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
    }

    fn ask(&self, stream: &mut (impl Read + Write)) -> io::Result<String> {
        let path = if self.ready { "/readyz" } else { "/healthz" };
        let host = self.address.authority();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        Read::by_ref(stream)
            .take(MAX_RESPONSE_BYTES)
            .read_to_string(&mut answer)?;
        Ok(answer)
    }
}
