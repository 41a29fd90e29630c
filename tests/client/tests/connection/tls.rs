//! TLS: the certificates that the client trusts, and the identity that it presents.
use crate::authority::{Authority, Identity};
use crate::broker::{Broker, TLS_1_2, TLS_1_3, Tls};
use crate::support::within;
use crate::{Files, connected, key, reconnecting};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use statestore::{Client, Error, ErrorKind, Outcome, Settings};
use statestored::{RunningServer, config::Config};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

fn settings(port: u16) -> Settings {
    Settings::new("127.0.0.1", port)
        .tls(true)
        .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
}

/// Connects to a broker that does not get a CONNECT out of this client.
async fn refused(broker: &Broker, settings: Settings) -> Error {
    let serve = async {
        if let Ok(mut peer) = broker.try_accept().await {
            assert!(peer.packet_or_end().await.is_none());
        }
    };
    let (client, ()) = tokio::join!(within(Client::connect(settings)), serve);
    let error = client.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone);
    assert!(!error.is_retryable(), "{error}");
    error
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
async fn values_of_all_sizes_pass_through_tls_in_parallel() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let store_address = store.addresses()[0];
    let acceptor = Tls::new(&authority.issue(NAMES)).acceptor();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut near = acceptor.accept(tcp).await.unwrap();
        let mut far = TcpStream::connect(store_address).await.unwrap();
        // An error is the client's way to say goodbye.
        let _ = copy_bidirectional(&mut near, &mut far).await;
    });

    let url = format!("mqtts://localhost:{port}?ca_file={}", ca_file.display());
    let client = Client::connect(Settings::from_url(&url).unwrap())
        .await
        .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for size in [0, 1, 100, 16_383, 16_384, 16_385, 1 << 20, 3 << 20] {
        let client = client.clone();
        tasks.spawn(async move {
            let key = format!("size {size}");
            let value = vec![0x5A; size];
            client.set(&key, value.clone()).await.unwrap();
            let entry = client.get(&key).await.unwrap().unwrap();
            assert!(entry.value == value, "another value of {size} bytes");
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    client.close().await;
    within(proxy).await.unwrap();
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_supported() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let identity = authority.issue(NAMES);
    for versions in [&TLS_1_2, &TLS_1_3] {
        let broker = Broker::tls(Tls {
            versions,
            ..Tls::new(&identity)
        })
        .await;
        let settings = settings(broker.port()).ca_file(&ca_file);
        let (client, _peer) = tokio::join!(Client::connect(settings), broker.welcome());
        client.unwrap();
    }
}

#[tokio::test]
async fn the_host_name_or_the_server_name_must_be_in_the_certificate() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let broker = Broker::tls(Tls::new(&authority.issue(["broker.internal"]))).await;
    let settings = settings(broker.port()).ca_file(&ca_file);

    let error = refused(&broker, settings.clone()).await;
    assert_says(
        &error,
        ErrorKind::Untrusted,
        &["not made out to `127.0.0.1` but to broker.internal;"],
    );

    let settings = settings.server_name("broker.internal");
    let (client, _peer) = tokio::join!(Client::connect(settings), broker.welcome());
    client.unwrap();
}

#[tokio::test]
async fn a_certificate_by_another_authority_is_not_trusted() {
    let files = Files::new();
    let ca_file = files.write("ca.crt", Authority::new("authority").pem());
    let broker = Broker::tls(Tls::new(&Authority::new("authority").issue(NAMES))).await;

    let error = refused(&broker, settings(broker.port()).ca_file(&ca_file)).await;
    let path = ca_file.display().to_string();
    assert_says(&error, ErrorKind::Untrusted, &["not signed by", &path]);
}

#[tokio::test]
async fn a_certificate_of_an_authority_is_refused_with_advice() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let own = authority.issue_with(NAMES, |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let broker = Broker::tls(Tls::new(&own)).await;
    let error = refused(&broker, settings(broker.port()).ca_file(&ca_file)).await;
    assert_says(
        &error,
        ErrorKind::Untrusted,
        &[
            "it is a certificate of an authority",
            "have that authority sign a certificate for the broker",
        ],
    );
    assert!(!error.to_string().contains("OtherError"), "{error}");
}

#[tokio::test]
async fn certificates_of_kinds_that_are_not_supported_are_refused_with_advice() {
    let private = std::fs::read_to_string(key("ec.pkcs8.pem")).unwrap();
    for (certificate, authority, phrases) in [
        (
            "version1.crt",
            "authority.crt",
            ["it is of X.509 version 1", "make one of version 3"],
        ),
        (
            "sha1.crt",
            "authority.crt",
            ["such as SHA-1", "sign with SHA-256 or better"],
        ),
        (
            "p521.crt",
            "p521.authority.crt",
            ["P-521", "use RSA of 2,048 bits or more, P-256"],
        ),
    ] {
        let identity = Identity {
            certificate: std::fs::read_to_string(key(certificate)).unwrap(),
            key: private.clone(),
        };
        let broker = Broker::tls(Tls::new(&identity)).await;
        let error = refused(&broker, settings(broker.port()).ca_file(key(authority))).await;
        assert_says(&error, ErrorKind::Untrusted, &phrases);
        // Names of Rust are no explanation.
        let text = error.to_string();
        assert!(
            !text.contains("Unsupported") && !text.contains("OtherError"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_self_signed_certificate_can_be_its_own_authority() {
    let files = Files::new();
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
    let identity = Identity {
        certificate: params.self_signed(&own).unwrap().pem(),
        key: own.serialize_pem(),
    };
    let broker = Broker::tls(Tls::new(&identity)).await;
    let other = files.write("ca.crt", Authority::new("authority").pem());
    let error = refused(&broker, settings(broker.port()).ca_file(&other)).await;
    assert_says(
        &error,
        ErrorKind::Untrusted,
        &[
            "not signed by",
            "or the certificate itself if it is self-signed",
        ],
    );
    let ca_file = files.write("own.crt", &identity.certificate);
    let settings = settings(broker.port()).ca_file(&ca_file);
    let (client, _peer) = tokio::join!(Client::connect(settings), broker.welcome());
    client.unwrap();
}

/// A server whose only certificate has a key over P-521 finds no signature that both sides know, and sends this alert.
#[tokio::test]
async fn a_handshake_failure_alert_is_explained_with_advice_about_keys() {
    const HANDSHAKE_FAILURE: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x28];
    let authority = Authority::new("authority");
    let files = Files::new();
    let own = authority.issue(["client"]);
    let plain = |port| settings(port).ca_file(files.write("ca.crt", authority.pem()));
    let with_certificate = |port| {
        plain(port)
            .cert_file(files.write("client.crt", &own.certificate))
            .key_file(files.write("client.key", &own.key))
    };
    let configured: [(&dyn Fn(u16) -> Settings, ErrorKind); 2] = [
        (&plain, ErrorKind::NotAuthenticated),
        (&with_certificate, ErrorKind::ConnectionRefused),
    ];
    for (settings, kind) in configured {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = settings(listener.local_addr().unwrap().port());
        let serve = async {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut hello = [0; 5];
            tcp.read_exact(&mut hello).await.unwrap();
            tcp.write_all(&HANDSHAKE_FAILURE).await.unwrap();
            tcp
        };
        let (client, _tcp) = tokio::join!(within(Client::connect(settings)), serve);
        let phrases = [
            "(HandshakeFailure)",
            "P-256, P-384 and Ed25519, such as P-521",
        ];
        assert_says(&client.unwrap_err(), kind, &phrases);
    }
}

#[tokio::test]
async fn a_broker_with_tls_is_recognized_without_tls() {
    let broker = Broker::tls(Tls::new(&Authority::new("authority").issue(NAMES))).await;
    let plain = Settings::new("127.0.0.1", broker.port());
    let (client, accepted) = tokio::join!(within(Client::connect(plain)), broker.try_accept());
    assert!(accepted.is_err());
    assert_says(
        &client.unwrap_err(),
        ErrorKind::ConnectionRefused,
        &["speaks TLS on this port", "use mqtts://"],
    );
}

#[tokio::test]
async fn one_of_several_authorities_in_the_file_is_enough() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", Authority::new("other").pem() + &authority.pem());
    let broker = Broker::tls(Tls::new(&authority.issue(NAMES))).await;
    let settings = settings(broker.port()).ca_file(&ca_file);
    let (client, _peer) = tokio::join!(Client::connect(settings), broker.welcome());
    client.unwrap();
}

#[tokio::test]
async fn an_expired_or_future_certificate_is_not_trusted() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());

    let expired =
        authority.issue_with(NAMES, |params| params.not_after = date_time_ymd(2001, 1, 1));
    let broker = Broker::tls(Tls::new(&expired)).await;
    let error = refused(&broker, settings(broker.port()).ca_file(&ca_file)).await;
    assert_says(&error, ErrorKind::Untrusted, &["expired", "days ago"]);

    let early = authority.issue_with(NAMES, |params| {
        params.not_before = date_time_ymd(3001, 1, 1);
    });
    let broker = Broker::tls(Tls::new(&early)).await;
    let error = refused(&broker, settings(broker.port()).ca_file(&ca_file)).await;
    assert_says(&error, ErrorKind::Untrusted, &["not valid yet"]);
}

#[tokio::test]
async fn without_a_ca_file_a_private_authority_is_unknown() {
    let identity = Authority::new("authority").issue(NAMES);
    let broker = Broker::tls(Tls::new(&identity)).await;
    let serve = async {
        loop {
            assert!(broker.try_accept().await.is_err());
        }
    };
    let connect = within(Client::connect(settings(broker.port())));
    let error = tokio::select! {
        client = connect => client.unwrap_err(),
        () = serve => unreachable!(),
    };
    // A machine without any authorities says it in other words, and does not even try.
    let text = error.to_string();
    assert!(text.contains("name a CA file"), "{text}");
}

#[tokio::test]
async fn a_broker_without_tls_is_recognized() {
    let files = Files::new();
    let ca_file = files.write("ca.crt", Authority::new("authority").pem());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = settings(listener.local_addr().unwrap().port()).ca_file(&ca_file);
    let serve = async {
        let (tcp, _) = listener.accept().await.unwrap();
        tcp.writable().await.unwrap();
        // A CONNACK.
        tcp.try_write(&[0x20, 0x03, 0x00, 0x00, 0x00]).unwrap();
        tcp
    };
    let (client, _tcp) = tokio::join!(within(Client::connect(settings)), serve);
    assert_says(
        &client.unwrap_err(),
        ErrorKind::ConnectionRefused,
        &["does not speak TLS"],
    );
}

#[tokio::test]
async fn keys_are_read_in_all_formats() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let identity = authority.issue(NAMES);
    let broker = Broker::tls(Tls {
        clients: Some(&authority),
        ..Tls::new(&identity)
    })
    .await;
    let password_file = files.write("password", "open sesame\n");
    for (name, kind, encrypted) in [
        ("ec.pkcs8.pem", "ec", false),
        ("ec.sec1.pem", "ec", false),
        ("ec.pbkdf2.pem", "ec", true),
        ("ec.scrypt.pem", "ec", true),
        ("rsa.pkcs8.pem", "rsa", false),
        ("rsa.pkcs1.pem", "rsa", false),
    ] {
        let plain = std::fs::read_to_string(key(&format!("{kind}.pkcs8.pem"))).unwrap();
        let own = authority.certify(["client"], &KeyPair::from_pem(&plain).unwrap(), |_| {});
        let mut settings = settings(broker.port())
            .ca_file(&ca_file)
            .cert_file(files.write("client.crt", &own.certificate))
            .key_file(key(name));
        if encrypted {
            settings = settings.key_password_file(&password_file);
        }
        let (client, (peer, _)) = tokio::join!(Client::connect(settings), broker.welcome());
        client.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(peer.certificate, Some(der(&own)), "{name}");
    }
}

