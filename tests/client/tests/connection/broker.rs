//! A broker played by hand, with TLS and enhanced authentication.
use crate::authority::{Authority, Identity};
use crate::support::{self, within};
use bytes::BytesMut;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, SupportedProtocolVersion};
use statestore_protocol::mqtt::{Auth, ConnAck, Connect, Packet, ReasonCode};
use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Listens on a free port of the loopback address.
pub(crate) struct Broker {
    broker: support::Broker,
    tls: Option<TlsAcceptor>,
}

pub(crate) static TLS_1_2: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
pub(crate) static TLS_1_3: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// The options of a TLS broker.
pub(crate) struct Tls<'a> {
    pub(crate) identity: &'a Identity,
    /// The authority whose client certificates are required.
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
        let key = PrivateKeyDer::from_pem_slice(self.identity.key.as_bytes()).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
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
        // Shown as it is, also if it is of a kind that rustls would not load.
        let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
        TlsAcceptor::from(Arc::new(builder.with_cert_resolver(Arc::new(shown))))
    }
}

/// The broker's end of one connection.
pub(crate) struct Peer {
    peer: support::Peer,
    /// The client's certificate, in TLS.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

impl Deref for Peer {
    type Target = support::Peer;

    fn deref(&self) -> &support::Peer {
        &self.peer
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut support::Peer {
        &mut self.peer
    }
}

impl Broker {
    pub(crate) async fn plain() -> Self {
        Self {
            broker: support::Broker::start().await,
            tls: None,
        }
    }

    pub(crate) async fn tls(tls: Tls<'_>) -> Self {
        Self::accepting(tls.acceptor()).await
    }

    pub(crate) async fn accepting(tls: TlsAcceptor) -> Self {
        Self {
            tls: Some(tls),
            ..Self::plain().await
        }
    }

    /// From now on connections are made in this way.
    pub(crate) fn change(&mut self, tls: &Tls<'_>) {
        self.tls = Some(tls.acceptor());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.broker.address()
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
        let tcp = self.broker.accept_stream().await;
        act();
        let Some(tls) = &self.tls else {
            return Ok(Peer {
                peer: support::Peer::new(tcp),
                certificate: None,
            });
        };
        let stream = within(tls.accept(tcp)).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        Ok(Peer {
            certificate: certificates.map(|chain| chain[0].clone().into_owned()),
            peer: support::Peer::new(stream),
        })
    }

    pub(crate) async fn accept(&self) -> Peer {
        self.try_accept().await.unwrap()
    }

    /// Waits for a client, and accepts its CONNECT and its subscriptions.
    pub(crate) async fn welcome(&self) -> (Peer, Connect) {
        let mut peer = self.accept().await;
        let connect = peer.connect().await;
        peer.connack(ReasonCode::SUCCESS).await;
        peer.subscribe().await;
        (peer, connect)
    }
}

impl Peer {
    pub(crate) async fn connack(&mut self, reason: ReasonCode) {
        self.send_connack(ConnAck::new(reason)).await;
    }

    /// The next packet, which is an AUTH with method and data.
    pub(crate) async fn auth(&mut self) -> (ReasonCode, String, Vec<u8>) {
        match self.packet().await {
            Packet::Auth(auth) => (
                auth.reason,
                auth.method.unwrap(),
                auth.data.unwrap().to_vec(),
            ),
            other => panic!("an AUTH was expected: {other:?}"),
        }
    }

    /// Sends an AUTH.
    pub(crate) async fn authenticate(&mut self, reason: ReasonCode) {
        let mut out = BytesMut::new();
        let auth = Auth {
            reason,
            method: Some("K8S-SAT".to_owned()),
            data: None,
            reason_string: None,
        };
        auth.encode(u32::MAX, &mut out).unwrap();
        self.send_bytes(&out).await;
    }

    /// Takes the next packet, which is a request, and refuses it.
    pub(crate) async fn refuse_request(&mut self) {
        let request = self.request().await;
        self.acknowledge(&request, ReasonCode::NOT_AUTHORIZED).await;
    }
}
