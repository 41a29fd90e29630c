//! Events of etcd's watch across lost connections, and large responses.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, block_on, connect_to, get, next, start, until, value};
use harness::proxy::{AcceptMode, CutKind, Proxy};
use statestore::{Client, Observation, ObserveOptions, Observer, Overflow};
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use std::net::SocketAddr;

fn config_through(etcd: &Etcd, proxy: &Proxy) -> Config {
    let mut config = etcd.config("test");
    if let StorageConfig::Etcd(etcd) = &mut config.storage {
        etcd.endpoints = vec![format!("http://{}", proxy.address())];
    }
    config
}

/// Sets a key while a server that has an observer of it has no way to etcd.
struct InterruptedWatch {
    etcd: Etcd,
    proxy: Proxy,
    disconnected_server: RunningServer,
    connected_server: RunningServer,
    writer: Client,
    observer: Observer,
}

impl InterruptedWatch {
    async fn begin() -> Self {
        let etcd = Etcd::start();
        let address: SocketAddr = format!("127.0.0.1:{}", etcd.port).parse().unwrap();
        let proxy = Proxy::start(address).await;
        let config = config_through(&etcd, &proxy);
        let start = move || RunningServer::start(config).unwrap();
        let cut_off = tokio::task::spawn_blocking(start).await.unwrap();
        let config = etcd.config("test");
        let start = move || RunningServer::start(config).unwrap();
        let beside = tokio::task::spawn_blocking(start).await.unwrap();
        let (reader, writer) = (connect_to(&cut_off).await, connect_to(&beside).await);
        let all = ObserveOptions::new().overflow(Overflow::All(10));
        let mut observer = reader.observe_with("k", &all).await.unwrap();
        writer.set("k", "before").await.unwrap();
        while text_of(&next(&mut observer).await).as_deref() != Some("before") {}
        proxy.set_accept_mode(AcceptMode::Reset);
        proxy.cut(CutKind::Reset);
        for text in ["first", "second", "third"] {
            writer.set("k", text).await.unwrap();
        }
        Self {
            etcd,
            proxy,
            disconnected_server: cut_off,
            connected_server: beside,
            writer,
            observer,
        }
    }

    /// Returns the observer's events from now on, up to the last value.
    async fn resume(&mut self) -> Vec<String> {
        self.proxy.set_accept_mode(AcceptMode::Forward);
        let mut told = Vec::new();
        while told.last().map(String::as_str) != Some("third") {
            told.extend(text_of(&next(&mut self.observer).await));
        }
        assert_eq!(value(&self.writer, "k").await.as_deref(), Some("third"));
        told
    }

    fn end(self) {
        drop((self.observer, self.writer));
        self.disconnected_server.stop().unwrap();
        self.connected_server.stop().unwrap();
    }
}

fn text_of(told: &Observation) -> Option<String> {
    match told {
        Observation::Set { value, .. } => Some(String::from_utf8(value.to_vec()).unwrap()),
        _ => None,
    }
}

#[test]
fn a_broken_watch_resumes_at_its_revision() {
    block_on(async {
        let mut interrupted = InterruptedWatch::begin().await;
        assert_eq!(interrupted.resume().await, ["first", "second", "third"]);
        interrupted.end();
    });
}

#[test]
fn a_watch_restarts_after_compaction_of_its_revision() {
    block_on(async {
        let mut interrupted = InterruptedWatch::begin().await;
        let mut client = interrupted.etcd.client().await;
        let found = client.get("k", None).await.unwrap();
        let latest = found.header().unwrap().revision();
        client.compact(latest, None).await.unwrap();
        // The value before the last change is no longer available.
        assert_eq!(interrupted.resume().await, ["third"]);
        interrupted.end();
    });
}

#[test]
fn large_keys_of_other_programs_do_not_break_the_watch() {
    // All in one answer would be more than this program reads, and more than it asks for at once.
    const KEYS: usize = 140;
    let etcd = Etcd::start();
    let first = start(&etcd);
    block_on(async {
        let client = connect_to(&first).await;
        for number in 0..KEYS {
            let key = format!("large/{number}");
            client.set(key, vec![b'v'; 1_350_000]).await.unwrap();
        }
        let second = start(&etcd);
        let is_ready = || get(&second, "/readyz").starts_with("HTTP/1.1 200");
        until("the second server knows all changes", is_ready).await;
        let reader = connect_to(&second).await;
        let mut scan = reader.scan("large/*");
        let mut found = 0;
        while let Some(page) = scan.next_page().await.unwrap() {
            found += page.len();
        }
        assert_eq!(found, KEYS);
        let keys: Vec<_> = (0..KEYS).map(|number| format!("large/{number}")).collect();
        let got = reader.get_many(&keys).await.unwrap();
        assert_eq!(got.len(), KEYS);
        for entry in got {
            assert_eq!(entry.unwrap().value.len(), 1_350_000);
        }
        drop((client, reader));
        second.stop().unwrap();
    });
    first.stop().unwrap();
}
