//! Parameters that a TLS handshake negotiates.
use crate::authority::write;
use crate::daemon::get;
use crate::tls_fixture::{TlsFixture, encrypt, is_served};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};
use serde_json::Value;
use statestored::RunningServer;
use statestored::admin::AdminConfig;
use statestored::config::{ClientCertificates, Tls, TlsError};
use std::io::{Read, Write};
use std::sync::Arc;

#[test]
fn tls_1_2_and_1_3_are_accepted_with_alpn_mqtt() {
    let files = TlsFixture::new();
    let server = files.start(&["tls://127.0.0.1:0"]);
    for (version, spoken) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        for (offered, agreed) in [
            (&["mqtt"][..], Some(&b"mqtt"[..])),
            (&["x-other", "mqtt"], Some(b"mqtt")),
            (&[], None),
        ] {
            let config = Arc::new(files.client_with_versions(&[version], None, offered));
            let mut stream = encrypt(server.addresses()[0], &config);
            assert!(is_served(&mut stream));
            assert_eq!(stream.conn.protocol_version(), Some(spoken));
            assert_eq!(stream.conn.alpn_protocol(), agreed);
        }
        let config = Arc::new(files.client_with_versions(&[version], None, &["h2"]));
        assert!(!is_served(&mut encrypt(server.addresses()[0], &config)));
    }
}

#[test]
fn wss_negotiates_alpn_http_1_1() {
    let files = TlsFixture::new();
    let server = files.start(&["wss://127.0.0.1:0"]);
    for (offered, is_good) in [
        (&["h2", "http/1.1"][..], true),
        (&[], true),
        (&["mqtt"], false),
    ] {
        let config = Arc::new(files.client(None, offered));
        let mut stream = encrypt(server.addresses()[0], &config);
        let mut begin = [0; 12];
        let answered = stream
            .write_all(b"GET / HTTP/1.1\r\n\r\n")
            .and_then(|()| stream.read_exact(&mut begin));
        assert_eq!(answered.is_ok(), is_good, "{offered:?}");
        if is_good {
            assert_eq!(&begin, b"HTTP/1.1 426");
        }
    }
}

#[test]
fn operators_see_the_encryption_and_certificate_of_a_client() {
    let files = TlsFixture::new().demand(ClientCertificates::Optional);
    let mut config = files.config(&["tls://127.0.0.1:0"]);
    let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), None);
    config.admin = Some(admin.unwrap());
    let server = RunningServer::start(config).unwrap();
    let identity = files.authority.issue("pump");
    let client = files.client_with_versions(&[&TLS13], Some(&identity), &[]);
    let mut stream = encrypt(server.addresses()[0], &Arc::new(client));
    assert!(is_served(&mut stream));
    let ask = |path: &str| -> Value {
        let answer = get(server.http_address().unwrap(), path);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    };
    let connection = &ask("/api/connections")["items"][0];
    assert_eq!(connection["protocol"], "tls");
    let id = connection["client"].as_str().unwrap();
    let shown = ask(&format!("/api/client?client={id}"));
    assert_eq!(shown["tls"]["version"], "TLSv1_3");
    let cipher = shown["tls"]["cipher"].as_str().unwrap();
    assert!(cipher.starts_with("TLS13_"), "{cipher}");
    let subject = shown["certificate"]["subject"].as_str().unwrap();
    assert!(subject.contains("pump"), "{subject}");
}

#[test]
fn unusable_tls_files_are_reported() {
    let files = TlsFixture::new();
    let other = files.authority.issue("other");
    let folder = files.folder.path();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (what, certificate, key, client_ca, expected) in [
        (
            "mismatch",
            None,
            Some(other.key.as_str()),
            None,
            "is not the key of the first certificate",
        ),
        (
            "no key",
            None,
            Some("nothing"),
            None,
            "contains no private key",
        ),
        (
            "encrypted",
            None,
            Some(encrypted),
            None,
            "is protected by a password",
        ),
        ("empty", Some(""), None, None, "contains no certificate"),
        (
            "half",
            Some("-----BEGIN CERTIFICATE-----\nAAAA"),
            None,
            None,
            "is not well-formed PEM",
        ),
        (
            "no DER",
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            None,
            None,
            "cannot be used",
        ),
        (
            "no authority",
            None,
            None,
            Some("rubbish"),
            "contains no certificate",
        ),
    ] {
        let mut tls = files.tls.clone();
        let replace = |name: &str, content: Option<&str>, path: &mut std::path::PathBuf| {
            if let Some(content) = content {
                *path = write(folder, &format!("{what} {name}"), content);
            }
        };
        replace("certificate", certificate, &mut tls.certificate);
        replace("key", key, &mut tls.key);
        if let Some(content) = client_ca {
            tls.client_ca = Some(write(folder, "other ca", content));
            tls.client_certificates = ClientCertificates::Required;
        }
        let error = Tls::read(tls).unwrap_err();
        assert!(matches!(error, TlsError::File { .. }), "{what}: {error:?}");
        assert!(error.to_string().contains(expected), "{what}: {error}");
    }
    let mut missing = files.tls.clone();
    missing.key = files.path("nowhere");
    let error = Tls::read(missing).unwrap_err();
    assert!(matches!(error, TlsError::Read { .. }), "{error:?}");
}