fn der(identity: &Identity) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()
}

#[tokio::test]
async fn certificate_and_key_may_be_in_one_file() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let own = authority.issue(["client"]);
    let both = files.write("client.pem", own.certificate.clone() + &own.key);
    let identity = authority.issue(NAMES);
    let broker = Broker::tls(Tls {
        clients: Some(&authority),
        ..Tls::new(&identity)
    })
    .await;
    let settings = settings(broker.port())
        .ca_file(&ca_file)
        .cert_file(&both)
        .key_file(&both);
    let (client, (peer, _)) = tokio::join!(Client::connect(settings), broker.welcome());
    client.unwrap();
    assert_eq!(peer.certificate, Some(der(&own)));
}

#[tokio::test]
async fn a_required_client_certificate_is_sent_or_its_absence_reported() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let identity = authority.issue(NAMES);
    let stranger = Authority::new("stranger").issue(["client"]);
    let cert_file = files.write("stranger.crt", &stranger.certificate);
    let key_file = files.write("stranger.key", &stranger.key);
    for versions in [&TLS_1_2, &TLS_1_3] {
        let broker = Broker::tls(Tls {
            identity: &identity,
            clients: Some(&authority),
            versions,
        })
        .await;
        let settings = settings(broker.port()).ca_file(&ca_file);
        let error = refused(&broker, settings.clone()).await;
        assert_says(
            &error,
            ErrorKind::NotAuthenticated,
            &["client certificate", "certificate file"],
        );

        let settings = settings.cert_file(&cert_file).key_file(&key_file);
        let error = refused(&broker, settings).await;
        let path = cert_file.display().to_string();
        assert_says(
            &error,
            ErrorKind::NotAuthenticated,
            &["does not accept the client certificate", &path],
        );
    }
}

