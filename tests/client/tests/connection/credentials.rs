//! User names, passwords, and what excludes what.
use crate::broker::Broker;
use crate::support::within;
use crate::{Files, connected, reconnecting};
use statestore::{Client, Error, ErrorKind, Settings};
use statestore_protocol::mqtt::ReasonCode;
use statestored::{RunningServer, config::Config};
use statestored_access::{Authenticator, Users};
use std::time::Duration;

fn settings(port: u16) -> Settings {
    Settings::new("127.0.0.1", port)
        .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
}

#[tokio::test]
async fn the_password_is_the_file_without_its_last_line_end() {
    let files = Files::new();
    for (content, password) in [
        (&b"secret"[..], &b"secret"[..]),
        (b"secret\n", b"secret"),
        (b"secret\r\n", b"secret"),
        (b" secret \n\n", b" secret \n"),
        (b"\xFF\x00\n", b"\xFF\x00"),
    ] {
        let broker = Broker::plain().await;
        let settings = settings(broker.port())
            .user_name("gateway")
            .password_file(files.write("password", content));
        let (client, (_peer, connect)) = tokio::join!(Client::connect(settings), broker.welcome());
        client.unwrap();
        assert_eq!(connect.user_name.as_deref(), Some("gateway"));
        assert_eq!(connect.password.as_deref(), Some(password));
        assert_eq!(connect.authentication, None);
    }
}

#[tokio::test]
async fn a_changed_password_is_used_for_the_next_connection() {
    let files = Files::new();
    let broker = Broker::plain().await;
    let settings = settings(broker.port())
        .user_name("gateway")
        .password_file(files.write("password", "old"));
    let (client, (peer, _)) = tokio::join!(Client::connect(settings), broker.welcome());
    let client = client.unwrap();
    files.replace("password", "new");
    drop(peer);
    let (_peer, connect) = broker.welcome().await;
    assert_eq!(connect.password.as_deref(), Some(&b"new"[..]));
    connected(&client).await;
}

#[tokio::test]
async fn a_store_with_users_refuses_a_wrong_password_at_once() {
    let mut users = Users::default();
    assert!(users.add("gateway", b"secret"));
    let mut config = Config::in_memory();
    config.authenticator = Authenticator::from(users);
    let store = RunningServer::start(config).unwrap();
    let port = store.addresses()[0].port();

    let wrong = settings(port).user_name("gateway").password("guess");
    let error = within(Client::connect(wrong)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
    assert_eq!(
        error.mqtt_reason(),
        Some(ReasonCode::BAD_USER_NAME_OR_PASSWORD)
    );
    assert!(!error.is_retryable());
    assert!(!error.to_string().contains("guess"), "{error}");

    let right = settings(port).user_name("gateway").password("secret");
    let client = within(Client::connect(right)).await.unwrap();
    client.set("key", "value").await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn rejected_credentials_are_retried_after_a_success() {
    let broker = Broker::plain().await;
    let settings = settings(broker.port())
        .user_name("gateway")
        .password("secret");
    let (client, (peer, _)) = tokio::join!(Client::connect(settings), broker.welcome());
    let client = client.unwrap();
    drop(peer);
    for _ in 0..3 {
        let mut peer = broker.accept().await;
        peer.connect().await;
        peer.connack(ReasonCode::NOT_AUTHORIZED).await;
        let is_it = |error: &Error| error.mqtt_reason() == Some(ReasonCode::NOT_AUTHORIZED);
        let error = reconnecting(&client, is_it).await;
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated);
    }
    let (_peer, _) = broker.welcome().await;
    connected(&client).await;
}

#[tokio::test]
async fn exclusive_authentication_methods_are_rejected() {
    let plain = || Settings::new("127.0.0.1", 1);
    for (settings, phrase) in [
        (
            plain().password("a").password_file("b"),
            "a password and a password file",
        ),
        (
            plain().sat_file("a").user_name("b"),
            "token file and a user name or password",
        ),
        (
            plain().sat_file("a").password("b"),
            "token file and a user name or password",
        ),
        (
            plain().sat_file("a").password_file("b"),
            "token file and a user name or password",
        ),
        (
            plain().ca_file("a"),
            "`ca_file` is set, but the connection does not use TLS",
        ),
        (plain().server_name("a"), "`server_name` is set, but"),
        (plain().tls(true).key_file("a"), "`cert_file` is not"),
        (
            plain().tls(true).key_password_file("a"),
            "`key_file` is not",
        ),
        (
            Settings::unix("/socket").tls(true),
            "TLS over a Unix domain socket",
        ),
    ] {
        let error = within(Client::connect(settings)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSettings, "{error}");
        assert!(
            error.to_string().contains(phrase),
            "`{error}` does not say `{phrase}`"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_store_is_reached_over_a_unix_domain_socket() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let address = store.addresses()[0];
    let files = Files::new();
    let path = files.path("broker.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let proxy = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = tokio::net::TcpStream::connect(address).await.unwrap();
        tokio::io::copy_bidirectional(&mut near, &mut far).await
    });
    let settings =
        Settings::from_url(&format!("unix://{}?client_id=local", path.display())).unwrap();
    let client = within(Client::connect(settings)).await.unwrap();
    client.set("key", "value").await.unwrap();
    assert_eq!(client.get("key").await.unwrap().unwrap().value, "value");
    assert_eq!(client.client_id(), "local");
    client.close().await;
    within(proxy).await.unwrap().unwrap();
}
