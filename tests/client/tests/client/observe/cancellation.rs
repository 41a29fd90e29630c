//! Futures that are dropped take nothing with them.
use super::{ahead, deleted, observe};
use crate::support::{Broker, value, version, within};
use statestore::{LostReason, TryNextError};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Command, Event, Reply};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Polls a future once and drops it.
async fn give_up<F: Future>(future: F) {
    let mut future = pin!(future);
    let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending()));
    assert!(polled.await);
}

#[tokio::test]
async fn each_observation_is_delivered_once() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    assert_eq!(observer.try_next(), Err(TryNextError::Empty));
    give_up(observer.next()).await;
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    within(observer.ready()).await;
    // A caller that is notified and does not take the item leaves it to the next one.
    within(observer.ready()).await;
    assert_eq!(observer.try_next(), Ok(deleted(1)));
    assert_eq!(observer.try_next(), Err(TryNextError::Empty));
    peer.notify(b"k", &Event::Deleted, &version(2)).await;
    within(observer.ready()).await;
    within(client.close()).await;
    assert!(observer.lost_reason().is_some());
    // The end is returned after the observations before it.
    assert_eq!(observer.try_next(), Ok(deleted(2)));
    assert_eq!(observer.try_next(), Err(TryNextError::Ended));
    assert_eq!(observer.try_next(), Err(TryNextError::Ended));
}

#[tokio::test]
async fn try_next_of_a_holder_observer_reads_the_store_and_reports_the_end() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let lease = client.lease("k").unwrap();
    let (holders, _) =
        within(async { tokio::join!(lease.observe(), peer.answer(&Reply::Ok, None)) }).await;
    let mut holders = holders.unwrap();
    assert_eq!(holders.try_next().unwrap_err(), TryNextError::Empty);
    within(peer.answer(&Reply::Nil, None)).await;
    within(holders.ready()).await;
    assert_eq!(holders.try_next().unwrap().unwrap(), None);
    assert_eq!(holders.try_next().unwrap_err(), TryNextError::Empty);
    within(client.close()).await;
    assert_eq!(holders.try_next().unwrap_err(), TryNextError::Ended);
    assert_eq!(holders.lost_reason(), Some(LostReason::Closed));
}

#[tokio::test]
async fn try_next_of_a_holder_observer_keeps_the_waker_of_its_task() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let lease = client.lease("k").unwrap();
    let (holders, _) =
        within(async { tokio::join!(lease.observe(), peer.answer(&Reply::Ok, None)) }).await;
    let mut holders = holders.unwrap();
    let report = tokio::spawn(poll_fn(move |context| {
        let polled = holders.poll_ready(context);
        let report = holders.try_next();
        polled.map(|()| report)
    }));
    within(peer.answer(&Reply::Nil, None)).await;
    let report = within(report).await.unwrap();
    assert_eq!(report.unwrap().unwrap(), None);
    within(client.close()).await;
}

#[tokio::test]
async fn dropping_a_future_loses_no_holder_change() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let lease = client.lease("k").unwrap();
    let (holders, _) =
        within(async { tokio::join!(lease.observe(), peer.answer(&Reply::Ok, None)) }).await;
    let mut holders = holders.unwrap();
    let (first, _) =
        within(async { tokio::join!(holders.next(), peer.answer(&Reply::Nil, None)) }).await;
    assert_eq!(first.unwrap().unwrap(), None);
    let now = ahead(0);
    peer.notify(b"k", &Event::Set("one".into()), &now).await;
    // The notification was taken, and the key is being read; that goes on.
    let get = tokio::select! {
        holder = holders.next() => panic!("it was not read yet: {holder:?}"),
        get = peer.request() => get,
    };
    assert_eq!(
        get.command,
        Command::Get {
            key: "k".into(),
            remaining: false,
            eventual: false
        }
    );
    let answer = async {
        peer.acknowledge(&get, ReasonCode::SUCCESS).await;
        peer.respond(&get, &value("one"), Some(&now)).await;
    };
    let (holder, ()) = within(async { tokio::join!(holders.next(), answer) }).await;
    let holding = holder.unwrap().unwrap().unwrap();
    assert_eq!(holding.holder.name(), "one");
    within(client.close()).await;
    assert!(within(holders.next()).await.is_none());
    assert_eq!(holders.lost_reason(), Some(LostReason::Closed));
}

#[tokio::test]
async fn dropping_a_future_loses_no_leader_change() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let election = client.election("k").unwrap();
    let watches = async {
        peer.answer(&Reply::Ok, None).await;
        peer.answer(&Reply::Ok, None).await;
    };
    let (leaders, ()) = within(async { tokio::join!(election.observe(), watches) }).await;
    let mut leaders = leaders.unwrap();
    let (first, _) =
        within(async { tokio::join!(leaders.next(), peer.answer(&Reply::Nil, None)) }).await;
    assert_eq!(first.unwrap().unwrap(), None);
    let now = ahead(0);
    peer.notify(b"k", &Event::Set("one".into()), &now).await;
    let get = tokio::select! {
        leader = leaders.next() => panic!("it was not read yet: {leader:?}"),
        get = peer.request() => get,
    };
    let answers = async {
        peer.acknowledge(&get, ReasonCode::SUCCESS).await;
        peer.respond(&get, &value("one"), Some(&now)).await;
        peer.answer(&Reply::Nil, None).await;
    };
    let (leader, ()) = within(async { tokio::join!(leaders.next(), answers) }).await;
    assert_eq!(leader.unwrap().unwrap().unwrap().holder.name(), "one");
    within(client.close()).await;
    assert!(within(leaders.next()).await.is_none());
    assert_eq!(leaders.lost_reason(), Some(LostReason::Closed));
}