#[tokio::test]
async fn renewed_certificates_are_used_for_the_next_connection() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = Files::new();
    let (first, second) = (old.issue(["client"]), new.issue(["client"]));
    let settings = |port| {
        settings(port)
            .ca_file(files.write("ca.crt", old.pem()))
            .cert_file(files.write("client.crt", &first.certificate))
            .key_file(files.write("client.key", &first.key))
    };
    let identity = old.issue(NAMES);
    let mut broker = Broker::tls(Tls {
        clients: Some(&old),
        ..Tls::new(&identity)
    })
    .await;
    let (client, (peer, _)) =
        tokio::join!(Client::connect(settings(broker.port())), broker.welcome());
    let client = client.unwrap();
    assert_eq!(peer.certificate, Some(der(&first)));

    files.replace("ca.crt", new.pem());
    files.replace("client.crt", &second.certificate);
    files.replace("client.key", &second.key);
    let identity = new.issue(NAMES);
    broker.change(&Tls {
        clients: Some(&new),
        ..Tls::new(&identity)
    });
    drop(peer);
    let (peer, _) = broker.welcome().await;
    assert_eq!(peer.certificate, Some(der(&second)));
    connected(&client).await;
}

#[tokio::test]
async fn a_missing_file_is_retried_after_the_first_connection() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let ca_file = files.write("ca.crt", authority.pem());
    let broker = Broker::tls(Tls::new(&authority.issue(NAMES))).await;
    let settings = settings(broker.port()).ca_file(&ca_file);
    let (client, (peer, _)) = tokio::join!(Client::connect(settings), broker.welcome());
    let client = client.unwrap();

    std::fs::remove_file(&ca_file).unwrap();
    drop(peer);
    let is_it = |error: &Error| error.kind() == ErrorKind::InvalidSettings;
    let error = reconnecting(&client, is_it).await;
    assert!(error.to_string().contains("does not exist"), "{error}");

    files.write("ca.crt", authority.pem());
    // An attempt that found the file half written says nothing.
    let _peer = loop {
        if let Ok(mut peer) = broker.try_accept().await {
            peer.connect().await;
            peer.connack(statestore_protocol::mqtt::ReasonCode::SUCCESS)
                .await;
            peer.subscribe().await;
            break peer;
        }
    };
    connected(&client).await;
}
