//! Advice in error messages: it fits the cause of the error.
use crate::harness::{Run, Store, run, statestore};
use statestored::config::{ClientCertificates, Config, Tls, TlsFiles};
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    thread,
};

const PASSWORD: &str = "?password_file=FILE";
const AUTHORITY: &str = "?ca_file=FILE";
const NAME: &str = "connect by a name in the certificate";

/// Writes a self-signed certificate for a name, and its key. Returns the files for a server that requests certificates of this
/// authority.
fn tls_files(folder: &Path, name: &str, client_certificates: ClientCertificates) -> TlsFiles {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    TlsFiles {
        client_ca: Some(certificate.clone()),
        certificate,
        key,
        client_certificates,
        client_crl: None,
    }
}

/// Connects to a server with a certificate for this name.
fn connect(name: &str, client_certificates: ClientCertificates, names_authority: bool) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let files = tls_files(folder.path(), name, client_certificates);
    let authority = files.certificate.display().to_string();
    let mut config = Config::in_memory();
    config.listeners = vec!["tls://127.0.0.1:0".parse().unwrap()];
    config.listener_config.tls = Some(Tls::read(files).unwrap());
    let store = Store::with(config);
    let mut url = format!("mqtts://127.0.0.1:{}", store.port());
    if names_authority {
        url = format!("{url}?ca_file={authority}");
    }
    run(statestore(["get", "k", "--url", &url]), b"")
}

#[track_caller]
fn assert_only(run: &Run, advice: Option<&str>) {
    for other in [PASSWORD, AUTHORITY, NAME, "ask the operator"] {
        let is_given = run.stderr.contains(other);
        assert_eq!(is_given, advice == Some(other), "{other:?} in {run:?}");
    }
}

#[test]
fn advice_about_a_certificate_fits_its_problem() {
    let unknown = connect("127.0.0.1", ClientCertificates::Off, false);
    assert_only(&unknown, Some(AUTHORITY));
    let other_name = connect("broker.internal", ClientCertificates::Off, true);
    assert_only(&other_name, Some(NAME));
    assert!(
        other_name.stderr.contains("broker.internal"),
        "{other_name:?}"
    );
    let required = connect("127.0.0.1", ClientCertificates::Required, true);
    assert_only(&required, None);
    assert!(required.stderr.contains("certificate"), "{required:?}");
}

#[test]
fn advice_about_a_refused_connection_fits_its_reason() {
    for (reason, advice) in [
        (0x86, Some(PASSWORD)),
        (0x87, Some("ask the operator")),
        (0x8a, None),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mqtt://{}", listener.local_addr().unwrap());
        let broker = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            // CONNACK
            stream.write_all(&[0x20, 3, 0, reason, 0]).unwrap();
        });
        let refused = run(statestore(["get", "k", "--url", &url]), b"");
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert_only(&refused, advice);
        broker.join().unwrap();
    }
}

#[test]
fn advice_about_a_quota_names_what_it_limits() {
    let mut config = Config::in_memory();
    (config.service.max_keys, config.service.max_watches) = (0, 0);
    let store = Store::with(config);
    store
        .run(["set", "k", "v"])
        .assert_error(4, "; delete keys or raise the quota");
    for verb in [&["watch", "k"][..], &["elect", "k", "--watch"]] {
        store
            .run(verb)
            .assert_error(4, "; end other watches, or raise the limit of watches");
    }
}
