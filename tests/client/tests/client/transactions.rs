//! Several operations in one request.
use crate::capabilities::{answer_capabilities, play, reject_capabilities};
use crate::support::{Broker, Peer, version};
use statestore::{
    Capabilities, Client, Condition, DelOptions, Error, ErrorKind, Outcome, Retry, ServiceError,
    SetOptions, TransactOptions, Transaction, TransactionOutcome, Version,
};
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestore_protocol::{Command, Rejection, Reply, property};
use std::time::Duration;

async fn capable(broker: &Broker) -> (Client, Peer) {
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let asked = play(client.capabilities(), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
    });
    asked.await.unwrap();
    (client, peer)
}

fn transfer() -> Transaction {
    let unchanged = SetOptions::new()
        .condition(Condition::IfVersion(Version::new(7, 1)))
        .expires_in(Duration::from_millis(1_500));
    let fenced = DelOptions::new()
        .if_version(Version::new(8, 0))
        .fencing_token(version(5));
    Transaction::new()
        .set("a", "1", &unchanged)
        .del("b", &fenced)
}

async fn transact(
    client: &Client,
    peer: &mut Peer,
    reply: Reply,
) -> Result<TransactionOutcome, Error> {
    let transaction = transfer();
    let transact = client.transact(&transaction);
    play(transact, peer, async |peer| {
        peer.answer(&reply, None).await;
    })
    .await
}

#[tokio::test]
async fn a_transaction_is_one_request() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    let options = TransactOptions::new()
        .persist(true)
        .timeout(Duration::from_millis(2_900));
    let transaction = transfer();
    let transact = client.transact_with(&transaction, &options);
    let done = play(transact, &mut peer, async |peer| {
        let versions = vec![Some(Version::new(9, 0)), None];
        let request = peer.answer(&Reply::Transacted(versions), None).await;
        let payload = request.publish.payload();
        let text = payload.escape_ascii().to_string();
        let arguments: Vec<_> = text.split("\\r\\n").skip(2).step_by(2).collect();
        assert_eq!(
            arguments,
            [
                "TXN",
                "7",
                "SET",
                "a",
                "1",
                "IFV",
                "000000000000007:00001:StateStore",
                "PX",
                "1500",
                "6",
                "DEL",
                "b",
                "IFV",
                "000000000000008:00000:StateStore",
                "FT",
                "000000000000005:00000:StateStore",
            ]
        );
        assert_eq!(request.user(property::PERSIST), Some("true"));
        assert_eq!(request.user(property::FENCING_TOKEN), None);
        assert_eq!(request.publish.message_expiry(), Some(3));
    });
    let outcome = done.await.unwrap();
    assert_eq!(
        outcome,
        TransactionOutcome::Applied(vec![Some(version(9)), None])
    );
    assert!(outcome.is_applied());
}

#[tokio::test]
async fn a_condition_that_is_not_met_is_a_result() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    for (operation, found) in [(0, None), (1, Some(Version::new(9, 0)))] {
        let reply = Reply::Rejected {
            operation,
            reason: Rejection::Condition(found),
        };
        let outcome = transact(&client, &mut peer, reply).await.unwrap();
        let expected = TransactionOutcome::NotApplied {
            operation: usize::try_from(operation).unwrap(),
            version: found.map(Into::into),
        };
        assert_eq!(outcome, expected);
        assert!(!outcome.is_applied());
    }
}

#[tokio::test]
async fn a_rejected_operation_is_an_error_with_its_index() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    let reply = Reply::Rejected {
        operation: 1,
        reason: Rejection::Error(ServiceError::FencingTokenLower),
    };
    let error = transact(&client, &mut peer, reply).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), error.operation()),
        (ErrorKind::FencingTokenLower, Outcome::NotDone, Some(1))
    );
    let text = error.to_string();
    assert!(
        text.contains("operation 1 of a transaction, DEL \"b\""),
        "{text}"
    );

    let reply = Reply::Error(ServiceError::QuotaExceeded);
    let error = transact(&client, &mut peer, reply).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), error.operation()),
        (ErrorKind::QuotaExceeded, Outcome::NotDone, None)
    );
    assert!(
        error.to_string().contains("a transaction of 2 operations"),
        "{error}"
    );
}

