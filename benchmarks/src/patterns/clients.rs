//! Watchers and a writer that are clients: those of this project, and those of etcd. Each of them has a connection.

use super::change_log::{ChangeLog, KEYS, WATCHERS, prefix};
use crate::{
    load::{self, LoadResult, Target, VALUE},
    own_client::OwnClient,
};
use etcd_client::{Client, KvClient, WatchOptions};
use statestore::MatchObservation;
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

/// Time after which the writer looks for changes that are due.
const TICK: Duration = Duration::from_millis(1);

/// Clients of one server.
pub struct ClientWatchers<T> {
    writer: Arc<T>,
    log: Arc<Mutex<ChangeLog>>,
}

/// A client of etcd that writes.
pub struct EtcdWriter(KvClient);

impl Target for EtcdWriter {
    async fn set(&self, key: &[u8], value: &[u8]) {
        self.0.clone().put(key, value, None).await.expect("put");
    }

    async fn get(&self, key: &[u8]) {
        let answer = self.0.clone().get(key, None).await.expect("get");
        assert_eq!(answer.kvs().len(), 1);
    }
}

impl<T: Target> ClientWatchers<T> {
    /// Sets all keys.
    async fn new(writer: Arc<T>) -> Self {
        load::fill(&writer, 0..KEYS).await;
        Self {
            writer,
            log: Arc::default(),
        }
    }

    /// Sends changes for this time, and returns when all watchers are notified.
    pub async fn run(&self, time: Duration) -> LoadResult {
        lock(&self.log).start();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let keys: Vec<_> = {
                let mut log = lock(&self.log);
                if let Some(result) = log.finish(time) {
                    return result;
                }
                (0..log.due(time)).map(|_| log.send()).collect()
            };
            for key in keys {
                let (writer, log) = (self.writer.clone(), self.log.clone());
                tokio::spawn(async move {
                    writer.set(&key, &VALUE).await;
                    lock(&log).record_answer();
                });
            }
        }
    }
}

impl ClientWatchers<OwnClient> {
    /// Connects clients of this project, and starts their watches.
    pub async fn connect_own(port: u16) -> Self {
        let watchers = Self::new(OwnClient::connect(port, "bench-writer").await).await;
        for watcher in 0..WATCHERS {
            let client = OwnClient::connect(port, &format!("bench-watcher-{watcher}")).await;
            let pattern = [&prefix(watcher)[..], b"*"].concat();
            let observer = client.0.observe_matching(pattern).await;
            let mut observer = observer.expect("the server watches patterns");
            while let Some(event) = observer.next().await {
                if matches!(event, MatchObservation::Complete) {
                    break;
                }
            }
            let log = watchers.log.clone();
            tokio::spawn(async move {
                while let Some(event) = observer.next().await {
                    if matches!(event, MatchObservation::Set { .. }) {
                        lock(&log).record_notification(watcher);
                    }
                }
            });
        }
        watchers
    }
}

impl ClientWatchers<EtcdWriter> {
    /// Connects clients of etcd, and starts their watches.
    pub async fn connect_etcd(port: u16) -> Self {
        let writer = EtcdWriter(connect_etcd(port).await.kv_client());
        let watchers = Self::new(Arc::new(writer)).await;
        for watcher in 0..WATCHERS {
            let mut client = connect_etcd(port).await;
            let options = WatchOptions::new().with_prefix();
            let watch = client.watch(prefix(watcher), Some(options)).await;
            let mut watch = watch.expect("etcd watches prefixes");
            let created = watch.message().await.expect("watch");
            assert!(created.is_some_and(|response| response.created()));
            let log = watchers.log.clone();
            tokio::spawn(async move {
                // Keeps the connection.
                let _client = client;
                while let Ok(Some(response)) = watch.message().await {
                    let mut log = lock(&log);
                    for _ in response.events() {
                        log.record_notification(watcher);
                    }
                }
            });
        }
        watchers
    }
}

async fn connect_etcd(port: u16) -> Client {
    let client = Client::connect([format!("http://127.0.0.1:{port}")], None).await;
    client.expect("etcd answers")
}

fn lock(log: &Mutex<ChangeLog>) -> MutexGuard<'_, ChangeLog> {
    log.lock().expect("no watcher fails")
}
