//! The certificate of the listeners, and handshakes that fail because of it.
use crate::authority::Authority;
use crate::http::{TIMEOUT, get, open, start};
use crate::metrics::samples;
use rcgen::date_time_ymd;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use statestored::RunningServer;
use statestored::config::{ClientCertificates, Config, Tls, TlsFiles};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The files of a certificate of the authority that expires then, in time since the Unix epoch.
pub(crate) fn tls(authority: &Authority, folder: &Path, expiry: Duration) -> Tls {
    let identity = authority.issue_with("server", |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(1970, 1, 1) + expiry;
    });
    let (certificate, key) = identity.write(folder, "server");
    let files = TlsFiles {
        certificate,
        key,
        client_ca: None,
        client_certificates: ClientCertificates::Off,
        client_crl: None,
    };
    Tls::read(files).unwrap()
}

fn start_with(tls: Tls) -> RunningServer {
    let mut config = Config::in_memory();
    config.listeners = vec!["tls://127.0.0.1:0".parse().unwrap()];
    config.listener_config.tls = Some(tls);
    start(config)
}

#[test]
fn the_expiry_of_a_certificate_is_a_metric_and_a_warning_14_days_before() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("tests");
    let now = Duration::from_secs(UNIX_EPOCH.elapsed().unwrap().as_secs());
    for (expiry, warning) in [
        (now + 15 * DAY, "ready\n"),
        (now + 13 * DAY, "ready\ncertificate_expires: "),
        (now.saturating_sub(DAY), "ready\ncertificate_expired: "),
    ] {
        let server = start_with(tls(&authority, folder.path(), expiry));
        let listener = server.bound_addresses()[0].to_string();
        let name =
            format!("statestored_certificate_expiry_timestamp_seconds{{listener=\"{listener}\"}}");
        let samples = samples(&get(&server, "/metrics").body);
        assert_eq!(samples[&name].to_string(), expiry.as_secs().to_string());
        let ready = get(&server, "/readyz");
        assert_eq!(ready.status, 200);
        assert!(ready.body.starts_with(warning), "{ready:?}");
        assert_eq!(ready.body == "ready\n", warning == "ready\n", "{ready:?}");
    }
}

#[test]
fn a_client_that_rejects_an_expired_certificate_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("tests");
    let expiry = UNIX_EPOCH.elapsed().unwrap().saturating_sub(DAY);
    let server = start_with(tls(&authority, folder.path(), expiry));
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut socket = open(server.addresses()[0]);
    let error = connection.complete_io(&mut socket).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
    let name = r#"statestored_tls_handshakes_failed_total{reason="server_certificate_expired"}"#;
    let begin = Instant::now();
    while samples(&get(&server, "/metrics").body)[name] < 1.0 {
        assert!(begin.elapsed() < TIMEOUT, "the failure is not counted");
    }
}
