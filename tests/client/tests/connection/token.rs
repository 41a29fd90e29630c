//! Service account tokens: shown with CONNECT, and again over the live connection when the file changes.
use crate::authority::Authority;
use crate::broker::{Broker, Peer, Tls};
use crate::support::within;
use crate::{Files, connected, reconnecting};
use statestore::{Client, Error, ErrorKind, Settings};
use statestore_protocol::mqtt::{Packet, ReasonCode};
use std::fs;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::task::yield_now;

const METHOD: &str = "K8S-SAT";

fn settings(broker: &Broker, files: &Files) -> Settings {
    Settings::new("127.0.0.1", broker.port())
        .sat_file(files.path("token"))
        .allow_plaintext_credentials(true)
        .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
}

async fn start(broker: &Broker, files: &Files) -> (Client, Peer) {
    let (client, (peer, connect)) =
        tokio::join!(Client::connect(settings(broker, files)), broker.welcome());
    assert_eq!(
        connect.authentication,
        Some((METHOD.to_owned(), "first".into()))
    );
    assert_eq!((connect.user_name, connect.password), (None, None));
    (client.unwrap(), peer)
}

fn reauthentication(token: &str) -> (ReasonCode, String, Vec<u8>) {
    (ReasonCode::REAUTHENTICATE, METHOD.to_owned(), token.into())
}

/// The connection still serves requests.
async fn assert_alive(client: &Client, peer: &mut Peer) {
    let (result, ()) = tokio::join!(within(client.get("key")), peer.refuse_request());
    assert_eq!(
        result.unwrap_err().mqtt_reason(),
        Some(ReasonCode::NOT_AUTHORIZED)
    );
    assert_eq!(client.counters().reconnects, 0);
}

#[tokio::test]
async fn a_token_replaced_by_a_rename_is_sent_over_the_open_connection() {
    let files = Files::new();
    files.write("token", "first");
    let broker = Broker::plain().await;
    let (client, mut peer) = start(&broker, &files).await;

    for (count, token) in [(1, "second"), (2, "third")] {
        files.replace("token", token);
        assert_eq!(peer.auth().await, reauthentication(token));
        peer.authenticate(ReasonCode::SUCCESS).await;
        assert_alive(&client, &mut peer).await;
        assert_eq!(client.counters().reauthentications, count);
    }
}

#[tokio::test]
async fn a_client_dropped_before_its_tasks_start_leaves_no_tasks() {
    let files = Files::new();
    files.write("token", "first");
    let broker = Broker::plain().await;
    let runtime = tokio::runtime::Handle::current().metrics();
    let before = runtime.num_alive_tasks();
    let mut connecting = Box::pin(Client::connect(settings(&broker, &files)));
    poll_fn(|context| Poll::Ready(connecting.as_mut().poll(context).is_pending())).await;
    assert!(runtime.num_alive_tasks() > before);
    drop(connecting);
    let ended = async {
        while runtime.num_alive_tasks() > before {
            yield_now().await;
        }
    };
    within(ended).await;
}

/// Kubernetes keeps `token -> ..data/token` and `..data -> ..<time>`, and swaps `..data`.
#[cfg(unix)]
#[tokio::test]
async fn a_token_behind_a_swapped_symlink_is_sent_over_the_open_connection() {
    use std::os::unix::fs::symlink;
    let files = Files::new();
    let publish = |directory: &str, token: &str| {
        fs::create_dir(files.path(directory)).unwrap();
        fs::write(files.path(directory).join("token"), token).unwrap();
        symlink(directory, files.path("..data_tmp")).unwrap();
        fs::rename(files.path("..data_tmp"), files.path("..data")).unwrap();
    };
    publish("..2026_01", "first");
    symlink("..data/token", files.path("token")).unwrap();
    let broker = Broker::plain().await;
    let (client, mut peer) = start(&broker, &files).await;

    for (old, new, token) in [
        ("..2026_01", "..2026_02", "second"),
        ("..2026_02", "..2026_03", "third"),
    ] {
        publish(new, token);
        fs::remove_dir_all(files.path(old)).unwrap();
        assert_eq!(peer.auth().await, reauthentication(token));
        peer.authenticate(ReasonCode::SUCCESS).await;
        assert_alive(&client, &mut peer).await;
    }
}

#[tokio::test]
async fn an_unchanged_token_is_not_sent_again() {
    let files = Files::new();
    files.write("token", "first");
    let broker = Broker::plain().await;
    let (client, mut peer) = start(&broker, &files).await;
    files.replace("token", "first\n");
    assert_alive(&client, &mut peer).await;
    files.replace("token", "second");
    assert_eq!(peer.auth().await, reauthentication("second"));
    peer.authenticate(ReasonCode::SUCCESS).await;
    assert_alive(&client, &mut peer).await;
}

#[tokio::test]
async fn a_token_file_missing_for_a_while_is_tolerated() {
    let files = Files::new();
    files.write("token", "first");
    let broker = Broker::plain().await;
    let (client, mut peer) = start(&broker, &files).await;
    fs::remove_file(files.path("token")).unwrap();
    assert_alive(&client, &mut peer).await;
    files.replace("token", "second");
    assert_eq!(peer.auth().await, reauthentication("second"));
    peer.authenticate(ReasonCode::SUCCESS).await;
    assert_alive(&client, &mut peer).await;
}

