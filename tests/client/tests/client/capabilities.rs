//! Queries of the client about a store's capabilities before it sends requests that not every store supports.
use crate::support::{Broker, Peer, version, within};
use crate::{again, connack};
use statestore::{
    Capabilities, Client, ConnectionState, Entry, Error, ErrorKind, Expiry, GetOptions, Outcome,
};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Command, Reply, ServiceError};
use std::time::Duration;

/// Answers the question for what the store can do.
pub(crate) async fn answer_capabilities(peer: &mut Peer, capabilities: Capabilities) {
    let request = peer.answer(&Reply::Capabilities(capabilities), None).await;
    assert_eq!(request.command, Command::Capabilities);
}

/// The same for a store that does not know the question.
pub(crate) async fn reject_capabilities(peer: &mut Peer) {
    let unknown = Reply::Error(ServiceError::UnknownCommand);
    let request = peer.answer(&unknown, None).await;
    assert_eq!(request.command, Command::Capabilities);
}

/// A call that the store answers as `play` does.
pub(crate) async fn play<T>(
    call: impl Future<Output = T>,
    peer: &mut Peer,
    play: impl AsyncFnOnce(&mut Peer),
) -> T {
    within(async { tokio::join!(call, play(peer)) }).await.0
}

#[tokio::test]
async fn capabilities_are_queried_once_per_connection() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let asked = play(client.capabilities(), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
    });
    assert_eq!(asked.await.unwrap(), Capabilities::ALL);
    assert_eq!(client.capabilities().await.unwrap(), Capabilities::ALL);
    assert_eq!(client.counters().sent, 1);

    // The next broker may have another store behind it.
    let mut state = client.state();
    drop(peer);
    let (mut peer, _) = again(&broker, connack(|_| {})).await;
    within(state.wait_for(|state| !state.is_connected()))
        .await
        .unwrap();
    within(state.wait_for(ConnectionState::is_connected))
        .await
        .unwrap();
    let asked = play(client.capabilities(), &mut peer, reject_next_capabilities);
    assert_eq!(asked.await.unwrap(), Capabilities::default());
    assert_eq!(
        client.capabilities().await.unwrap(),
        Capabilities::default()
    );
    assert_eq!(client.counters().sent, 2);
}

async fn reject_next_capabilities(peer: &mut Peer) {
    reject_capabilities(peer).await;
}

#[tokio::test]
async fn concurrent_calls_send_one_query() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let calls = async { tokio::join!(client.capabilities(), client.capabilities()) };
    let both = play(calls, &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
    })
    .await;
    assert_eq!(both.0.unwrap(), both.1.unwrap());
    assert_eq!(client.counters().sent, 1);

    // A caller that asks and gives up leaves the query to the other callers.
    drop(peer);
    let (mut peer, _) = again(&broker, connack(|_| {})).await;
    within(client.state().wait_for(ConnectionState::is_connected))
        .await
        .unwrap();
    let given_up = tokio::spawn({
        let client = client.clone();
        async move { client.capabilities().await }
    });
    peer.request().await;
    given_up.abort();
    let asked = play(client.capabilities(), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
    });
    asked.await.unwrap();
}

#[tokio::test]
async fn a_failed_query_is_repeated() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let ask = play(client.capabilities(), &mut peer, async |peer| {
        peer.answer(&Reply::Ok, None).await;
    });
    assert_eq!(ask.await.unwrap_err().kind(), ErrorKind::InvalidResponse);
    let ask = play(client.capabilities(), &mut peer, async |peer| {
        let busy = peer.request().await;
        peer.acknowledge(&busy, ReasonCode::QUOTA_EXCEEDED).await;
    });
    assert_eq!(ask.await.unwrap_err().kind(), ErrorKind::Rejected);
    let ask = play(client.capabilities(), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
    });
    ask.await.unwrap();
}

