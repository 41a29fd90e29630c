//! Connections that are cut while much is being written: what may have arrived.
use crate::Files;
use crate::authority::Authority;
use crate::broker::{Broker, Tls};
use crate::support::{version, within};
use statestore::{Client, Outcome, Settings};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::ReasonCode;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::oneshot;

/// Number of requests: enough to fill many TLS records. All are encoded before anything is written.
const REQUESTS: usize = 200;
const VALUE: [u8; 4_000] = [7; 4_000];

/// The broker's side: reads a little of the first connection, cuts it, and has forgotten the session at the second one. Which
/// keys came over each of them.
async fn serve(broker: Broker) -> [BTreeSet<Vec<u8>>; 2] {
    let mut keys = [BTreeSet::new(), BTreeSet::new()];
    let (mut peer, _) = broker.welcome().await;
    for _ in 0..3 {
        keys[0].insert(peer.request().await.key().to_vec());
    }
    drop(peer);
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.connack(ReasonCode::SUCCESS).await;
    peer.subscribe().await;
    loop {
        let request = peer.request().await;
        if request.key() == b"last" {
            peer.acknowledge(&request, ReasonCode::SUCCESS).await;
            peer.respond(&request, &Reply::Nil, None).await;
            return keys;
        }
        keys[1].insert(request.key().to_vec());
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
        peer.respond(&request, &Reply::Ok, Some(&version(1))).await;
    }
}

/// Writes much over TLS to a broker on another thread that cuts the connection meanwhile.
async fn cut_over_tls(files: &Files, tls: Tls<'_>) {
    let acceptor = tls.acceptor();
    let (listening, port) = oneshot::channel();
    let broker = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let broker = Broker::accepting(acceptor).await;
            listening.send(broker.port()).unwrap();
            serve(broker).await
        })
    });
    let settings = Settings::new("localhost", port.await.unwrap())
        .tls(true)
        .ca_file(files.path("ca.crt"))
        .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1));
    let client = within(Client::connect(settings)).await.unwrap();
    // This thread writes nothing before it has all requests.
    let sets: Vec<_> = (0..REQUESTS)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.set(number.to_string(), VALUE).await })
        })
        .collect();
    let mut unknown = BTreeSet::new();
    for (number, set) in sets.into_iter().enumerate() {
        match within(set).await.unwrap() {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
                unknown.insert(number.to_string().into_bytes());
            }
        }
    }
    within(client.get("last")).await.unwrap();
    let [first, second] = broker.join().unwrap();
    let twice: Vec<_> = first.intersection(&second).collect();
    assert!(twice.is_empty(), "sent twice: {twice:?}");
    assert!(first.is_subset(&unknown));
    assert_eq!(unknown.len() + second.len(), REQUESTS);
}

#[tokio::test]
async fn requests_delivered_over_tls_before_a_cut_are_not_resent() {
    let authority = Authority::new("authority");
    let files = Files::new();
    files.write("ca.crt", authority.pem());
    let identity = authority.issue(["localhost", "127.0.0.1"]);
    for _ in 0..20 {
        cut_over_tls(&files, Tls::new(&identity)).await;
    }
}
