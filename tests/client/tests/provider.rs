//! The cryptography that a program installs for its process. In a process of its own: it is installed once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "connection/authority.rs"]
#[allow(dead_code)]
mod authority;
#[path = "connection/broker.rs"]
#[allow(dead_code)]
mod broker;
#[path = "support/mod.rs"]
mod support;

use authority::Authority;
use broker::{Broker, Tls};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, ring};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use statestore::{Client, Settings, rustls};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// `ring`, counting.
#[derive(Debug)]
struct CountingProvider {
    randoms: AtomicUsize,
    keys: AtomicUsize,
}

static COUNTING_PROVIDER: CountingProvider = CountingProvider {
    randoms: AtomicUsize::new(0),
    keys: AtomicUsize::new(0),
};

impl SecureRandom for CountingProvider {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        self.randoms.fetch_add(1, Ordering::SeqCst);
        ring::default_provider().secure_random.fill(bytes)
    }
}

impl KeyProvider for CountingProvider {
    fn load_private_key(
        &self,
        der: PrivateKeyDer<'static>,
    ) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        self.keys.fetch_add(1, Ordering::SeqCst);
        ring::default_provider().key_provider.load_private_key(der)
    }
}

#[tokio::test]
async fn an_installed_provider_is_used_for_everything() {
    let authority = Authority::new("authority");
    let files = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let own = authority.issue(["client"]);
    let identity = authority.issue(["127.0.0.1"]);
    let broker = Broker::tls(Tls {
        clients: Some(&authority),
        ..Tls::new(&identity)
    })
    .await;
    let settings = Settings::new("127.0.0.1", broker.port())
        .tls(true)
        .ca_file(file("ca.crt", &authority.pem()))
        .cert_file(file("client.crt", &own.certificate))
        .key_file(file("client.key", &own.key));

    #[cfg(not(feature = "ring"))]
    {
        let connecting = Client::connect(settings.clone());
        let error = support::within(connecting).await.unwrap_err();
        assert_eq!(error.kind(), statestore::ErrorKind::InvalidSettings);
        assert!(error.to_string().contains("install_default"), "{error}");
    }

    let provider = CryptoProvider {
        secure_random: &COUNTING_PROVIDER,
        key_provider: &COUNTING_PROVIDER,
        ..ring::default_provider()
    };
    provider.install_default().unwrap();
    let (client, (peer, _)) = tokio::join!(Client::connect(settings), broker.welcome());
    client.unwrap();
    assert!(peer.certificate.is_some());
    assert_eq!(COUNTING_PROVIDER.keys.load(Ordering::SeqCst), 1);
    assert!(COUNTING_PROVIDER.randoms.load(Ordering::SeqCst) > 0);
}
