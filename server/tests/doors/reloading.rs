//! Reloads that are rejected: nothing of the new configuration takes effect.
use crate::authority::write;
use crate::daemon::{Daemon, get, statestored};
use crate::tls_fixture::TlsFixture;
use statestore::{Client, Settings};
use std::path::Path;
use std::process::Command;

/// Starts a server that may open 256 files, and returns it with its address and that of HTTP.
fn start(config: &Path) -> (Daemon, String, String) {
    let server = statestored();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]);
    command.arg(server.get_program()).args(server.get_args());
    command.arg("--config").arg(config);
    let daemon = Daemon::spawn(command, 2);
    let (_, port) = daemon.listening[0].rsplit_once(':').unwrap();
    let address = format!("127.0.0.1:{port}");
    let http = daemon.listening[1].strip_prefix("http://").unwrap();
    let http = http.to_owned();
    (daemon, address, http)
}

/// Rejected by the last check of all: the network would be served without credentials.
#[tokio::test]
async fn a_rejected_reload_changes_no_option() {
    let files = TlsFixture::new();
    let users = write(files.folder.path(), "users", "ann:secret\n");
    let policy = write(files.folder.path(), "policy.yaml", "rules: []\n");
    let common = "listen = 'tcp://0.0.0.0:0'\nhttp = 'http://127.0.0.1:0'\n";
    let before = format!(
        "{common}users-file = '{}'\nlog = 'info'\nmax-keys = 1\nmax-connections = 16\n",
        users.display()
    );
    let after = format!(
        "{common}log = 'debug'\nmax-keys = 5\nmax-connections = 9000\nmax-packet-bytes = 1024\n\
         max-watches = 0\naudit-keys = true\npolicy-file = '{}'\n",
        policy.display()
    );
    let config = write(files.folder.path(), "config.toml", &before);
    let (mut daemon, address, http) = start(&config);
    let url = format!("mqtt://{address}");
    let settings = || Settings::from_url(&url).unwrap();
    let ann = || settings().user_name("ann").password("secret");
    let client = Client::connect(ann().client_id("first")).await.unwrap();
    std::fs::write(&config, after).unwrap();
    daemon.signal("-HUP");
    let line = daemon.log_line("cannot reload");
    assert!(line.contains("--allow-anonymous"), "{line}");

    let filter = get(http.parse().unwrap(), "/api/log");
    assert!(filter.contains(r#"{"filter":"info"}"#), "{filter}");
    for client in [
        client,
        Client::connect(ann().client_id("second")).await.unwrap(),
    ] {
        client.set("key", vec![b'.'; 2000]).await.unwrap();
        let full = client.set("another", "").await.unwrap_err();
        assert!(full.to_string().contains("quota"), "{full}");
        client.observe("key").await.unwrap();
    }
    assert!(Client::connect(settings()).await.is_err());
    daemon.signal("-TERM");
    let log = daemon.rest_of_log();
    let is_of_the_new = |line: &&String| line.contains("too few for") || line.contains("DEBUG");
    assert_eq!(log.iter().find(is_of_the_new), None);
}

/// Other listeners need a restart, other users do not.
#[test]
fn a_reload_does_not_expose_a_listener_that_the_new_configuration_lacks() {
    let files = TlsFixture::new();
    let users = write(files.folder.path(), "users", "ann:secret\n");
    let users = format!("users-file = '{}'\n", users.display());
    let tls = format!(
        "tls-cert = '{}'\ntls-key = '{}'\n",
        files.tls.certificate.display(),
        files.tls.key.display()
    );
    let ca = format!("tls-client-ca = '{}'\n", files.path("ca.crt").display());
    for (scheme, common, protection) in [("tcp", "", &users), ("tls", &tls, &ca)] {
        let network = format!("listen = '{scheme}://0.0.0.0:0'\n{common}");
        let loopback = format!("listen = '{scheme}://127.0.0.1:0'\n{common}");
        let before = format!("{network}{protection}");
        let config = write(files.folder.path(), "config.toml", &before);
        let mut daemon = Daemon::start(&["--config", config.to_str().unwrap()], 1);
        std::fs::write(&config, &loopback).unwrap();
        daemon.signal("-HUP");
        let line = daemon.log_line("reload");
        assert!(
            line.contains("cannot reload") && line.contains("takes effect at a restart"),
            "{line}"
        );
        std::fs::write(&config, format!("{loopback}{protection}")).unwrap();
        daemon.signal("-HUP");
        daemon.log_line("the configuration was read again");
        let anonymous = format!("{network}allow-anonymous = true\n");
        std::fs::write(&config, anonymous).unwrap();
        daemon.signal("-HUP");
        let line = daemon.log_line("every client that can reach");
        assert!(line.contains("WARN"), "{line}");
        daemon.log_line("the configuration was read again");
    }
}
