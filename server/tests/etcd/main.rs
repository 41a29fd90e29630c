//! Servers over a real etcd: what one of them did, the others know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod cluster;
#[path = "../elsewhere/mod.rs"]
mod elsewhere;
mod replaced;
mod secure;

use cluster::Etcd;
use elsewhere::{Cluster, Engine};
use statestore::Outcome;
use statestored::RunningServer;

elsewhere::suite::suite!(crate::cluster::Etcd);

#[test]
fn what_the_engine_does_not_take_is_refused_by_name() {
    Cluster::<Etcd>::start(1).run(async |cluster| {
        let client = cluster.client(0).await;
        let error = client.set("k", vec![b'v'; 1_500_000]).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotDone);
        assert!(
            error.to_string().contains("larger than the storage takes"),
            "{error}"
        );
        client.set("k", vec![b'v'; 1_000_000]).await.unwrap();
    });
}

#[test]
fn a_store_of_another_format_is_not_touched() {
    let etcd = Etcd::start();
    etcd.put("foreign/m", "something else");
    let error = RunningServer::start(etcd.config("foreign")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("holds something else below the prefix"),
        "{text}"
    );
    assert!(text.contains("something else"), "{text}");
}

#[test]
fn an_engine_that_does_not_answer_is_named() {
    let etcd = Etcd::start();
    let config = etcd.config("test");
    drop(etcd);
    let error = RunningServer::start(config).unwrap_err();
    assert!(
        error.to_string().starts_with("etcd at http://127.0.0.1:"),
        "{error}"
    );
}
