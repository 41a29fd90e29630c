//! The client against a broker that the tests play by hand: see `support`.
#![allow(clippy::unwrap_used)]

mod brokers;
mod capabilities;
mod closing;
mod coalescing;
mod conditions;
mod connecting;
mod deadlines;
mod dropped;
mod get_many;
mod hostile;
mod keys;
mod lazy;
mod limits;
mod link;
mod logs;
mod many;
mod matching;
mod messages;
mod observe;
mod outage;
mod reconnecting;
mod scan_entries;
mod session;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod time;
mod transactions;
mod verbs;
mod without_runtime;

use statestore::{Client, Error, SetOutcome};
use statestore_protocol::mqtt::{ConnAck, Connect, ReasonCode};
use support::{Broker, CLIENT_ID, Peer, within};

fn connack(change: impl FnOnce(&mut ConnAck)) -> ConnAck {
    let mut connack = ConnAck::new(ReasonCode::SUCCESS);
    change(&mut connack);
    connack
}

/// Runs a call as a task, so that it goes on while the test plays the broker.
fn spawn_get(
    client: &Client,
    key: &'static str,
) -> tokio::task::JoinHandle<Result<Option<statestore::Entry>, Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.get(key).await })
}

fn spawn_set(
    client: &Client,
    key: &'static str,
) -> tokio::task::JoinHandle<Result<SetOutcome, Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.set(key, "v").await })
}

async fn ended<T>(task: tokio::task::JoinHandle<T>) -> T {
    within(task).await.unwrap()
}

/// The broker's end of the next connection, its CONNECT answered; a session is present only if it may be.
async fn again(broker: &Broker, mut answer: ConnAck) -> (Peer, Connect) {
    let mut peer = broker.accept().await;
    let connect = peer.connect().await;
    answer.session_present &= !connect.clean_start;
    let resumed = answer.session_present;
    peer.send_connack(answer).await;
    if !resumed {
        peer.subscribe().await;
    } else if connect.client_id == CLIENT_ID {
        // Others may have had a client id that was chosen.
        peer.confirm_session().await;
    }
    (peer, connect)
}
