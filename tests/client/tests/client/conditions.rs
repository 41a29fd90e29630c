//! Writes under the condition of a version, on stores with and without it.
use crate::capabilities::{answer_capabilities, play, reject_capabilities};
use crate::support::{Broker, Peer, Request, value, version};
use statestore::{
    Capabilities, Client, Condition, DelOptions, DelOutcome, Error, ErrorKind, Hlc, Outcome,
    SetOptions, SetOutcome, VdelOutcome, Version,
};
use statestore_protocol::{Command, Reply, ServiceError, property};
use std::time::Duration;

const SEVEN: Version = Version::new(7, 0);

fn if_seven() -> SetOptions {
    SetOptions::new().condition(Condition::IfVersion(SEVEN))
}

/// A client of a store with all extensions, which it knows.
async fn capable(broker: &Broker) -> (Client, Peer) {
    connected(broker, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
    })
    .await
}

/// A client of a store without any, which it knows.
async fn plain(broker: &Broker) -> (Client, Peer) {
    connected(broker, async |peer| reject_capabilities(peer).await).await
}

async fn connected(broker: &Broker, told: impl AsyncFnOnce(&mut Peer)) -> (Client, Peer) {
    let (client, mut peer) = broker.connect(broker.settings()).await;
    play(client.capabilities(), &mut peer, told).await.unwrap();
    (client, peer)
}

fn not_applied(number: impl Into<Option<u64>>) -> SetOutcome {
    SetOutcome::NotApplied {
        version: number.into().map(version),
    }
}

#[tokio::test]
async fn conditions_are_sent_to_a_store_that_supports_them() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    let peer = &mut peer;

    let options = if_seven().fencing_token(version(6));
    let set = client.set_with("k", "v", &options);
    let outcome = play(set, peer, async |peer| {
        let request = peer.answer(&Reply::Ok, Some(&version(8))).await;
        assert_eq!(
            request.publish.payload(),
            &b"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$3\r\nIFV\r\n$32\r\n000000000000007:00000:StateStore\r\n"[..]
        );
        assert_eq!(
            request.user(property::FENCING_TOKEN),
            Some(&*version(6).to_string())
        );
    });
    let applied = SetOutcome::Applied {
        version: version(8),
    };
    assert_eq!(outcome.await.unwrap(), applied);

    for number in [Some(9), None] {
        let stored = number.map(version);
        let options = if_seven();
        let set = play(client.set_with("k", "v", &options), peer, async |peer| {
            peer.answer(&Reply::NotApplied, stored.as_ref()).await;
        });
        let outcome = set.await.unwrap();
        assert_eq!(outcome, not_applied(number));
        assert_eq!(outcome.version(), stored.as_ref());
        assert!(!outcome.is_applied());
    }

    let options = DelOptions::new().if_version(SEVEN);
    let del = play(client.del_with("k", &options), peer, async |peer| {
        let request = peer.answer(&Reply::NotApplied, Some(&version(9))).await;
        let if_version = Some(SEVEN);
        assert_eq!(
            request.command,
            Command::Del {
                key: "k".into(),
                if_version
            }
        );
    });
    assert_eq!(
        del.await.unwrap(),
        DelOutcome::Mismatch {
            version: version(9)
        }
    );
    let del = play(client.del_with("k", &options), peer, async |peer| {
        peer.answer(&Reply::NotApplied, None).await;
    });
    assert_eq!(del.await.unwrap(), DelOutcome::Absent);
    let del = play(client.del_with("k", &options), peer, async |peer| {
        peer.answer(&Reply::Count(1), Some(&version(9))).await;
    });
    assert!(matches!(del.await.unwrap(), DelOutcome::Deleted { .. }));

    let vdel = play(client.vdel_with("k", "v", &options), peer, async |peer| {
        let request = peer.answer(&Reply::NotApplied, Some(&version(9))).await;
        let expected = Command::Vdel {
            key: "k".into(),
            value: "v".into(),
            if_version: Some(SEVEN),
        };
        assert_eq!(request.command, expected);
    });
    assert_eq!(
        vdel.await.unwrap(),
        VdelOutcome::Mismatch {
            version: Some(version(9))
        }
    );
    let vdel = play(client.vdel_with("k", "v", &options), peer, async |peer| {
        peer.answer(&Reply::NotApplied, None).await;
    });
    assert_eq!(vdel.await.unwrap(), VdelOutcome::Absent);
}

