//! Certificates and keys as PEM text in memory.
use crate::authority::Authority;
use crate::broker::{Broker, Tls};
use crate::support::within;
use crate::{Files, key};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use statestore::{Client, Error, ErrorKind, Settings};

fn settings(port: u16) -> Settings {
    Settings::new("127.0.0.1", port).tls(true)
}

/// Returns the error of a client that connects to nothing.
async fn refusal(settings: Settings) -> Error {
    within(Client::connect(settings)).await.unwrap_err()
}

#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, phrases: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for phrase in phrases {
        assert!(text.contains(phrase), "`{text}` does not say `{phrase}`");
    }
}

#[tokio::test]
async fn texts_in_memory_replace_the_files() {
    let authority = Authority::new("authority");
    let identity = authority.issue(["127.0.0.1"]);
    let own = authority.issue(["client"]);
    let broker = Broker::tls(Tls {
        clients: Some(&authority),
        ..Tls::new(&identity)
    })
    .await;
    let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
    let files = Files::new();
    let in_memory = settings(broker.port())
        .ca_pem(authority.pem())
        .cert_pem(own.certificate.clone());
    let key_file = files.write("client.key", &own.key);
    // A file of one thing and a text of another go together.
    for settings in [
        in_memory.clone().key_pem(own.key.clone()),
        in_memory.key_file(key_file),
    ] {
        let (client, (peer, _)) = tokio::join!(Client::connect(settings), broker.welcome());
        client.unwrap();
        assert_eq!(peer.certificate, Some(certificate.clone()));
    }
}

#[tokio::test]
async fn a_broker_of_another_authority_is_not_trusted() {
    let identity = Authority::new("authority").issue(["127.0.0.1"]);
    let broker = Broker::tls(Tls::new(&identity)).await;
    let settings = settings(broker.port()).ca_pem(Authority::new("authority").pem());
    let serve = async {
        if let Ok(mut peer) = broker.try_accept().await {
            assert!(peer.packet_or_end().await.is_none());
        }
    };
    let (client, ()) = tokio::join!(within(Client::connect(settings)), serve);
    assert_says(
        &client.unwrap_err(),
        ErrorKind::Untrusted,
        &["not signed by an authority in `ca_pem`"],
    );
}

#[tokio::test]
async fn unusable_texts_are_named() {
    let authority = Authority::new("authority");
    let own = authority.issue(["client"]);
    let trusting = settings(1).ca_pem(authority.pem());
    let certified = trusting.clone().cert_pem(own.certificate.clone());
    let encrypted = std::fs::read(key("ec.pbkdf2.pem")).unwrap();
    for (settings, phrases) in [
        (settings(1).ca_pem(""), &["`ca_pem` is empty"][..]),
        (
            settings(1).ca_pem("hello"),
            &["`ca_pem` contains no certificate"],
        ),
        (
            settings(1).ca_pem(vec![b'x'; 5 << 20]),
            &["`ca_pem` is longer than"],
        ),
        (
            trusting.clone().cert_pem("hello").key_pem(own.key.clone()),
            &["`cert_pem` contains no certificate"],
        ),
        (
            certified.clone().key_pem("hello"),
            &["`key_pem` contains no private key"],
        ),
        (
            certified.clone().key_pem(authority.issue(["client"]).key),
            &["`key_pem` does not match", "`cert_pem`"],
        ),
        (
            certified.key_pem(encrypted),
            &["`key_pem` is encrypted, and no key password file"],
        ),
    ] {
        let error = refusal(settings).await;
        assert_says(&error, ErrorKind::InvalidSettings, phrases);
    }
}

#[tokio::test]
async fn contradicting_settings_are_rejected() {
    for (settings, phrase) in [
        (
            Settings::new("127.0.0.1", 1).key_pem("a"),
            "`key_pem` is set, but",
        ),
        (
            settings(1).ca_file("a").ca_pem("b"),
            "`ca_file` and `ca_pem` are both set",
        ),
        (
            settings(1).cert_file("a").cert_pem("b"),
            "`cert_file` and `cert_pem` are both set",
        ),
        (
            settings(1).key_file("a").key_pem("b"),
            "`key_file` and `key_pem` are both set",
        ),
        (
            settings(1).cert_pem("a"),
            "`cert_pem` is set and `key_pem` is not",
        ),
        (
            settings(1).key_pem("a"),
            "`key_pem` is set and `cert_pem` is not",
        ),
    ] {
        let error = refusal(settings).await;
        assert_says(&error, ErrorKind::InvalidSettings, &[phrase]);
    }
}

#[test]
fn the_debug_format_has_no_text() {
    let settings = settings(1)
        .ca_pem("SECRET")
        .cert_pem("SECRET")
        .key_pem("SECRET");
    let shown = format!("{settings:?}");
    // Neither as text nor as numbers.
    assert!(
        !shown.contains("SECRET") && !shown.contains("83"),
        "{shown}"
    );
    assert!(shown.contains("key_pem"), "{shown}");
}