#[tokio::test]
async fn a_challenge_is_answered_with_the_token() {
    let files = Files::new();
    files.write("token", "first");
    let broker = Broker::plain().await;
    let serve = async {
        let mut peer = broker.accept().await;
        peer.connect().await;
        peer.authenticate(ReasonCode::CONTINUE_AUTHENTICATION).await;
        let answer = peer.auth().await;
        let reason = ReasonCode::CONTINUE_AUTHENTICATION;
        assert_eq!(answer, (reason, METHOD.to_owned(), b"first".to_vec()));
        peer.connack(ReasonCode::SUCCESS).await;
        peer.subscribe().await;
        peer
    };
    let (client, mut peer) = tokio::join!(Client::connect(settings(&broker, &files)), serve);
    assert_alive(&client.unwrap(), &mut peer).await;
}

/// Accepts the CONNECT, the subscriptions and this newer token; in which order the latter two come is left to the client.
async fn begin_with(peer: &mut Peer, token: &str) {
    peer.connack(ReasonCode::SUCCESS).await;
    for _ in 0..2 {
        match peer.packet().await {
            Packet::Auth(auth) => {
                assert_eq!(auth.reason, ReasonCode::REAUTHENTICATE);
                assert_eq!(auth.data.as_deref(), Some(token.as_bytes()));
                peer.authenticate(ReasonCode::SUCCESS).await;
            }
            Packet::Subscribe(subscribe) => {
                peer.send_suback(&subscribe, &[ReasonCode::GRANTED_QOS_1; 2])
                    .await;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_token_that_changes_during_a_reauthentication_is_sent_after_it() {
    let files = Files::new();
    files.write("token", "first");
    let broker = Broker::plain().await;
    let serve = async {
        let mut peer = broker.accept().await;
        peer.connect().await;
        files.replace("token", "second");
        begin_with(&mut peer, "second").await;
        peer
    };
    let (client, mut peer) = tokio::join!(Client::connect(settings(&broker, &files)), serve);
    let client = client.unwrap();
    assert_alive(&client, &mut peer).await;
    assert_eq!(client.counters().reauthentications, 1);
}

#[tokio::test]
async fn a_token_that_changes_before_the_connect_is_sent_after_it() {
    let authority = Authority::new("authority");
    let files = Files::new();
    files.write("token", "first");
    let identity = authority.issue(["127.0.0.1"]);
    let broker = Broker::tls(Tls::new(&identity)).await;
    let settings = settings(&broker, &files)
        .tls(true)
        .ca_file(files.write("ca.crt", authority.pem()));
    let serve = async {
        // The token has been read when the client connects.
        let change = || files.replace("token", "second");
        let mut peer = broker.try_accept_after(change).await.unwrap();
        let connect = peer.connect().await;
        assert_eq!(connect.authentication.unwrap().1, "first");
        begin_with(&mut peer, "second").await;
        peer
    };
    let (client, mut peer) = tokio::join!(Client::connect(settings), serve);
    assert_alive(&client.unwrap(), &mut peer).await;
}

#[tokio::test]
async fn a_rejected_token_leads_to_a_new_connection_with_the_next_token() {
    let files = Files::new();
    files.write("token", "first");
    let broker = Broker::plain().await;
    let (client, mut peer) = start(&broker, &files).await;

    files.replace("token", "bad");
    assert_eq!(peer.auth().await, reauthentication("bad"));
    peer.disconnect(ReasonCode::NOT_AUTHORIZED).await;
    let mut peer = broker.accept().await;
    let connect = peer.connect().await;
    assert_eq!(
        connect.authentication,
        Some((METHOD.to_owned(), "bad".into()))
    );
    peer.connack(ReasonCode::NOT_AUTHORIZED).await;
    let is_it = |error: &Error| error.kind() == ErrorKind::NotAuthenticated;
    reconnecting(&client, is_it).await;

    files.replace("token", "good");
    loop {
        let mut peer = broker.accept().await;
        let (_, token) = peer.connect().await.authentication.unwrap();
        if token == "good" {
            peer.connack(ReasonCode::SUCCESS).await;
            peer.subscribe().await;
            connected(&client).await;
            return;
        }
        peer.connack(ReasonCode::NOT_AUTHORIZED).await;
    }
}

#[tokio::test]
async fn bad_tokens_and_methods_fail_the_first_connection_at_once() {
    let files = Files::new();
    files.write("token", "first");
    for reason in [
        ReasonCode::NOT_AUTHORIZED,
        ReasonCode::BAD_USER_NAME_OR_PASSWORD,
        ReasonCode::BAD_AUTHENTICATION_METHOD,
    ] {
        let broker = Broker::plain().await;
        let serve = async {
            let mut peer = broker.accept().await;
            peer.connect().await;
            peer.connack(reason).await;
        };
        let (client, ()) = tokio::join!(Client::connect(settings(&broker, &files)), serve);
        let error = client.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
        assert_eq!(error.mqtt_reason(), Some(reason));
        assert!(!error.is_retryable());
        assert!(!error.to_string().contains("first"), "{error}");
    }
}
