//! How much time an entry has left, while other servers renew it.
use super::{Cluster, Engine};
use statestore::{Client, Expiry, GetOptions, SetOptions};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Servers, each with a key that it renews.
const NODES: usize = 3;

/// How often each server reads each key.
const READS: usize = 150;

/// Longer than the test takes between two renewals.
const LIFETIME: Duration = Duration::from_secs(60);

async fn renew(client: Client, key: String, is_over: Rc<Cell<bool>>) {
    let options = SetOptions::new().expires_in(LIFETIME);
    while !is_over.get() {
        client.set_with(&key, "v", &options).await.unwrap();
    }
}

async fn read(client: Client) -> usize {
    let remaining = GetOptions::new().remaining(true);
    let mut without = 0;
    for read in 0..READS * NODES {
        let key = format!("renewed-{}", read % NODES);
        let entry = client.get_with(&key, &remaining).await.unwrap().unwrap();
        without += usize::from(!matches!(entry.expires_in, Expiry::After(_)));
    }
    without
}

pub(crate) fn the_remaining_time_is_never_missing_or_zero<E: Engine>() {
    Cluster::<E>::start(NODES).run(async |cluster| {
        let is_over = Rc::new(Cell::new(false));
        let mut renewing = JoinSet::new();
        let options = SetOptions::new().expires_in(LIFETIME);
        for number in 0..NODES {
            let key = format!("renewed-{number}");
            let client = cluster.client(number).await;
            client.set_with(&key, "v", &options).await.unwrap();
            renewing.spawn_local(renew(client, key, Rc::clone(&is_over)));
        }
        let mut reading = JoinSet::new();
        for number in 0..NODES {
            reading.spawn_local(read(cluster.client(number).await));
        }
        let without: usize = reading.join_all().await.into_iter().sum();
        is_over.set(true);
        renewing.join_all().await;
        assert_eq!(without, 0, "reads say that the entry does not expire");
    });
}
