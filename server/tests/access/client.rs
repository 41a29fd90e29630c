//! The client of this project logs in to the whole server.
use crate::authority::{Authority, Identity, write};
use crate::signer::{AUDIENCE, ISSUER, KeyFileFixture, Signer, claims};
use serde_json::json;
use statestore::{Client, Error, Settings};
use statestore_protocol::mqtt::ReasonCode;
use statestored::RunningServer;
use statestored::config::Config;
use statestored_access::Authenticator;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// Much longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

async fn until(condition: impl AsyncFn() -> bool) {
    let all = async { while !condition().await {} };
    timeout(LONG, all).await.expect("it comes in time");
}

fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[tokio::test]
async fn a_token_file_is_read_and_reread_when_it_is_renewed() {
    let signer = Signer::new("one");
    let keys = KeyFileFixture::with_signers(&[&signer]);
    let server = RunningServer::start(Config {
        authenticator: Authenticator::anonymous().with_tokens(keys.tokens()),
        ..Config::in_memory()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, signer.token(&claims(now_ms(), 600))).unwrap();
    let settings = |file: &Path| {
        Settings::from_url(&server.url())
            .unwrap()
            .sat_file(file)
            .allow_plaintext_credentials(true)
            .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
    };
    let client = Client::connect(settings(&file)).await.unwrap();
    client.set("key", "value").await.unwrap();
    for (count, seconds) in [(1, 601), (2, 602)] {
        replace(&file, &signer.token(&claims(now_ms(), seconds)));
        until(async || {
            client.get("key").await.unwrap();
            client.counters().reauthentications == count
        })
        .await;
    }
    assert_eq!(client.counters().reconnects, 0);
    // A token that is not accepted ends the connection.
    let mut wrong = claims(now_ms(), 600);
    wrong["aud"] = json!("other");
    replace(&file, &signer.token(&wrong));
    let control = server.handle();
    until(async || control.metrics().await.unwrap().logins_refused > 0).await;
    // The next one lets it in again.
    replace(&file, &signer.token(&claims(now_ms(), 600)));
    until(async || client.get("key").await.is_ok()).await;
    assert!(client.counters().reconnects > 0);
    client.close().await;

    std::fs::write(&file, signer.token(&wrong)).unwrap();
    let refused = Client::connect(settings(&file).connect_timeout(LONG)).await;
    assert_eq!(
        refused.unwrap_err().mqtt_reason(),
        Some(ReasonCode::NOT_AUTHORIZED)
    );
    server.stop().unwrap();
}

/// The server as a process, and what it has logged.
struct Daemon {
    child: Child,
    url: String,
}

impl Daemon {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_statestored"))
            .args(["--storage", "memory", "--log", "trace"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap();
        let url = url
            .replace("tls://", "mqtts://")
            .replace("tcp://", "mqtt://");
        Self { child, url }
    }

    fn settings(&self) -> Settings {
        Settings::from_url(&self.url).unwrap()
    }

    fn stop(mut self) -> String {
        self.child.kill().unwrap();
        let mut log = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        self.child.wait().unwrap();
        log
    }
}

async fn connect(settings: Settings) -> Result<Client, Error> {
    timeout(LONG, Client::connect(settings)).await.unwrap()
}

#[tokio::test]
async fn a_certificate_names_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = Authority::new("authority");
    let ca = write(folder, "ca.crt", &authority.pem());
    let (certificate, key) = authority.issue("server").write(folder, "server");
    let users = write(folder, "users", "pump:secret\n");
    let [ca, certificate, key, users] =
        [ca, certificate, key, users].map(|path| path.to_str().unwrap().to_owned());
    let daemon = Daemon::start(&[
        "--listen=tls://127.0.0.1:0",
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
        "--tls-client-ca",
        &ca,
        "--tls-client-cert=optional",
        "--tls-user=common-name",
        "--users-file",
        &users,
    ]);
    let of = |identity: &Identity, name: &str, client_id: &str| {
        let (certificate, key) = identity.write(folder, name);
        daemon
            .settings()
            .ca_file(&ca)
            .cert_file(certificate)
            .key_file(key)
            .client_id(client_id)
    };
    let [pump, valve] = ["pump", "valve"].map(|name| authority.issue(name));
    let client = connect(of(&pump, "pump", "pump-1")).await.unwrap();
    client.set("key", "value").await.unwrap();
    client.close().await;
    // The name is that of the certificate: what belongs to the pump is not for the valve.
    for client_id in ["pump-2", "pump"] {
        let refused = connect(of(&valve, "valve", client_id)).await.unwrap_err();
        assert_eq!(refused.mqtt_reason(), Some(ReasonCode::NOT_AUTHORIZED));
    }
    connect(of(&valve, "valve", "valve-1"))
        .await
        .unwrap()
        .close()
        .await;
    let nobody = daemon.settings().ca_file(&ca).client_id("x");
    let refused = connect(nobody).await.unwrap_err();
    assert_eq!(
        refused.mqtt_reason(),
        Some(ReasonCode::BAD_USER_NAME_OR_PASSWORD)
    );
    daemon.stop();
}

#[tokio::test]
async fn the_log_contains_no_credentials() {
    let signer = Signer::new("one");
    let keys = KeyFileFixture::with_signers(&[&signer]);
    let folder = tempfile::tempdir().unwrap();
    let hash =
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    let users = write(
        folder.path(),
        "users",
        &format!("ann:{hash}\nbob:tOpSeCrEt\n"),
    );
    let daemon = Daemon::start(&[
        "--listen=tcp://127.0.0.1:0",
        "--users-file",
        users.to_str().unwrap(),
        "--jwks-file",
        keys.path().to_str().unwrap(),
        "--jwt-issuer",
        ISSUER,
        "--jwt-audience",
        AUDIENCE,
    ]);
    let mut secrets = vec!["tOpSeCrEt".to_owned(), "CTFhFdXP".into(), "gUeSs".into()];
    for (user, password, is_right) in [
        ("ann", "password", true),
        ("ann", "gUeSs", false),
        ("bob", "tOpSeCrEt", true),
        ("bob", "gUeSs", false),
        ("nobody", "gUeSs", false),
    ] {
        let settings = daemon.settings().user_name(user).password(password);
        let client = connect(settings).await;
        assert_eq!(client.is_ok(), is_right, "{user} {password}");
        if let Ok(client) = client {
            client.close().await;
        }
    }
    let file = folder.path().join("token");
    for (seconds, is_right) in [(600, true), (0, false)] {
        let token = signer.token(&claims(now_ms() - 100_000, seconds));
        std::fs::write(&file, &token).unwrap();
        let settings = daemon
            .settings()
            .sat_file(&file)
            .allow_plaintext_credentials(true);
        let client = connect(settings).await;
        assert_eq!(client.is_ok(), is_right);
        if let Ok(client) = client {
            client.close().await;
        }
        secrets.extend(token.split('.').map(str::to_owned));
    }
    let log = daemon.stop();
    assert!(log.contains("a login was refused"), "{log}");
    assert!(log.contains("wrong user name or password"), "{log}");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in {log}");
    }
}
