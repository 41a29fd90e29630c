//! Which certificates of clients open the door.
use crate::authority::{Authority, write};
use crate::tls_fixture::{TlsFixture, encrypt, is_served};
use rcgen::{CertificateParams, SerialNumber, date_time_ymd};
use rustls::HandshakeKind;
use rustls::client::Resumption;
use rustls::version::{TLS12, TLS13};
use statestored::RunningServer;
use statestored::config::{ClientCertificates, Config, ConfigSource, Tls};
use std::sync::Arc;

const REVOKED: u64 = 4711;

fn with_number(number: u64) -> impl FnOnce(&mut CertificateParams) {
    move |params| params.serial_number = Some(SerialNumber::from(number))
}

fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2001, 1, 1);
    params.not_after = date_time_ymd(2001, 2, 1);
}

#[test]
fn only_valid_client_certificates_are_accepted() {
    for (demanded, without) in [
        (ClientCertificates::Required, false),
        (ClientCertificates::Optional, true),
    ] {
        let mut files = TlsFixture::new().demand(demanded);
        let list = files.authority.revoke(&[REVOKED]);
        files.tls.client_crl = Some(write(files.folder.path(), "crl.pem", &list));
        let server = files.start(&["tls://127.0.0.1:0"]);
        let issue = |change: fn(&mut CertificateParams)| files.authority.issue_with("pump", change);
        for (what, identity, is_good) in [
            ("good", Some(issue(|_| ())), true),
            ("none", None, without),
            (
                "of somebody else",
                Some(Authority::new("tests").issue("pump")),
                false,
            ),
            ("expired", Some(issue(expired)), false),
            (
                "revoked",
                Some(issue(|params| with_number(REVOKED)(params))),
                false,
            ),
            (
                "not revoked",
                Some(issue(|params| with_number(1)(params))),
                true,
            ),
        ] {
            for version in [&TLS12, &TLS13] {
                let config = files.client_with_versions(&[version], identity.as_ref(), &[]);
                let mut stream = encrypt(server.addresses()[0], &Arc::new(config));
                assert_eq!(is_served(&mut stream), is_good, "{demanded:?}, {what}");
            }
        }
    }
}

#[test]
fn a_session_ticket_resumes_unless_the_certificate_is_revoked() {
    for version in [&TLS12, &TLS13] {
        let mut files = TlsFixture::new().demand(ClientCertificates::Required);
        let crl = write(files.folder.path(), "crl.pem", &files.authority.revoke(&[]));
        files.tls.client_crl = Some(crl);
        let identity = files.authority.issue_with("pump", with_number(REVOKED));
        let mut config = files.client_with_versions(&[version], Some(&identity), &[]);
        config.resumption = Resumption::in_memory_sessions(8);
        let config = Arc::new(config);

        let mut first = files.config(&["tls://127.0.0.1:0"]);
        let source = files.tls.clone();
        first.source = Some(ConfigSource::new(move || {
            let mut config = Config::in_memory();
            config.listener_config.tls = Some(Tls::read(source.clone())?);
            Ok(config)
        }));
        let server = RunningServer::start(first).unwrap();
        let kind = || {
            let mut stream = encrypt(server.addresses()[0], &config);
            is_served(&mut stream).then(|| stream.conn.handshake_kind().unwrap())
        };
        assert_eq!(kind(), Some(HandshakeKind::Full));
        assert_eq!(kind(), Some(HandshakeKind::Resumed));
        write(
            files.folder.path(),
            "crl.pem",
            &files.authority.revoke(&[REVOKED]),
        );
        server.handle().reload_blocking().unwrap();
        assert_eq!(kind(), None);
    }
}
