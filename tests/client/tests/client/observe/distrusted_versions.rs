//! Versions that are lower than they should be, or too high: a store that was set back, a forgery.
use super::{ahead, deleted, next, observe, reconnect, set};
use crate::support::{Broker, value, version};
use statestore::{Hlc, Observation};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Command, Event, Reply};
use std::time::{Duration, Instant};

#[tokio::test]
async fn after_a_store_lost_its_keys_lower_versions_are_observed() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("a".into()), &version(9))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 9));
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    peer.answer(&Reply::Nil, None).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(
        next(&mut observer).await,
        Observation::Deleted { version: None }
    );
    peer.notify(b"k", &Event::Set("b".into()), &version(1))
        .await;
    assert_eq!(next(&mut observer).await, set("b", 1));
}

#[tokio::test]
async fn a_reissued_version_with_another_value_is_observed() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("a".into()), &version(9))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 9));
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    peer.answer(&value("b"), Some(&version(9))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("b", 9));
    // A notification that did not arrive before is repeated. Then the key changes before it is read.
    peer.notify(b"k", &Event::Set("b".into()), &version(9))
        .await;
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    let get = peer.request().await;
    peer.notify(b"k", &Event::Set("c".into()), &version(9))
        .await;
    peer.acknowledge(&get, ReasonCode::SUCCESS).await;
    peer.respond(&get, &value("b"), Some(&version(9))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    peer.answer(&value("c"), Some(&version(9))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("c", 9));
}

#[tokio::test]
async fn a_forged_version_does_not_block_an_observer() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    // Not so far ahead that it is seen to be forged.
    let forged = ahead(55_000);
    peer.notify(b"k", &Event::Set("forged".into()), &forged)
        .await;
    assert_eq!(
        next(&mut observer).await,
        Observation::Set {
            value: "forged".into(),
            version: forged
        }
    );
    let begin = Instant::now();
    for number in 1..=50 {
        peer.notify(b"k", &Event::Set("true".into()), &version(number))
            .await;
    }
    let get = peer.answer(&value("true"), Some(&version(50))).await;
    assert_eq!(
        get.command,
        Command::Get {
            key: "k".into(),
            remaining: false,
            eventual: false
        }
    );
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("true", 50));
    // From here on the true versions count. An old version causes another read, but not at once.
    peer.notify(b"k", &Event::Deleted, &version(51)).await;
    assert_eq!(next(&mut observer).await, deleted(51));
    peer.notify(b"k", &Event::Deleted, &version(49)).await;
    peer.answer(&Reply::Nil, None).await;
    assert!(begin.elapsed() >= Duration::from_secs(1));
    peer.notify(b"k", &Event::Set("a".into()), &version(52))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 52));
}

#[tokio::test]
async fn a_version_too_far_ahead_is_not_trusted() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    let end_of_time = Hlc::new(u64::MAX, u64::MAX, "z").unwrap();
    peer.notify(b"k", &Event::Set("forged".into()), &end_of_time)
        .await;
    // A notification about a key without observers does not even reach the clock.
    peer.notify(b"other", &Event::Deleted, &end_of_time).await;
    peer.notify(b"other", &Event::Deleted, &ahead(55_000)).await;
    let get = peer.answer(&value("true"), Some(&version(1))).await;
    assert_eq!(
        get.command,
        Command::Get {
            key: "k".into(),
            remaining: false,
            eventual: false
        }
    );
    assert!(get.user("__ts").unwrap() < ahead(30_000).to_string().as_str());
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("true", 1));
    assert_eq!(client.counters().clock_skews, 1);
    peer.notify(b"k", &Event::Deleted, &version(2)).await;
    assert_eq!(next(&mut observer).await, deleted(2));
}

#[tokio::test]
async fn a_trusted_change_during_a_verification_follows_a_resync() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("one".into()), &version(1))
        .await;
    assert_eq!(next(&mut observer).await, set("one", 1));
    // From a store whose clock is ahead of this one, or forged.
    peer.notify(b"k", &Event::Set("missed".into()), &ahead(90_000))
        .await;
    let get = peer.request().await;
    peer.notify(b"k", &Event::Set("two".into()), &version(2))
        .await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("two", 2));
    peer.acknowledge(&get, ReasonCode::SUCCESS).await;
    peer.respond(&get, &value("two"), Some(&version(2))).await;
    peer.notify(b"k", &Event::Deleted, &version(3)).await;
    assert_eq!(next(&mut observer).await, deleted(3));
}

#[tokio::test]
async fn a_distrusted_change_of_an_absent_key_is_a_resync() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    assert_eq!(next(&mut observer).await, deleted(1));
    // Set and deleted again, by a store whose clock is ahead of this one, or forged.
    peer.notify(b"k", &Event::Set("missed".into()), &ahead(90_000))
        .await;
    let get = peer.request().await;
    peer.acknowledge(&get, ReasonCode::SUCCESS).await;
    peer.respond(&get, &Reply::Nil, None).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    peer.notify(b"k", &Event::Set("two".into()), &version(2))
        .await;
    assert_eq!(next(&mut observer).await, set("two", 2));
}

#[tokio::test]
async fn a_distrusted_change_during_a_catch_up_read_is_another_resync() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("one".into()), &version(1))
        .await;
    assert_eq!(next(&mut observer).await, set("one", 1));
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    let get = peer.request().await;
    peer.notify(b"k", &Event::Set("two".into()), &version(2))
        .await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("two", 2));
    // Between this and what is read there may have been others that were not believed either.
    peer.notify(b"k", &Event::Set("missed".into()), &ahead(90_000))
        .await;
    peer.acknowledge(&get, ReasonCode::SUCCESS).await;
    peer.respond(&get, &value("four"), Some(&version(4))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("four", 4));
}

#[tokio::test]
async fn a_failed_verification_read_is_retried() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Deleted, &version(9)).await;
    assert_eq!(next(&mut observer).await, deleted(9));
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    let get = peer.request().await;
    peer.acknowledge(&get, ReasonCode::SERVER_BUSY).await;
    peer.answer(&value("a"), Some(&version(2))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("a", 2));
}

#[tokio::test]
async fn a_store_restored_during_a_catch_up_read_is_observed() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("old".into()), &version(9))
        .await;
    assert_eq!(next(&mut observer).await, set("old", 9));
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    let get = peer.request().await;
    // The key changed after it was read, and before the response arrived.
    peer.notify(b"k", &Event::Set("new".into()), &version(2))
        .await;
    peer.acknowledge(&get, ReasonCode::SUCCESS).await;
    peer.respond(&get, &value("back"), Some(&version(1))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("back", 1));
    let get = peer.answer(&value("new"), Some(&version(2))).await;
    assert_eq!(
        get.command,
        Command::Get {
            key: "k".into(),
            remaining: false,
            eventual: false
        }
    );
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("new", 2));
}