#[tokio::test]
async fn an_unconditional_deletion_never_returns_mismatch() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    let del = play(client.del("k"), &mut peer, async |peer| {
        peer.answer(&Reply::NotApplied, None).await;
    });
    assert_eq!(del.await.unwrap_err().kind(), ErrorKind::InvalidResponse);
    let options = SetOptions::new().condition(Condition::IfAbsent);
    let set = play(
        client.set_with("k", "v", &options),
        &mut peer,
        async |peer| {
            peer.answer(&Reply::NotApplied, None).await;
        },
    );
    assert_eq!(set.await.unwrap_err().kind(), ErrorKind::InvalidResponse);
}

/// The fencing token of a SET with this condition and value.
fn token(request: &Request, condition: Condition, value: &str) -> Hlc {
    let Command::Set {
        value: set,
        options,
        ..
    } = &request.command
    else {
        panic!("{request:?}")
    };
    assert_eq!((options.condition, &**set), (condition, value.as_bytes()));
    let token = request.user(property::FENCING_TOKEN).unwrap();
    token.parse().unwrap()
}

#[tokio::test]
async fn a_store_without_conditions_is_updated_by_a_fenced_compare_and_set() {
    let broker = Broker::start().await;
    let (client, mut peer) = plain(&broker).await;
    let options = if_seven().expires_in(Duration::from_secs(60)).persist(true);
    let set = client.set_with("k", "new", &options);
    let set = play(set, &mut peer, async |peer| {
        let get = peer.answer(&value("old"), Some(&version(7))).await;
        assert_eq!(get.key(), b"k");
        let raise = peer.answer(&Reply::Ok, Some(&version(20))).await;
        let raised = token(&raise, Condition::IfAbsentOrEqual, "old");
        assert_eq!((raised.wall_ms(), raised.counter()), (7, 1));
        let write = peer.answer(&Reply::Ok, Some(&version(21))).await;
        assert_eq!(token(&write, Condition::Always, "new"), raised);
        for request in [raise, write] {
            assert_eq!(request.user(property::PERSIST), Some("true"));
            let Command::Set { options, .. } = request.command else {
                panic!("{request:?}")
            };
            assert_eq!(options.expires_in_ms.unwrap().get(), 60_000);
        }
    });
    let applied = SetOutcome::Applied {
        version: version(21),
    };
    assert_eq!(set.await.unwrap(), applied);
}

#[tokio::test]
async fn a_changed_version_is_detected_at_every_step_without_conditions() {
    let broker = Broker::start().await;
    let (client, mut peer) = plain(&broker).await;
    let peer = &mut peer;
    let options = if_seven();
    let set = || client.set_with("k", "new", &options);
    // Before anything is written.
    for (found, number) in [(value("old"), Some(8)), (Reply::Nil, None)] {
        let outcome = play(set(), peer, async |peer| {
            peer.answer(&found, number.map(version).as_ref()).await;
        });
        assert_eq!(outcome.await.unwrap(), not_applied(number));
    }
    // The value changed after it was read.
    let outcome = play(set(), peer, async |peer| {
        peer.answer(&value("old"), Some(&version(7))).await;
        peer.answer(&Reply::NotApplied, Some(&version(8))).await;
    });
    assert_eq!(outcome.await.unwrap(), not_applied(8));
    // Another client has the same version: before this client raised the fence, and after.
    let lower = Reply::Error(ServiceError::FencingTokenLower);
    for steps in [0, 1] {
        let outcome = play(set(), peer, async |peer| {
            peer.answer(&value("old"), Some(&version(7))).await;
            for _ in 0..steps {
                peer.answer(&Reply::Ok, Some(&version(8))).await;
            }
            peer.answer(&lower, None).await;
            peer.answer(&value("theirs"), Some(&version(9))).await;
        });
        assert_eq!(outcome.await.unwrap(), not_applied(9));
    }
    // Another client set a token explicitly that is higher than the version.
    let outcome = play(set(), peer, async |peer| {
        peer.answer(&value("old"), Some(&version(7))).await;
        let low = peer.answer(&lower, None).await;
        peer.answer(&value("old"), Some(&version(7))).await;
        let high = peer.answer(&Reply::Ok, Some(&version(9))).await;
        let condition = Condition::IfAbsentOrEqual;
        assert!(token(&high, condition, "old") > token(&low, condition, "old"));
        peer.answer(&Reply::Ok, Some(&version(10))).await;
    });
    assert!(outcome.await.unwrap().is_applied());
    // Even higher than the clock.
    let outcome = play(set(), peer, async |peer| {
        for _ in 0..2 {
            peer.answer(&value("old"), Some(&version(7))).await;
            peer.answer(&lower, None).await;
        }
        peer.answer(&value("old"), Some(&version(7))).await;
    });
    let error = outcome.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::FencingTokenLower, Outcome::NotDone)
    );
}

