//! Keys and values without the token: shown only where every local user could connect without credentials.
use crate::authority::{Authority, write};
use crate::http::{HttpResponse, TOKEN, admin, bearer, get_with, stop};
use statestored::RunningServer;
use statestored::config::{ClientCertificates, Config, ListenerConfig, Tls, TlsFiles};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn start(config: Config) -> RunningServer {
    RunningServer::start(Config {
        admin: Some(admin()),
        ..config
    })
    .unwrap()
}

fn keys(server: &RunningServer, lines: &str) -> HttpResponse {
    get_with(server.http_address().unwrap(), "/api/keys", lines)
}

/// The status of a list of keys without the token. With it, there always is one.
async fn status(config: Config) -> u16 {
    let server = start(config);
    assert_eq!(keys(&server, &bearer(TOKEN)).status, 200);
    let status = keys(&server, "").status;
    stop(server).await;
    status
}

fn socket(folder: &Path, unix_mode: u32) -> Config {
    let mut config = Config::in_memory();
    config.listeners = vec![format!("unix://{}/s", folder.display()).parse().unwrap()];
    config.listener_config.unix_mode = unix_mode;
    config
}

#[tokio::test]
async fn a_world_accessible_socket_file_exposes_keys() {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let allow = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path(), permissions).unwrap();
    };
    allow(0o755);
    assert_eq!(status(socket(folder.path(), 0o600)).await, 401);
    assert_eq!(status(socket(folder.path(), 0o660)).await, 401);
    assert_eq!(status(socket(folder.path(), 0o666)).await, 200);
    allow(0o700);
    assert_eq!(status(socket(folder.path(), 0o666)).await, 401);
}

#[tokio::test]
async fn required_client_certificates_protect_keys_without_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("plant");
    let client_ca = write(folder.path(), "ca.pem", &authority.pem());
    let (certificate, key) = authority.issue("localhost").write(folder.path(), "own");
    for (client_certificates, expected) in [
        (ClientCertificates::Required, 401),
        (ClientCertificates::Optional, 200),
    ] {
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: Some(client_ca.clone()),
            client_certificates,
            client_crl: None,
        };
        let mut config = Config::in_memory();
        config.listeners = vec!["tls://127.0.0.1:0".parse().unwrap()];
        config.listener_config = ListenerConfig {
            tls: Some(Tls::read(files).unwrap()),
            ..ListenerConfig::default()
        };
        assert_eq!(status(config).await, expected, "{client_certificates:?}");
    }
}
