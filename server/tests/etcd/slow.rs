//! Members that answer, but much later than others.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, LONG, block_on, client_of};
use faults::{Direction, Proxy};
use futures_util::stream::{self, StreamExt};
use statestore::Client;
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use statestored::keyspace::remote::etcd::EtcdConfig;
use std::time::{Duration, Instant};

const MEMBERS: usize = 3;

/// Delay in each direction: answers take twice as long.
const DELAY: Duration = Duration::from_millis(750);

const VALUE_BYTES: usize = 20_000;

/// Number of writes that wait for their answer.
const AT_ONCE: usize = 8;

/// One etcd behind several proxies, each of which is a member to the server.
struct Members(Vec<Proxy>);

impl Members {
    async fn of(etcd: &Etcd) -> Self {
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            members.push(Proxy::start(([127, 0, 0, 1], etcd.port).into()).await);
        }
        Self(members)
    }

    fn config(&self) -> Config {
        let endpoints = self.0.iter().map(|it| format!("http://{}", it.address()));
        let storage = EtcdConfig {
            endpoints: endpoints.collect(),
            prefix: "test".into(),
            tls: None,
            user: None,
            history: None,
        };
        Config {
            storage: StorageConfig::Etcd(storage),
            ..Config::in_memory()
        }
    }

    /// Bytes of requests to a member so far.
    fn asked(&self, member: usize) -> usize {
        self.0[member].passed(Direction::ToServer)
    }

    /// Bytes of requests, answers and changes so far.
    fn passed(&self, member: usize) -> usize {
        self.asked(member) + self.0[member].passed(Direction::ToClient)
    }

    /// Writes until a member gets its share of the writes.
    async fn until_used(&self, client: &Client, member: usize) {
        let (before, begun) = (self.asked(member), Instant::now());
        while self.asked(member) < before + 2 * VALUE_BYTES {
            assert!(begun.elapsed() < LONG, "member {member} gets no requests");
            write(client, AT_ONCE).await;
        }
    }
}

/// Writes this number of large values, each until it succeeds.
async fn write(client: &Client, writes: usize) {
    let sets = (0..writes).map(|number| async move {
        let key = format!("k{}", number % AT_ONCE);
        let begun = Instant::now();
        while let Err(error) = client.set(&key, vec![b'v'; VALUE_BYTES]).await {
            assert!(error.is_retryable() && begun.elapsed() < LONG, "{error}");
        }
    });
    stream::iter(sets)
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
}

#[test]
fn a_slow_member_gets_neither_requests_nor_the_watch_while_others_answer() {
    const WRITES: usize = 200;
    let etcd = Etcd::start();
    block_on(async {
        let members = Members::of(&etcd).await;
        let config = members.config();
        let starting = tokio::task::spawn_blocking(|| RunningServer::start(config).unwrap());
        let server = starting.await.unwrap();
        let client = client_of(&server).await;
        for member in 0..MEMBERS {
            members.until_used(&client, member).await;
        }
        for slow in 0..MEMBERS {
            let proxy = &members.0[slow];
            let connections = proxy.connections();
            proxy.set_delay(DELAY);
            // Once a member is avoided, it is tried on another connection.
            let begun = Instant::now();
            while proxy.connections() == connections {
                assert!(begun.elapsed() < LONG, "member {slow} is not avoided");
                write(&client, AT_ONCE).await;
            }
            let before = members.passed(slow);
            write(&client, WRITES).await;
            let passed = members.passed(slow) - before;
            println!("member {slow}: {passed} bytes while it was slow");
            assert!(passed < WRITES * VALUE_BYTES / 10, "{passed} bytes");
            proxy.set_delay(Duration::ZERO);
            members.until_used(&client, slow).await;
        }
        server.stop().unwrap();
    });
}
