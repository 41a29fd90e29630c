//! TLS as a configuration of the program's own says.
use crate::authority::Authority;
use crate::broker::{Broker, Tls};
use crate::support::within;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error as RustlsError, SignatureScheme};
use statestore::{Client, ErrorKind, Settings, rustls};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Counts the verifications, and the server names for which they were.
#[derive(Debug)]
struct CountingVerifier {
    inner: Arc<WebPkiServerVerifier>,
    certificates: AtomicUsize,
    names: Mutex<Vec<String>>,
}

impl ServerCertVerifier for CountingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        self.certificates.fetch_add(1, Ordering::SeqCst);
        let name = server_name.to_str().into_owned();
        self.names.lock().unwrap().push(name);
        self.inner
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn configuration(authority: &Authority) -> (rustls::ClientConfig, Arc<CountingVerifier>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let inner =
        WebPkiServerVerifier::builder_with_provider(authority.roots(), provider.clone()).build();
    let verifier = Arc::new(CountingVerifier {
        inner: inner.unwrap(),
        certificates: AtomicUsize::new(0),
        names: Mutex::default(),
    });
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_no_client_auth();
    (config, verifier)
}

#[tokio::test]
async fn a_custom_tls_configuration_is_used_unchanged() {
    let authority = Authority::new("authority");
    let (config, verifier) = configuration(&authority);
    let settings = |port| Settings::new("127.0.0.1", port).tls(true);
    let broker = Broker::tls(Tls::new(&authority.issue(["inner"]))).await;
    let ours = settings(broker.port()).rustls_config(config);
    let (refused, _) = tokio::join!(within(Client::connect(ours.clone())), broker.try_accept());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Untrusted);
    let ours = ours.server_name("inner");
    let (client, _peer) = tokio::join!(Client::connect(ours), broker.welcome());
    client.unwrap();
    assert_eq!(verifier.certificates.load(Ordering::SeqCst), 2);
    assert_eq!(*verifier.names.lock().unwrap(), ["127.0.0.1", "inner"]);
}

#[tokio::test]
async fn each_of_several_brokers_is_checked_by_its_own_name() {
    let authority = Authority::new("authority");
    let (config, verifier) = configuration(&authority);
    let elsewhere = Broker::tls(Tls::new(&authority.issue(["elsewhere"]))).await;
    let here = Broker::tls(Tls::new(&authority.issue(["localhost"]))).await;
    let url = format!(
        "mqtts://127.0.0.1:{},localhost:{}",
        elsewhere.port(),
        here.port()
    );
    let settings: Settings = url.parse().unwrap();
    let settings = settings.rustls_config(config);
    let (client, _, _peer) = tokio::join!(
        Client::connect(settings),
        elsewhere.try_accept(),
        here.welcome()
    );
    client.unwrap();
    assert_eq!(*verifier.names.lock().unwrap(), ["127.0.0.1", "localhost"]);
}

#[tokio::test]
async fn files_together_with_a_tls_configuration_are_rejected() {
    let (config, _) = configuration(&Authority::new("authority"));
    let config = Arc::new(config);
    let plain = Settings::new("127.0.0.1", 1).rustls_config(config);
    let files = plain.clone().tls(true).ca_file("/ca");
    for (settings, phrase) in [
        (plain, "does not use TLS"),
        (files, "`ca_file` and `rustls_config` are both set"),
    ] {
        let error = Client::connect(settings).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSettings);
        assert!(error.to_string().contains(phrase), "{error}");
    }
}
