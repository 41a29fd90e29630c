//! `statestore admin`, `health` and `top` over TLS.
use crate::harness::{Run, Store, run, statestore};
use statestored::admin::{AdminConfig, Token};
use statestored::config::{ClientCertificates, Config, Tls, TlsFiles};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TOKEN: &str = "a-token-that-nobody-guesses";

/// A store whose HTTP port has TLS.
struct HttpsFixture {
    store: Store,
    folder: TempDir,
}

/// Writes a self-signed certificate for an address or a name, and its key.
fn write_identity(folder: &Path, name: &str, subject: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed([subject.to_owned()]).unwrap();
    let (certificate, key) = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.key")),
    );
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

impl HttpsFixture {
    /// Starts a store whose certificate is for `subject`.
    fn start(subject: &str, requires_certificates: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        let (certificate, key) = write_identity(folder.path(), "server", subject);
        let (client, _) = write_identity(folder.path(), "client", "client");
        write_identity(folder.path(), "stranger", "stranger");
        let tls = Tls::read(TlsFiles {
            certificate,
            key,
            client_ca: Some(client),
            client_certificates: if requires_certificates {
                ClientCertificates::Required
            } else {
                ClientCertificates::Off
            },
            client_crl: None,
        });
        let address = "https://127.0.0.1:0".parse().unwrap();
        let mut admin = AdminConfig::new(address, Some(Token::new(TOKEN).unwrap())).unwrap();
        admin.tls = Some(tls.unwrap());
        let mut config = Config::in_memory();
        config.admin = Some(admin);
        Self {
            store: Store::with(config),
            folder,
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let mut command = statestore(arguments);
        let url = self.store.admin_url().replace("http://", "https://");
        command.env("STATESTORE_ADMIN", url);
        run(command, b"")
    }
}

#[test]
fn subcommands_use_tls_and_the_token() {
    let watched = HttpsFixture::start("127.0.0.1", false);
    let (ca, token) = (watched.path("server.crt"), watched.path("token"));
    for (arguments, expected) in [
        (&["health"][..], "alive\n"),
        (&["health", "--ready"], "ready\n"),
        (
            &["admin", "reload", "--token-file", &token],
            "reloaded; 0 clients disconnected\n",
        ),
    ] {
        let done = watched.run(&[arguments, &["--ca-file", &ca]].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(String::from_utf8(done.stdout).unwrap(), expected);
    }
    let top = watched.run(&["top", "--ca-file", &ca]);
    assert_eq!(top.code, Some(0), "{top:?}");
}

#[test]
fn an_untrusted_server_receives_no_request() {
    let watched = HttpsFixture::start("127.0.0.1", false);
    let other = watched.path("stranger.crt");
    watched
        .run(&["health", "--ca-file", &other])
        .assert_error(3, "name the file of its authority with --ca-file");
    let misnamed = HttpsFixture::start("other.example", false);
    let ca = misnamed.path("server.crt");
    misnamed
        .run(&["health", "--ca-file", &ca])
        .assert_error(3, "ask for it by a name in its certificate");
}

#[test]
fn a_client_certificate_is_shown() {
    let watched = HttpsFixture::start("127.0.0.1", true);
    let ca = watched.path("server.crt");
    let ask = |name: &str| {
        let (certificate, key) = (
            watched.path(&format!("{name}.crt")),
            watched.path(&format!("{name}.key")),
        );
        watched.run(&[
            "health",
            "--ca-file",
            &ca,
            "--cert-file",
            &certificate,
            "--key-file",
            &key,
        ])
    };
    let done = ask("client");
    assert_eq!(done.code, Some(0), "{done:?}");
    ask("stranger").assert_error(3, "does not accept the certificate of --cert-file");
    watched
        .run(&["health", "--ca-file", &ca])
        .assert_error(3, "show a certificate with --cert-file and --key-file");
}

#[test]
fn options_of_tls_are_checked() {
    let watched = HttpsFixture::start("127.0.0.1", false);
    let (ca, key) = (watched.path("server.crt"), watched.path("server.key"));
    let plain = ["health", "--admin", "http://127.0.0.1:1", "--ca-file", &ca];
    watched.run(&plain).assert_error(2, "need https://");
    watched
        .run(&["health", "--ca-file", &ca, "--cert-file", &ca])
        .assert_error(2, "--cert-file and --key-file need each other");
    watched
        .run(&["health", "--ca-file", &key])
        .assert_error(2, "contains no certificate in PEM");
    let both = [
        "health",
        "--ca-file",
        &ca,
        "--cert-file",
        &ca,
        "--key-file",
        &ca,
    ];
    watched
        .run(&both)
        .assert_error(2, "contains no private key in PEM");
    let missing = watched.path("missing");
    watched
        .run(&["health", "--ca-file", &missing])
        .assert_error(2, "cannot read file");
}

#[test]
fn a_port_with_tls_explains_itself_to_a_client_without() {
    let watched = HttpsFixture::start("127.0.0.1", false);
    let url = watched.store.admin_url();
    let status = statestore(["admin", "status", "--admin", &url]);
    run(status, b"").assert_error(4, "this port has TLS: use https://");
}
