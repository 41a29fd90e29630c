//! A broker that does what a test says.
use crate::authority::{Authority, Identity};
use crate::soon;
use bytes::BytesMut;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, SupportedProtocolVersion};
use statestore::mqtt::{
    Auth, ConnAck, Connect, Disconnect, Packet, PubAck, ReasonCode, SubAck, Subscribe, decode,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Listens on a free port of the loopback address.
pub(crate) struct Broker {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

pub(crate) static TLS_1_2: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
pub(crate) static TLS_1_3: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// The options of a TLS broker.
pub(crate) struct Tls<'a> {
    pub(crate) identity: &'a Identity,
    /// Whose client certificates are demanded.
    pub(crate) clients: Option<&'a Authority>,
    pub(crate) versions: &'static [&'static SupportedProtocolVersion],
}

impl<'a> Tls<'a> {
    pub(crate) fn new(identity: &'a Identity) -> Self {
        Self {
            identity,
            clients: None,
            versions: rustls::DEFAULT_VERSIONS,
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(self.versions)
            .unwrap();
        let builder = match self.clients {
            None => builder.with_no_client_auth(),
            Some(authority) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(authority.roots(), provider)
                    .build()
                    .unwrap(),
            ),
        };
        let chain = CertificateDer::pem_slice_iter(self.identity.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.identity.key.as_bytes()).unwrap();
        TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// The broker's end of one connection.
pub(crate) struct Peer {
    stream: Box<dyn Duplex>,
    input: BytesMut,
    /// The client's certificate, in TLS.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

impl Broker {
    pub(crate) async fn plain() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            tls: None,
        }
    }

    pub(crate) async fn tls(tls: Tls<'_>) -> Self {
        Self {
            tls: Some(tls.acceptor()),
            ..Self::plain().await
        }
    }

    /// From now on connections are made in this way.
    pub(crate) fn change(&mut self, tls: &Tls<'_>) {
        self.tls = Some(tls.acceptor());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address().port()
    }

    /// Waits for a client; an error if there is no TLS connection with it.
    pub(crate) async fn try_accept(&self) -> io::Result<Peer> {
        self.try_accept_after(|| {}).await
    }

    /// The same, with something that happens before the TLS handshake.
    pub(crate) async fn try_accept_after(&self, act: impl FnOnce()) -> io::Result<Peer> {
        let (tcp, _) = soon(self.listener.accept()).await.unwrap();
        act();
        let Some(tls) = &self.tls else {
            return Ok(Peer::new(tcp));
        };
        let stream = soon(tls.accept(tcp)).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.map(|chain| chain[0].clone().into_owned());
        Ok(Peer {
            certificate,
            ..Peer::new(stream)
        })
    }

    pub(crate) async fn accept(&self) -> Peer {
        self.try_accept().await.unwrap()
    }

    /// Waits for a client, and accepts its CONNECT and its subscriptions.
    pub(crate) async fn welcome(&self) -> (Peer, Connect) {
        let mut peer = self.accept().await;
        let connect = peer.connect().await;
        peer.answer(ReasonCode::SUCCESS).await;
        peer.subscriptions().await;
        (peer, connect)
    }
}

impl Peer {
    fn new(stream: impl Duplex + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            input: BytesMut::new(),
            certificate: None,
        }
    }

    /// The next packet; `None` if the client has closed the connection.
    pub(crate) async fn packet(&mut self) -> Option<Packet> {
        loop {
            if let Some(packet) = decode(&mut self.input, u32::MAX).unwrap() {
                return Some(packet);
            }
            match soon(self.stream.read_buf(&mut self.input)).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub(crate) async fn connect(&mut self) -> Connect {
        match self.packet().await {
            Some(Packet::Connect(connect)) => *connect,
            other => panic!("{other:?} is not a CONNECT"),
        }
    }

    /// The next packet, which is an AUTH with method and data.
    pub(crate) async fn auth(&mut self) -> (ReasonCode, String, Vec<u8>) {
        match self.packet().await {
            Some(Packet::Auth(auth)) => (
                auth.reason,
                auth.method.unwrap(),
                auth.data.unwrap().to_vec(),
            ),
            other => panic!("{other:?} is not an AUTH"),
        }
    }

    /// Sends a CONNACK.
    pub(crate) async fn answer(&mut self, reason: ReasonCode) {
        self.send(|out| ConnAck::new(reason).encode(u32::MAX, out).unwrap())
            .await;
    }

    /// Sends an AUTH.
    pub(crate) async fn authenticate(&mut self, reason: ReasonCode) {
        let auth = Auth {
            reason,
            method: Some("K8S-SAT".to_owned()),
            data: None,
            reason_string: None,
        };
        self.send(|out| auth.encode(u32::MAX, out).unwrap()).await;
    }

    /// Sends a DISCONNECT.
    pub(crate) async fn disconnect(&mut self, reason: ReasonCode) {
        let disconnect = Disconnect::new(reason);
        self.send(|out| disconnect.encode(u32::MAX, out).unwrap())
            .await;
    }

    /// Grants what the client subscribes.
    pub(crate) async fn subscriptions(&mut self) {
        let Some(Packet::Subscribe(subscribe)) = self.packet().await else {
            panic!("no SUBSCRIBE");
        };
        self.grant(&subscribe).await;
    }

    /// Sends a SUBACK.
    pub(crate) async fn grant(&mut self, subscribe: &Subscribe) {
        let suback = SubAck {
            packet_id: subscribe.packet_id,
            reasons: vec![ReasonCode::GRANTED_QOS_1; subscribe.subscriptions.len()],
            reason_string: None,
        };
        self.send(|out| suback.encode(u32::MAX, out).unwrap()).await;
    }

    /// Takes the next packet, which is a request, and refuses it.
    pub(crate) async fn refuse_request(&mut self) {
        let Some(Packet::Publish(publish)) = self.packet().await else {
            panic!("no PUBLISH");
        };
        let puback = PubAck {
            packet_id: publish.packet_id().unwrap(),
            reason: ReasonCode::NOT_AUTHORIZED,
            reason_string: None,
        };
        self.send(|out| puback.encode(u32::MAX, out).unwrap()).await;
    }

    async fn send(&mut self, encode: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        encode(&mut out);
        soon(self.stream.write_all(&out)).await.unwrap();
        soon(self.stream.flush()).await.unwrap();
    }
}
