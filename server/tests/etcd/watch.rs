//! Events of etcd's watch across lost connections, and large responses.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, block_on, client_of, get, next, start, until, value};
use faults::proxy::{Admission, Cut, Proxy};
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
struct Interrupted {
    etcd: Etcd,
    proxy: Proxy,
    cut_off: RunningServer,
    beside: RunningServer,
    writer: Client,
    observer: Observer,
}

impl Interrupted {
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
        let (reader, writer) = (client_of(&cut_off).await, client_of(&beside).await);
        let all = ObserveOptions::new().overflow(Overflow::All(10));
        let mut observer = reader.observe_with("k", &all).await.unwrap();
        writer.set("k", "before").await.unwrap();
        while text_of(&next(&mut observer).await).as_deref() != Some("before") {}
        proxy.admit(Admission::Refuse);
        proxy.cut(Cut::Reset);
        for text in ["first", "second", "third"] {
            writer.set("k", text).await.unwrap();
        }
        Self {
            etcd,
            proxy,
            cut_off,
            beside,
            writer,
            observer,
        }
    }

    /// Returns the observer's events from now on, up to the last value.
    async fn go_on(&mut self) -> Vec<String> {
        self.proxy.admit(Admission::Forward);
        let mut told = Vec::new();
        while told.last().map(String::as_str) != Some("third") {
            told.extend(text_of(&next(&mut self.observer).await));
        }
        assert_eq!(value(&self.writer, "k").await.as_deref(), Some("third"));
        told
    }

    fn end(self) {
        drop((self.observer, self.writer));
        self.cut_off.stop().unwrap();
        self.beside.stop().unwrap();
    }
}

fn text_of(told: &Observation) -> Option<String> {
    match told {
        Observation::Set { value, .. } => Some(String::from_utf8(value.to_vec()).unwrap()),
        _ => None,
    }
}

#[test]
fn a_watch_that_broke_goes_on_where_it_was() {
    block_on(async {
        let mut interrupted = Interrupted::begin().await;
        assert_eq!(interrupted.go_on().await, ["first", "second", "third"]);
        interrupted.end();
    });
}

#[test]
fn a_watch_whose_changes_were_compacted_is_begun_anew() {
    block_on(async {
        let mut interrupted = Interrupted::begin().await;
        let mut client = interrupted.etcd.client().await;
        let found = client.get("k", None).await.unwrap();
        let latest = found.header().unwrap().revision();
        client.compact(latest, None).await.unwrap();
        // The value before the last change is no longer available.
        assert_eq!(interrupted.go_on().await, ["third"]);
        interrupted.end();
    });
}

#[test]
fn neighbours_may_be_as_large_as_they_like() {
    // All in one answer would be more than this program reads, and more than it asks for at once.
    const KEYS: usize = 140;
    let etcd = Etcd::start();
    let first = start(&etcd);
    block_on(async {
        let client = client_of(&first).await;
        for number in 0..KEYS {
            let key = format!("large/{number}");
            client.set(key, vec![b'v'; 1_350_000]).await.unwrap();
        }
        let second = start(&etcd);
        let is_ready = || get(&second, "/readyz").starts_with("HTTP/1.1 200");
        until("the second server knows all changes", is_ready).await;
        let reader = client_of(&second).await;
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
