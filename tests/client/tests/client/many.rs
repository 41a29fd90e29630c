//! Several requests of one call.
use crate::capabilities::reject_capabilities;
use crate::support::{Broker, value, version, within};
use statestore::{
    Client, DelOptions, DelOutcome, ErrorKind, Outcome, SetOptions, SetOutcome, Settings,
};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Reply, ServiceError, property};
use statestored::{RunningServer, config::Config};

#[tokio::test]
async fn single_gets_run_concurrently_and_return_results_in_order() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let answer = async {
        reject_capabilities(&mut peer).await;
        let mut requests = Vec::new();
        for _ in 0..3 {
            requests.push(peer.request().await);
        }
        for request in requests.iter().rev() {
            peer.acknowledge(request, ReasonCode::SUCCESS).await;
            match request.key() {
                b"b" => peer.respond(request, &Reply::Nil, None).await,
                key => {
                    let reply = Reply::Value(key.to_vec().into());
                    peer.respond(request, &reply, Some(&version(1))).await;
                }
            }
        }
    };
    let keys = ["a", "b", "c"];
    let (entries, ()) = within(async { tokio::join!(client.get_many(&keys), answer) }).await;
    let values: Vec<_> = entries
        .unwrap()
        .into_iter()
        .map(|entry| entry.map(|entry| entry.value))
        .collect();
    assert_eq!(values, [Some("a".into()), None, Some("c".into())]);
    assert_eq!(client.get_many::<&str>(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn each_of_many_sets_has_an_outcome_of_its_own() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let token = version(7);
    let options = SetOptions::new().fencing_token(token.clone()).persist(true);
    let answer = async {
        let mut requests = Vec::new();
        // The one without a key is not sent.
        for expected in [&b"a"[..], b"c", b"d", b"e"] {
            let request = peer.request().await;
            assert_eq!(request.key(), expected, "they are sent in their order");
            let sent = token.to_string();
            assert_eq!(request.user(property::FENCING_TOKEN), Some(sent.as_str()));
            assert_eq!(request.user(property::PERSIST), Some("true"));
            requests.push(request);
        }
        let refused = Reply::Error(ServiceError::FencingTokenLower);
        let replies = [
            Reply::NotApplied,
            refused,
            value("no answer to SET"),
            Reply::Ok,
        ];
        for ((request, reply), at) in requests.iter().zip(&replies).zip([1, 2, 3, 4]).rev() {
            peer.acknowledge(request, ReasonCode::SUCCESS).await;
            peer.respond(request, reply, Some(&version(at))).await;
        }
    };
    let values = [("a", "1"), ("", "2"), ("c", "3"), ("d", "4"), ("e", "5")];
    let (outcomes, ()) =
        within(async { tokio::join!(client.set_many_with(&values, &options), answer) }).await;
    let applied = SetOutcome::Applied {
        version: version(4),
    };
    assert_eq!(outcomes[4].as_ref().unwrap(), &applied);
    let kept = SetOutcome::NotApplied {
        version: Some(version(1)),
    };
    assert_eq!(outcomes[0].as_ref().unwrap(), &kept);
    let failures = [
        (1, ErrorKind::InvalidArgument, Outcome::NotDone),
        (2, ErrorKind::FencingTokenLower, Outcome::NotDone),
        (3, ErrorKind::InvalidResponse, Outcome::Unknown),
    ];
    for (place, kind, outcome) in failures {
        let error = outcomes[place].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, outcome));
    }
    assert!(client.set_many::<&str, &str>(&[]).await.is_empty());
}

#[tokio::test]
async fn each_of_many_dels_has_an_outcome_of_its_own() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let token = version(7);
    let options = DelOptions::new().fencing_token(token.clone());
    let answer = async {
        let replies = [
            Reply::Count(1),
            Reply::Error(ServiceError::NotAuthorized),
            Reply::Count(0),
        ];
        for reply in &replies {
            let request = peer.answer(reply, Some(&version(3))).await;
            let sent = token.to_string();
            assert_eq!(request.user(property::FENCING_TOKEN), Some(sent.as_str()));
        }
    };
    let keys = ["a", "b", "c"];
    let (outcomes, ()) =
        within(async { tokio::join!(client.del_many_with(&keys, &options), answer) }).await;
    let deleted = DelOutcome::Deleted {
        version: Some(version(3)),
    };
    assert_eq!(outcomes[0].as_ref().unwrap(), &deleted);
    assert_eq!(outcomes[2].as_ref().unwrap(), &DelOutcome::Absent);
    let error = outcomes[1].as_ref().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::NotAuthorized, Outcome::NotDone)
    );
    assert!(error.to_string().starts_with("DEL \"b\""), "{error}");
    assert!(client.del_many::<&str>(&[]).await.is_empty());
}

#[tokio::test]
async fn a_batch_does_not_fill_the_queue() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_in_flight(1).max_queued(2);
    let (client, mut peer) = broker.connect(settings).await;
    let values: Vec<_> = (0..9).map(|key| (key.to_string(), "v")).collect();
    let answer = async {
        for at in 0..9 {
            let request = peer.answer(&Reply::Ok, Some(&version(at))).await;
            assert_eq!(request.key(), at.to_string().as_bytes());
        }
    };
    let (outcomes, ()) = within(async { tokio::join!(client.set_many(&values), answer) }).await;
    assert_eq!(outcomes.len(), 9);
    for (at, outcome) in (0..).zip(outcomes) {
        assert_eq!(outcome.unwrap().version(), Some(&version(at)));
    }
}

#[tokio::test]
async fn each_request_of_a_batch_fails_after_the_client_is_closed() {
    let broker = Broker::start().await;
    let (client, _peer) = broker.connect(broker.settings()).await;
    client.close().await;
    let outcomes = within(client.set_many(&[("a", "1"), ("b", "2")])).await;
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Closed, Outcome::NotDone)
        );
    }
}

#[tokio::test]
async fn keys_and_values_come_as_arrays_slices_and_vectors() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings = Settings::from_url(&server.url()).unwrap();
    let client = within(Client::connect(settings)).await.unwrap();
    let set = client.set_many([("a", "1"), ("b", "2")]).await;
    assert!(set.iter().all(Result::is_ok));
    let keys = vec!["a".to_owned(), "b".to_owned()];
    for found in [
        client.get_many(["a", "b"]).await.unwrap(),
        client.get_many(&["a", "b"]).await.unwrap(),
        client.get_many(&keys[..]).await.unwrap(),
        client.get_many(&keys).await.unwrap(),
        client.get_many(keys).await.unwrap(),
    ] {
        let values = found.into_iter().map(|entry| entry.unwrap().value);
        assert!(values.eq(["1", "2"]));
    }
    // On any thread.
    let deleting = tokio::spawn(async move { client.del_many([*b"a", *b"b"]).await });
    assert!(within(deleting).await.unwrap().iter().all(Result::is_ok));
}
