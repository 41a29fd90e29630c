//! Outcomes that are known after a call of several requests was dropped before its end.
use crate::capabilities::{answer_capabilities, reject_capabilities};
use crate::connack;
use crate::support::{Broker, version, within};
use statestore::{CancellationRecorder, Capabilities, Outcome};
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
        reject_capabilities(&mut peer).await;
        peer.answer(&Reply::Nil, None).await;
        peer.request().await;
    });
    assert_eq!(outcome.await, Some(Outcome::NotDone));
}

#[tokio::test]
async fn dropping_a_read_of_many_keys_has_the_outcome_not_done() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let outcome = dropped(client.get_many(&["a", "b"]), async {
        answer_capabilities(&mut peer, Capabilities::ALL).await;
        peer.request().await;
    });
    assert_eq!(outcome.await, Some(Outcome::NotDone));
}