#[tokio::test]
async fn an_error_counts_a_single_operation_in_the_singular() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    let transaction = Transaction::new().set("a", "1", &SetOptions::new());
    let transact = client.transact(&transaction);
    let reply = Reply::Error(ServiceError::QuotaExceeded);
    let done = play(transact, &mut peer, async |peer| {
        peer.answer(&reply, None).await;
    });
    let text = done.await.unwrap_err().to_string();
    assert!(
        text.contains("a transaction of 1 operation") && !text.contains("operations"),
        "{text}"
    );
}

#[tokio::test]
async fn responses_that_do_not_match_the_transaction_are_invalid() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    for reply in [
        Reply::Ok,
        Reply::NotApplied,
        Reply::Transacted(vec![None]),
        Reply::Transacted(vec![None; 3]),
        Reply::Rejected {
            operation: 2,
            reason: Rejection::Condition(None),
        },
        Reply::Rejected {
            operation: u64::MAX,
            reason: Rejection::Condition(None),
        },
    ] {
        let error = transact(&client, &mut peer, reply).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidResponse, Outcome::Unknown)
        );
    }
    let beyond = Reply::Rejected {
        operation: u64::MAX,
        reason: Rejection::Error(ServiceError::NotAuthorized),
    };
    let error = transact(&client, &mut peer, beyond).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidResponse);
    // To another command.
    let get = play(client.get("k"), &mut peer, async |peer| {
        let reply = Reply::Rejected {
            operation: 0,
            reason: Rejection::Error(ServiceError::NotAuthorized),
        };
        peer.answer(&reply, None).await;
    });
    assert_eq!(get.await.unwrap_err().kind(), ErrorKind::InvalidResponse);
}

#[tokio::test]
async fn an_invalid_transaction_is_rejected_without_a_request() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_value_bytes(3);
    let (client, mut peer) = broker.connect(settings).await;
    let (set, del) = (SetOptions::new(), DelOptions::new());
    let never = SetOptions::new().expires_in(Duration::ZERO);
    let first = || Transaction::new().set("a", "1", &set);
    let cases = [
        (Transaction::new(), ErrorKind::InvalidArgument, None),
        (first().del("", &del), ErrorKind::InvalidArgument, Some(1)),
        (
            first().set("b", "2", &never),
            ErrorKind::InvalidArgument,
            Some(1),
        ),
        (first().set("b", "long", &set), ErrorKind::TooLarge, Some(1)),
    ];
    for (transaction, kind, operation) in cases {
        let error = client.transact(&transaction).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome(), error.operation()),
            (kind, Outcome::NotDone, operation),
            "{error}"
        );
    }
    assert_eq!(client.counters().sent, 0);

    let three = first().del("b", &del).del("c", &del);
    let error = play(client.transact(&three), &mut peer, async |peer| {
        let mut capabilities = Capabilities::ALL;
        capabilities.transactions = Some(2);
        answer_capabilities(peer, capabilities).await;
    });
    assert_eq!(error.await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(client.counters().sent, 1);
}

#[tokio::test]
async fn no_transaction_is_sent_to_a_store_without_transactions() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let transaction = transfer();
    let error = play(client.transact(&transaction), &mut peer, async |peer| {
        reject_capabilities(peer).await;
    });
    let error = error.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unsupported, Outcome::NotDone)
    );
    assert_eq!(client.counters().sent, 1);
}

#[tokio::test]
async fn a_transaction_is_repeated_in_a_new_session_only_with_retry_always() {
    for (retry, again) in [
        (Retry::Safe, false),
        (Retry::Never, false),
        (Retry::Always, true),
    ] {
        let broker = Broker::start().await;
        let (client, mut peer) = capable(&broker).await;
        let transact = tokio::spawn({
            let (client, transaction) = (client.clone(), transfer());
            async move {
                let options = TransactOptions::new().retry(retry);
                client.transact_with(&transaction, &options).await
            }
        });
        peer.request().await;
        drop(peer);
        let (mut peer, _) = crate::again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
        if again {
            let reply = Reply::Rejected {
                operation: 0,
                reason: Rejection::Error(ServiceError::NotAuthorized),
            };
            let request = peer.answer(&reply, None).await;
            assert!(matches!(request.command, Command::Transact { .. }));
        }
        let error = crate::ended(transact).await.unwrap_err();
        let kind = if again {
            ErrorKind::NotAuthorized
        } else {
            ErrorKind::SessionLost
        };
        // An earlier execution may have gone another way.
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::Unknown));
    }
}
