//! Outcomes that are known after a call of several requests was dropped before its end.
use crate::capabilities::reject_capabilities;
use crate::connack;
use crate::support::{Broker, Peer, version, within};
use statestore::{CancellationRecorder, Outcome, SetOptions, TransactOptions, Transaction};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::ReasonCode;
use std::pin::{Pin, pin};

/// Polls a call while `play` runs, and then drops it: what is known of it.
async fn dropped<F: Future>(call: F, play: impl Future<Output = ()>) -> Option<Outcome> {
    let mut call = Box::pin(call);
    let mut play = pin!(play);
    within(async {
        tokio::select! {
            biased;
            _ = &mut call => panic!("it has ended"),
            () = &mut play => {}
        }
    })
    .await;
    let abandoned = CancellationRecorder::begin();
    drop(call);
    abandoned.outcome()
}

/// Submits a call.
async fn begin<F: Future>(mut call: Pin<&mut F>) {
    std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
}

/// Answers a request, so that the next one that waits has its turn.
async fn answer(peer: &mut Peer, key: &[u8], number: u64) {
    let request = peer.answer(&Reply::Ok, Some(&version(number))).await;
    assert_eq!(
        request.key().escape_ascii().to_string(),
        key.escape_ascii().to_string()
    );
}

#[tokio::test]
async fn dropping_a_partly_executed_batch_has_an_unknown_outcome() {
    let broker = Broker::start().await;
    let allowed = connack(|it| it.limits.receive_maximum = 1);
    // At most one of the requests waits in the queue at a time.
    let settings = broker.settings().max_queued(1);
    let (client, mut peer) = broker.connect_with(settings, allowed).await;
    let values = [("a", "1"), ("b", "2")];
    let mut other = pin!(client.set("other", "v"));
    let outcome = dropped(client.set_many(&values), async {
        let first = peer.request().await;
        begin(other.as_mut()).await;
        peer.acknowledge(&first, ReasonCode::SUCCESS).await;
        peer.respond(&first, &Reply::Ok, Some(&version(1))).await;
        // The second of them waits behind this one.
        assert_eq!(peer.request().await.key(), b"other");
        while client.counters().queued == 0 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(outcome.await, Some(Outcome::Unknown));
}

#[tokio::test]
async fn dropping_reads_has_the_outcome_not_done() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let outcome = dropped(client.get_many(&["a", "b"]), async {
        peer.answer(&Reply::Nil, None).await;
        peer.request().await;
    });
    assert_eq!(outcome.await, Some(Outcome::NotDone));
}

#[tokio::test]
async fn dropping_a_decided_transaction_has_an_unknown_outcome() {
    let broker = Broker::start().await;
    let allowed = connack(|it| it.limits.receive_maximum = 1);
    let (client, mut peer) = broker.connect_with(broker.settings(), allowed).await;
    let transaction = Transaction::new().set("a", "1", &SetOptions::new());
    let options = TransactOptions::new().through_intents(true);
    let mut other = pin!(client.set("other", "v"));
    let transact = client.transact_with(&transaction, &options);
    let outcome = dropped(transact, async {
        reject_capabilities(&mut peer).await;
        peer.answer(&Reply::Nil, None).await;
        answer(&mut peer, b"a", 1).await;
        let register = peer.request().await;
        assert!(register.key().starts_with(b"statestore/transactions/"));
        begin(other.as_mut()).await;
        peer.acknowledge(&register, ReasonCode::SUCCESS).await;
        peer.respond(&register, &Reply::Ok, Some(&version(2))).await;
        // The request that puts the value in place waits behind this one.
        assert_eq!(peer.request().await.key(), b"other");
        while client.counters().queued == 0 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(outcome.await, Some(Outcome::Unknown));
}
