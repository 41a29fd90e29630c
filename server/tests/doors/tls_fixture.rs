//! A server with all kinds of doors, and raw bytes through each of them.
use crate::authority::{Authority, Identity, write};
use bytes::BytesMut;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use statestore::Settings;
use statestore_protocol::mqtt::{Connect, Packet, ReasonCode, decode};
use statestored::RunningServer;
use statestored::config::{ClientCertificates, Config, Tls, TlsFiles};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// How long a test waits for what must happen. Only a failing test waits that long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// The server's certificate, the authorities that it trusts, and a folder for more files.
pub(crate) struct TlsFixture {
    pub(crate) folder: TempDir,
    pub(crate) authority: Authority,
    pub(crate) server_identity: Identity,
    pub(crate) tls: TlsFiles,
}

impl TlsFixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("tests");
        write(folder.path(), "ca.crt", &authority.pem());
        let own = authority.issue("server");
        let (certificate, key) = own.write(folder.path(), "server");
        Self {
            folder,
            authority,
            server_identity: own,
            tls: TlsFiles {
                certificate,
                key,
                client_ca: None,
                client_certificates: ClientCertificates::Off,
                client_crl: None,
            },
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Certificates of clients are looked at.
    pub(crate) fn demand(mut self, demanded: ClientCertificates) -> Self {
        self.tls.client_ca = Some(self.path("ca.crt"));
        self.tls.client_certificates = demanded;
        self
    }

    pub(crate) fn config(&self, listen: &[&str]) -> Config {
        let mut config = Config::in_memory();
        config.listeners = listen.iter().map(|url| url.parse().unwrap()).collect();
        config.listener_config.tls = Some(Tls::read(self.tls.clone()).unwrap());
        config
    }

    pub(crate) fn start(&self, listen: &[&str]) -> RunningServer {
        RunningServer::start(self.config(listen)).unwrap()
    }

    /// A client that trusts the authority, and offers these protocols.
    pub(crate) fn client(&self, identity: Option<&Identity>, alpn: &[&str]) -> ClientConfig {
        self.client_with_versions(rustls::ALL_VERSIONS, identity, alpn)
    }

    /// The same with these versions of TLS.
    pub(crate) fn client_with_versions(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        identity: Option<&Identity>,
        alpn: &[&str],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            Some(identity) => {
                let (chain, key) = identity.der();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.resumption = Resumption::disabled();
        config
    }

    /// Settings of the project's own client.
    pub(crate) fn settings(&self, url: &str) -> Settings {
        let settings = Settings::from_url(url).unwrap();
        if url.starts_with("mqtts") || url.starts_with("wss") {
            settings.ca_file(self.path("ca.crt"))
        } else {
            settings
        }
    }
}

pub(crate) fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Makes no handshake yet.
pub(crate) fn encrypt(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsStream {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(connection, open(address))
}

/// The bytes of a CONNECT.
pub(crate) fn connect_packet() -> BytesMut {
    let mut out = BytesMut::new();
    let connect = Connect {
        clean_start: true,
        ..Connect::default()
    };
    connect.encode(u32::MAX, &mut out).unwrap();
    out
}

/// The next packet; `None` at the end of the connection, however it comes.
pub(crate) fn packet(stream: &mut impl Read) -> Option<Packet> {
    let mut input = BytesMut::new();
    loop {
        if let Some(packet) = decode(&mut input, u32::MAX).unwrap() {
            return Some(packet);
        }
        let mut chunk = [0; 1];
        match stream.read(&mut chunk) {
            Ok(0) => return None,
            Ok(count) => input.extend_from_slice(&chunk[..count]),
            Err(error) if is_timeout(&error) => panic!("nothing came"),
            Err(_) => return None,
        }
    }
}

/// Connects; `false` if the server does not let it in.
pub(crate) fn is_served(stream: &mut (impl Read + Write)) -> bool {
    let sent = stream
        .write_all(&connect_packet())
        .and_then(|()| stream.flush());
    match packet(stream) {
        Some(Packet::ConnAck(connack)) => {
            assert!(sent.is_ok() && connack.reason == ReasonCode::SUCCESS);
            true
        }
        None => false,
        other => panic!("{other:?}"),
    }
}

/// Reads until the server closes.
pub(crate) fn until_closed(stream: &mut impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&chunk[..count]),
            Err(error) if is_timeout(&error) => panic!("still open after {all:?}"),
            Err(_) => return all,
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
