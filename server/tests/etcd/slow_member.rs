//! A member of etcd that answers, but much later than the others.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, block_on, connect_to, until};
use harness::{Direction, Proxy};
use statestore::{Client, Observation};
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use statestored_etcd::EtcdConfig;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

const MEMBERS: usize = 3;

/// Delay of the slow member in each direction. Data that arrives meanwhile is delayed next, so an answer takes 0.9 to 1.8 s: less than the
/// two seconds after which a request counts as unanswered.
const DELAY: Duration = Duration::from_millis(450);

/// Time after which the rates have to be as before.
const NOTICED: Duration = Duration::from_secs(3);

/// Time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(2);

/// Minimum part of the former rate.
const MIN_PART: f64 = 0.8;

/// Maximum number of measurements: on a busy machine, rates differ from one moment to the next.
const MAX_ATTEMPTS: usize = 5;

/// Bytes of requests that show that a member is in service.
const USED_BYTES: usize = 50_000;

/// Clients of each server that send requests, and that wait for a notification of the other server.
const CLIENTS: usize = 6;
const RELAYS: usize = 2;

/// One etcd behind several proxies, each of which is a member to the servers.
struct Members(Vec<Proxy>);

impl Members {
    async fn of(etcd: &Etcd) -> Self {
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            members.push(Proxy::start(([127, 0, 0, 1], etcd.port).into()).await);
        }
        Self(members)
    }

    async fn start_server(&self) -> RunningServer {
        let endpoints = self.0.iter().map(|it| format!("http://{}", it.address()));
        let storage = EtcdConfig {
            endpoints: endpoints.collect(),
            prefix: "test".into(),
            tls: None,
            user: None,
            history: None,
        };
        let config = Config {
            storage: StorageConfig::Etcd(storage),
            ..Config::in_memory()
        };
        // The proxies run on this thread.
        let starting = spawn_blocking(|| RunningServer::start(config).unwrap());
        starting.await.unwrap()
    }

    /// Waits until a member gets requests.
    async fn until_used(&self, member: usize) {
        let requests = || self.0[member].received(Direction::ToServer);
        let before = requests();
        until("the member gets requests", || {
            requests() > before + USED_BYTES
        })
        .await;
    }
}

/// Number of answered requests, and of notifications that each server sent of changes which the other one made.
#[derive(Default)]
struct Counts {
    is_over: Cell<bool>,
    answered: Cell<u32>,
    notified: [Cell<u32>; 2],
}

impl Counts {
    fn current(&self) -> [u32; 3] {
        let [first, second] = &self.notified;
        [self.answered.get(), first.get(), second.get()]
    }

    /// Returns all rates per second.
    async fn rates(&self) -> [f64; 3] {
        let (begun, before) = (Instant::now(), self.current());
        sleep(WINDOW).await;
        let (seconds, after) = (begun.elapsed().as_secs_f64(), self.current());
        [0, 1, 2].map(|kind| f64::from(after[kind] - before[kind]) / seconds)
    }
}

async fn send_requests(client: Client, key: String, counts: Rc<Counts>) {
    for round in 0_u64.. {
        if counts.is_over.get() {
            return;
        }
        let done = if round % 2 == 0 {
            client.set(&key, round.to_string()).await.map(drop)
        } else {
            client.get(&key).await.map(drop)
        };
        if done.is_ok() {
            counts.answered.set(counts.answered.get() + 1);
        }
    }
}

/// Changes a key at one server, and waits for the notification by the other one, again and again.
async fn relay(writer: Client, (reader, number): (Client, usize), key: String, counts: Rc<Counts>) {
    let notified = &counts.notified[number];
    let mut observer = reader.observe(&key).await.unwrap();
    for round in 0_u64.. {
        if counts.is_over.get() {
            return;
        }
        let sent = round.to_string();
        if writer.set(&key, sent.clone()).await.is_err() {
            continue;
        }
        let is_sent =
            |it: &Observation| matches!(it, Observation::Set { value, .. } if *value == sent);
        while !is_sent(&observer.next().await.unwrap()) {}
        notified.set(notified.get() + 1);
    }
}

#[test]
fn all_rates_return_while_one_of_three_members_is_slow() {
    let etcd = Etcd::start();
    block_on(async {
        let members = Members::of(&etcd).await;
        let servers = [members.start_server().await, members.start_server().await];
        let counts = Rc::new(Counts::default());
        let mut load = JoinSet::new();
        for (number, server) in servers.iter().enumerate() {
            for client in 0..CLIENTS {
                let key = format!("requests-{number}-{client}");
                let client = connect_to(server).await;
                load.spawn_local(send_requests(client, key, Rc::clone(&counts)));
            }
            for client in 0..RELAYS {
                let key = format!("relay-{number}-{client}");
                let writer = connect_to(&servers[1 - number]).await;
                let reader = connect_to(server).await;
                load.spawn_local(relay(writer, (reader, number), key, Rc::clone(&counts)));
            }
        }
        for (slow, member) in members.0.iter().enumerate() {
            for attempt in 1.. {
                members.until_used(slow).await;
                let before = counts.rates().await;
                let connections = member.connections();
                member.set_delay(DELAY);
                sleep(NOTICED).await;
                let during = counts.rates().await;
                println!(
                    "member {slow}: {before:.0?} per second before, {during:.0?} while it is slow"
                );
                // A member that is avoided is tried over another connection.
                until("the slow member is avoided", || {
                    member.connections() > connections
                })
                .await;
                member.set_delay(Duration::ZERO);
                let parts = [0, 1, 2].map(|kind| during[kind] / before[kind]);
                if parts.iter().all(|part| *part >= MIN_PART) {
                    break;
                }
                assert!(
                    attempt < MAX_ATTEMPTS,
                    "member {slow}: {parts:.2?} of the former rates"
                );
            }
        }
        counts.is_over.set(true);
        while let Some(ended) = load.join_next().await {
            ended.unwrap();
        }
        for server in servers {
            let stopping = spawn_blocking(|| server.stop().unwrap());
            stopping.await.unwrap();
        }
    });
}
