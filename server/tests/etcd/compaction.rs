//! Former values that etcd is let forget.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, LONG, block_on, connect_to, next, value};
use statestore::Observation;
use statestored::RunningServer;
use statestored::config::StorageConfig;
use std::time::{Duration, Instant};

fn start(etcd: &Etcd) -> RunningServer {
    let mut config = etcd.config("test");
    if let StorageConfig::Etcd(etcd) = &mut config.storage {
        etcd.history = Some(Duration::from_millis(200));
    }
    RunningServer::start(config).unwrap()
}

#[test]
fn compaction_removes_history_without_losing_notifications() {
    let etcd = Etcd::start();
    let servers = [start(&etcd), start(&etcd)];
    block_on(async {
        let (a, b) = (connect_to(&servers[0]).await, connect_to(&servers[1]).await);
        let mut told = b.observe("k").await.unwrap();
        a.set("k", "first").await.unwrap();
        let mut kv = etcd.client().await;
        let found = kv.get("k", None).await.unwrap();
        let revision = found.header().unwrap().revision();
        a.set("k", "second").await.unwrap();
        let end = Instant::now() + LONG;
        loop {
            let at = etcd_client::GetOptions::new().with_revision(revision);
            match kv.get("k", Some(at)).await {
                Ok(_) => assert!(Instant::now() < end, "nobody compacts"),
                Err(error) => {
                    assert!(error.to_string().contains("has been compacted"), "{error}");
                    break;
                }
            }
            a.set("other", "value").await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        a.set("k", "third").await.unwrap();
        assert_eq!(value(&b, "k").await.as_deref(), Some("third"));
        while !matches!(next(&mut told).await, Observation::Set { value, .. } if &value[..] == b"third")
        {
        }
    });
    for server in servers {
        server.stop().unwrap();
    }
}