#[tokio::test]
async fn only_the_last_step_has_an_unknown_outcome_without_conditions() {
    let broker = Broker::start().await;
    let (client, mut peer) = plain(&broker).await;
    let peer = &mut peer;
    let options = if_seven();
    for (steps, outcome) in [
        (0, Outcome::NotDone),
        (1, Outcome::NotDone),
        (2, Outcome::Unknown),
    ] {
        let set = client.set_with("k", "new", &options);
        let result = play(set, peer, async |peer| {
            let good = [
                (value("old"), version(7)),
                (Reply::Ok, version(8)),
                (Reply::Ok, version(9)),
            ];
            for (reply, version) in &good[..steps] {
                peer.answer(reply, Some(version)).await;
            }
            peer.answer(&Reply::Count(7), None).await;
        });
        let error = result.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidResponse, outcome),
            "{steps}"
        );
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));
}

#[tokio::test]
async fn an_unsafe_call_without_conditions_is_rejected() {
    let broker = Broker::start().await;
    let (client, _peer) = plain(&broker).await;
    let before = client.counters().sent;
    let del = DelOptions::new().if_version(SEVEN);
    refused(client.del_with("k", &del).await, ErrorKind::Unsupported);
    let vdel = client.vdel_with("k", "v", &del).await;
    refused(vdel, ErrorKind::Unsupported);
    let fenced = if_seven().fencing_token(version(9));
    let set = client.set_with("k", "v", &fenced).await;
    refused(set, ErrorKind::Unsupported);
    let soon = if_seven().expires_in(Duration::from_millis(5));
    let set = client.set_with("k", "v", &soon).await;
    refused(set, ErrorKind::InvalidArgument);
    assert_eq!(client.counters().sent, before);
}

#[tokio::test]
async fn a_version_condition_is_rejected_for_several_keys() {
    let broker = Broker::start().await;
    let (client, _peer) = capable(&broker).await;
    let before = client.counters().sent;
    for set in client
        .set_many_with(&[("a", "1"), ("b", "2")], &if_seven())
        .await
    {
        refused(set, ErrorKind::InvalidArgument);
    }
    let options = DelOptions::new().if_version(SEVEN);
    for del in client.del_many_with(&["a", "b"], &options).await {
        refused(del, ErrorKind::InvalidArgument);
    }
    assert_eq!(client.counters().sent, before);
}

#[tokio::test]
async fn arguments_are_checked_before_anything_is_sent() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_value_bytes(3);
    let (client, _peer) = broker.connect(settings).await;
    let set = client.set_with("", "v", &if_seven()).await;
    refused(set, ErrorKind::InvalidArgument);
    let set = client.set_with("k", "long", &if_seven()).await;
    refused(set, ErrorKind::TooLarge);
    let never = if_seven().expires_in(Duration::ZERO);
    let set = client.set_with("k", "v", &never).await;
    refused(set, ErrorKind::InvalidArgument);
    let options = DelOptions::new().if_version(SEVEN);
    refused(
        client.del_with("", &options).await,
        ErrorKind::InvalidArgument,
    );
    let vdel = client.vdel_with("k", "long", &options).await;
    refused(vdel, ErrorKind::TooLarge);
    assert_eq!(client.counters().sent, 0);
}

#[tokio::test]
async fn the_capabilities_of_a_replaced_store_are_queried_again() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    let syntax = Reply::Error(ServiceError::Syntax);
    let options = if_seven();
    let set = client.set_with("k", "new", &options);
    let set = play(set, &mut peer, async |peer| {
        let request = peer.answer(&syntax, None).await;
        assert_eq!(request.key(), b"k");
        reject_capabilities(peer).await;
        peer.answer(&Reply::Nil, None).await;
    });
    assert_eq!(set.await.unwrap(), not_applied(None));
}

#[tokio::test]
async fn queries_of_an_inconsistent_store_are_bounded() {
    let broker = Broker::start().await;
    let (client, mut peer) = capable(&broker).await;
    let options = if_seven();
    let set = client.set_with("k", "new", &options);
    let set = play(set, &mut peer, async |peer| {
        let syntax = Reply::Error(ServiceError::Syntax);
        peer.answer(&syntax, None).await;
        answer_capabilities(peer, Capabilities::ALL).await;
        peer.answer(&syntax, None).await;
    });
    refused(set.await, ErrorKind::Syntax);
}
