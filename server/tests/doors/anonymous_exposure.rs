//! Protection against a server that serves anonymous clients by accident.
use crate::authority::write;
use crate::daemon::{Daemon, run};
use crate::tls_fixture::TlsFixture;
use statestore::{Client, Error, SetOutcome, Settings};

#[test]
fn anonymous_network_access_requires_an_option() {
    let listen = ["--listen", "tcp://0.0.0.0:0"];
    for arguments in [&listen[..], &[&listen[..], &["--check"]].concat()] {
        let output = run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        for word in [
            "tcp://0.0.0.0",
            "--users-file",
            "--tls-client-ca",
            "--allow-anonymous",
        ] {
            assert!(text.contains(word), "{text}");
        }
    }
    let mut daemon = Daemon::start(&[&listen[..], &["--allow-anonymous"]].concat(), 1);
    let line = daemon.log_line("every client that can reach");
    assert!(line.contains("WARN"), "{line}");
}

#[test]
fn required_client_certificates_permit_a_network_listener() {
    let files = TlsFixture::new();
    let certificate = files.tls.certificate.to_str().unwrap();
    let key = files.tls.key.to_str().unwrap();
    let ca = files.path("ca.crt");
    let tls = ["--tls-cert", certificate, "--tls-key", key];
    let listen = ["--listen", "tls://0.0.0.0:0"];
    let with_ca = [
        &tls[..],
        &listen,
        &["--tls-client-ca", ca.to_str().unwrap()],
    ]
    .concat();
    Daemon::start(&with_ca, 1);
    for not_enough in [
        [&tls[..], &listen].concat(),
        [&with_ca[..], &["--tls-client-cert", "optional"]].concat(),
        [&with_ca[..], &["--listen", "tcp://0.0.0.0:0"]].concat(),
    ] {
        assert!(!run(&not_enough).status.success(), "{not_enough:?}");
    }
}

#[test]
fn a_certificate_is_no_user_name_without_authorities_of_clients() {
    let output = run(&["--tls-user", "common-name", "--check"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && text.contains("--tls-client-ca"),
        "{text}"
    );
}

#[test]
fn a_certificate_is_no_user_name_if_no_certificate_is_requested() {
    let files = TlsFixture::new();
    let ca = files.path("ca.crt");
    let check = |requested: &str| {
        run(&[
            "--tls-cert",
            files.tls.certificate.to_str().unwrap(),
            "--tls-key",
            files.tls.key.to_str().unwrap(),
            "--tls-client-ca",
            ca.to_str().unwrap(),
            "--tls-client-cert",
            requested,
            "--tls-user",
            "common-name",
            "--check",
        ])
    };
    let output = check("off");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success()
            && text.contains("--tls-user")
            && text.contains("set it to optional or required"),
        "{text}"
    );
    for requested in ["optional", "required"] {
        assert!(check(requested).status.success(), "{requested}");
    }
}

#[test]
fn a_reload_cannot_expose_the_server_anonymously() {
    let files = TlsFixture::new();
    let users = write(files.folder.path(), "users", "ann:secret\n");
    let with_users = format!(
        "listen = 'tcp://0.0.0.0:0'\nusers-file = '{}'",
        users.display()
    );
    let config = write(files.folder.path(), "config.toml", &with_users);
    let mut daemon = Daemon::start(&["--config", config.to_str().unwrap()], 1);
    std::fs::write(&config, "listen = 'tcp://0.0.0.0:0'").unwrap();
    daemon.signal("-HUP");
    let line = daemon.log_line("cannot reload");
    assert!(line.contains("--allow-anonymous"), "{line}");
}

/// Also that a mistake leaves what was in force, and that no connection is lost by either.
#[tokio::test]
async fn sighup_reloads_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    let text = |keys| format!("listen = 'tcp://127.0.0.1:0'\nmax-keys = {keys}\n");
    let config = write(folder.path(), "config.toml", &text("1"));
    let mut daemon = Daemon::start(&["--config", config.to_str().unwrap()], 1);
    let address = daemon.listening[0].strip_prefix("tcp://").unwrap();
    let settings = Settings::from_url(&format!("mqtt://{address}")).unwrap();
    let client = Client::connect(settings).await.unwrap();
    client.set("first", "").await.unwrap();
    let is_full = |answer: Result<SetOutcome, Error>| {
        answer.is_err_and(|error| error.to_string().contains("quota"))
    };
    assert!(is_full(client.set("second", "").await));

    std::fs::write(&config, text("2")).unwrap();
    daemon.signal("-HUP");
    daemon.log_line("was read again");
    client.set("second", "").await.unwrap();

    std::fs::write(&config, text("'many'")).unwrap();
    daemon.signal("-HUP");
    let line = daemon.log_line("cannot reload");
    assert!(line.contains("config.toml:2:12"), "{line}");
    assert!(is_full(client.set("third", "").await));
    assert_eq!(client.counters().reconnects, 0);
}

#[test]
fn a_reload_names_the_options_that_need_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    let write = |listeners: &str, keys: u32| {
        let text = format!("listen = [{listeners}]\nmax-keys = {keys}\n");
        std::fs::write(&config, text).unwrap();
    };
    write("'tcp://127.0.0.1:0', 'ws://127.0.0.1:0'", 10);
    let arguments = ["--config", config.to_str().unwrap()];
    let mut daemon = Daemon::start(&arguments, 2);
    write("'tcp://127.0.0.1:0'", 20);
    daemon.signal("-HUP");
    let line = daemon.log_line("need a restart");
    assert!(line.contains("need a restart: listen;"), "{line}");
    daemon.log_line("was read again");
    write("'tcp://127.0.0.1:0', 'ws://127.0.0.1:0'", 30);
    daemon.signal("-HUP");
    let line = daemon.log_line("read again");
    assert!(!line.contains("listen"), "{line}");
}

#[test]
fn tls_needs_a_certificate() {
    let output = run(&["--listen", "tls://127.0.0.1:0"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && text.contains("--tls-cert"),
        "{text}"
    );
}