#[tokio::test]
async fn the_remaining_time_is_requested_explicitly() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = GetOptions::new().remaining(true);
    let get = play(client.get_with("key", &options), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        let found = Reply::ValueAndTime {
            value: "v".into(),
            expires_in_ms: Some(1_500),
        };
        let request = peer.answer(&found, Some(&version(3))).await;
        assert_eq!(
            request.publish.payload(),
            &b"*3\r\n$3\r\nGET\r\n$3\r\nkey\r\n$4\r\nPTTL\r\n"[..]
        );
    });
    let entry = get.await.unwrap().unwrap();
    assert_eq!((&*entry.value, entry.version), (&b"v"[..], version(3)));
    assert_eq!(
        entry.expires_in,
        Expiry::After(Duration::from_millis(1_500))
    );

    let get = play(
        client.get_many_with(&["a", "b"], &options),
        &mut peer,
        async |peer| {
            let found = Reply::ValueAndTime {
                value: "v".into(),
                expires_in_ms: None,
            };
            peer.answer(&found, Some(&version(4))).await;
            peer.answer(&Reply::Nil, None).await;
        },
    );
    let mut endless = Entry::new("v", version(4));
    assert_eq!(endless.expires_in, Expiry::Unknown);
    endless.expires_in = Expiry::Never;
    assert_eq!(get.await.unwrap(), [Some(endless), None]);

    // No call asked for it here.
    let get = play(client.get("key"), &mut peer, async |peer| {
        let found = Reply::ValueAndTime {
            value: "v".into(),
            expires_in_ms: None,
        };
        peer.answer(&found, Some(&version(4))).await;
    });
    assert_eq!(get.await.unwrap_err().kind(), ErrorKind::InvalidResponse);
}

fn unsupported<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unsupported, Outcome::NotDone)
    );
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn an_unsupported_call_is_an_error_and_sends_no_request() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = GetOptions::new().remaining(true);
    let get = play(
        client.get_with("key", &options),
        &mut peer,
        reject_next_capabilities,
    );
    unsupported(get.await);
    unsupported(client.get_many_with(&["key"], &options).await);
    let none: [&str; 0] = [];
    assert_eq!(client.get_many_with(&none, &options).await.unwrap(), []);
    assert_eq!(client.counters().sent, 1);
}

#[tokio::test]
async fn the_query_counts_towards_the_time_limit_of_the_call() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = GetOptions::new()
        .remaining(true)
        .timeout(Duration::from_millis(300));
    let get = |client: Client| {
        let options = options.clone();
        tokio::spawn(async move { client.get_with("key", &options).await })
    };
    // The first call sends the query; the other one waits for its response as well.
    let (one, other) = (get(client.clone()), get(client.clone()));
    peer.request().await;
    for call in [one, other] {
        let error = within(call).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::TimedOut, Outcome::NotDone),
            "{error}"
        );
        assert!(error.to_string().starts_with("GET \"key\": "), "{error}");
    }
}

#[tokio::test]
async fn a_call_that_times_out_before_the_connection_names_its_key_and_time_limit() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    let mut state = client.state();
    drop((peer, broker));
    within(state.wait_for(|state| !state.is_connected()))
        .await
        .unwrap();
    let options = GetOptions::new().timeout(Duration::from_millis(50));
    let remaining = options.clone().remaining(true);
    for (get, action) in [
        (
            client.get_with("key", &remaining),
            "GET \"key\": asking what",
        ),
        (client.get_with("key", &options), "GET \"key\": "),
    ] {
        let text = get.await.unwrap_err().to_string();
        assert!(text.starts_with(action), "{text}");
        // A whole number of milliseconds.
        let (_, time) = text.split_once(" within ").unwrap();
        let (time, _) = time.split_once("ms").unwrap();
        assert!(time.parse::<u64>().is_ok(), "{text}");
    }
}

#[tokio::test]
async fn an_eventual_get_falls_back_to_a_strong_one() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = GetOptions::new().eventual(true);
    let get = async |peer: &mut Peer, eventual: bool| {
        let request = peer.answer(&Reply::Nil, None).await;
        let expected = Command::Get {
            key: "key".into(),
            remaining: false,
            eventual,
        };
        assert_eq!(request.command, expected);
    };
    // The store is asked once.
    let first = play(client.get_with("key", &options), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        get(peer, true).await;
    });
    assert_eq!(first.await.unwrap(), None);
    let many = play(
        client.get_many_with(&["key"], &options),
        &mut peer,
        async |peer| get(peer, true).await,
    );
    assert_eq!(many.await.unwrap(), [None]);

    // Behind the same connection there is another store by now, which does not know the word.
    let other = play(client.get_with("key", &options), &mut peer, async |peer| {
        let refused = Reply::Error(ServiceError::WrongArguments);
        peer.answer(&refused, None).await;
        reject_capabilities(peer).await;
        get(peer, false).await;
    });
    assert_eq!(other.await.unwrap(), None);
    let again = play(client.get_with("key", &options), &mut peer, async |peer| {
        get(peer, false).await;
    });
    assert_eq!(again.await.unwrap(), None);
}
