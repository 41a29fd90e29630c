//! Certificates and keys that cannot be used, as `openssl` makes them, are explained.
use crate::daemon::{Daemon, run};
use crate::tls_fixture::TlsFixture;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {said}");
}

/// An authority, and certificates of both versions that it has signed: `ca`, `v1` and `v3`, with `.crt` and `.key` behind.
fn signed(folder: &Path) {
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        folder,
        &format!("req -x509 {new} -keyout ca.key -out ca.crt -subj /CN=ca -days 2"),
    );
    std::fs::write(folder.join("extensions"), "basicConstraints = CA:FALSE\n").unwrap();
    for (name, more) in [("v1", ""), ("v3", " -extfile extensions")] {
        openssl(
            folder,
            &format!("req {new} -keyout {name}.key -out {name}.csr -subj /CN={name}"),
        );
        let sign = "x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 2";
        openssl(
            folder,
            &format!("{sign} -in {name}.csr -out {name}.crt{more}"),
        );
    }
}

/// Returns the error of a server that cannot start with these files.
fn refused(certificate: &Path, key: &Path) -> String {
    let arguments = [
        "--listen=tls://127.0.0.1:0".to_owned(),
        format!("--tls-cert={}", certificate.display()),
        format!("--tls-key={}", key.display()),
        "--allow-anonymous".into(),
        "--check".into(),
    ];
    let output = run(&arguments);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

fn pair(folder: &Path, name: &str) -> [PathBuf; 2] {
    ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")))
}

#[test]
fn a_version_1_client_certificate_is_reported() {
    let files = TlsFixture::new();
    let folder = files.folder.path();
    signed(folder);
    let arguments = [
        "--listen=tls://127.0.0.1:0".to_owned(),
        format!("--tls-cert={}", files.tls.certificate.display()),
        format!("--tls-key={}", files.tls.key.display()),
        format!("--tls-client-ca={}", folder.join("ca.crt").display()),
    ];
    let mut daemon = Daemon::start(&arguments, 1);
    let (_, address) = daemon.listening[0].split_once("://").unwrap();
    let address = address.to_owned();
    let client = Command::new("openssl")
        .args([
            "s_client", "-connect", &address, "-cert", "v1.crt", "-key", "v1.key",
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    assert!(client.is_ok());
    let line = daemon.log_line("a connection ended before it had a client");
    assert!(
        line.contains("X.509 version 1") && line.contains("-extfile"),
        "{line}"
    );
}

#[test]
fn a_version_1_server_certificate_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path());
    let [certificate, key] = pair(folder.path(), "v1");
    let said = refused(&certificate, &key);
    assert!(
        said.contains("X.509 version 1") && said.contains("-extfile"),
        "{said}"
    );
}

#[test]
fn unusable_keys_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (name, algorithm, kind) in [
        (
            "p521",
            "ec -pkeyopt ec_paramgen_curve:P-521",
            "ECDSA over P-521",
        ),
        ("ed448", "ed448", "Ed448"),
        ("rsa", "rsa:1024", "RSA of 1024 bits"),
    ] {
        let [certificate, key] = pair(folder.path(), name);
        let new = format!("req -x509 -newkey {algorithm} -nodes -subj /CN=localhost -days 2");
        openssl(
            folder.path(),
            &format!("{new} -keyout {name}.key -out {name}.crt"),
        );
        let said = refused(&certificate, &key);
        assert!(said.contains(kind) && said.contains("P-256"), "{said}");
        assert!(!said.contains("failed to parse"), "{said}");
    }
}

#[test]
fn an_expired_intermediate_certificate_is_reported() {
    let mut files = TlsFixture::new();
    let between = files.authority.issue_with("between", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 2, 1);
    });
    let chain = files.path("chain.crt");
    std::fs::write(
        &chain,
        format!(
            "{}{}",
            files.server_identity.certificate, between.certificate
        ),
    )
    .unwrap();
    files.tls.certificate = chain;
    let arguments = [
        "--listen=tls://127.0.0.1:0".to_owned(),
        format!("--tls-cert={}", files.tls.certificate.display()),
        format!("--tls-key={}", files.tls.key.display()),
    ];
    let mut daemon = Daemon::start(&arguments, 1);
    let line = daemon.log_line("has expired");
    assert!(
        line.contains("ERROR") && line.contains("CN=between"),
        "{line}"
    );
}
