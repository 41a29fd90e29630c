//! A cluster of three masters: one of them has the slot of the store, and gives it to another one.
use crate::elsewhere::{LONG, block_on, connect_to, get, next, until, value};
use crate::server::Redis;
use harness::free_port;
use statestore::{Client, Observation};
use statestored::RunningServer;
use statestored::admin::AdminConfig;
use statestored::config::{Config, StorageConfig};
use statestored_redis::RedisConfig;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

/// The initial slots of each of the three members.
const SLOTS: [&str; 3] = ["0 5460", "5461 10922", "10923 16383"];

struct Members([Redis; 3]);

impl Members {
    async fn start() -> Self {
        // The default is 10,000 above the port of the member, where outgoing connections have their ports.
        let bus_ports: [_; 3] = std::array::from_fn(|_| free_port().to_string());
        let members = Self(
            bus_ports
                .each_ref()
                .map(|port| Redis::with(&["--cluster-enabled", "yes", "--cluster-port", port])),
        );
        for (member, slots) in members.0.iter().zip(SLOTS) {
            let () = member.run(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
            let (first, bus_port) = (members.0[0].port, &bus_ports[0]);
            let () = member.run(&format!("CLUSTER MEET 127.0.0.1 {first} {bus_port}"));
        }
        let knows_all = |member: &Redis| {
            let info: String = member.run("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        until("they are a cluster", || members.0.iter().all(knows_all)).await;
        members
    }

    fn config(&self) -> RedisConfig {
        let ports = self.0.iter().map(|member| member.port);
        RedisConfig {
            addresses: ports.map(|port| ("127.0.0.1".into(), port)).collect(),
            ..self.0[0].redis_config("test")
        }
    }

    /// Returns the member that has the store.
    fn owner(&self) -> usize {
        let has_it = |member: &Redis| {
            let mine: Vec<String> = member.run("KEYS {test}:manifest");
            !mine.is_empty()
        };
        self.0.iter().position(has_it).unwrap()
    }

    /// Moves the slot of the store, as `redis-cli --cluster reshard` does: one key after the other.
    async fn move_slot(&self, from: usize, to: usize) {
        let slot: u16 = self.0[from].run("CLUSTER KEYSLOT {test}:manifest");
        let id = |member: usize| self.0[member].run::<String>("CLUSTER MYID");
        let () = self.0[to].run(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
        let () = self.0[from].run(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
        loop {
            let keys: Vec<String> = self.0[from].run(&format!("CLUSTER GETKEYSINSLOT {slot} 3"));
            if keys.is_empty() {
                break;
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(self.0[to].port).arg("");
            migrate.arg(0).arg(5_000).arg("KEYS").arg(&keys);
            let () = migrate.query(&mut self.0[from].connection()).unwrap();
            // Others go on in between.
            tokio::task::yield_now().await;
        }
        for member in [to, from, 3 - to - from] {
            let () = self.0[member].run(&format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
        }
    }
}

/// Writes one number after the other to a key until `is_over`. Returns the last that was acknowledged.
async fn write_on(client: Client, is_over: Rc<Cell<bool>>) -> u64 {
    let mut acknowledged = 0;
    let mut number = 0;
    while !is_over.get() {
        number += 1;
        let key = format!("k{}", number % 50);
        match client.set(key, number.to_string()).await {
            Ok(_) => acknowledged = number,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    acknowledged
}

#[test]
fn the_store_survives_the_migration_of_its_slot() {
    block_on(async {
        let members = Members::start().await;
        let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), None).unwrap();
        let server = RunningServer::start(Config {
            storage: StorageConfig::Redis(members.config()),
            admin: Some(admin),
            ..Config::in_memory()
        })
        .unwrap();
        let client = connect_to(&server).await;
        for number in 0..200 {
            client.set(format!("kept{number}"), "1").await.unwrap();
        }
        let mut told = client.observe("last").await.unwrap();
        let from = members.owner();
        for to in [(from + 1) % 3, (from + 2) % 3] {
            let from = members.owner();
            let is_over = Rc::new(Cell::new(false));
            let writing = write_on(connect_to(&server).await, Rc::clone(&is_over));
            let writing = tokio::task::spawn_local(writing);
            members.move_slot(from, to).await;
            assert_eq!(members.owner(), to);
            let end = Instant::now() + LONG;
            let word = format!("at {to}");
            while let Err(error) = client.set("last", word.clone()).await {
                assert!(error.is_retryable() && Instant::now() < end, "{error}");
            }
            is_over.set(true);
            let last = writing.await.unwrap();
            let found = value(&client, &format!("k{}", last % 50)).await.unwrap();
            assert!(found.parse::<u64>().unwrap() >= last, "{found} of {last}");
            for number in 0..200 {
                let kept = value(&client, &format!("kept{number}")).await;
                assert_eq!(kept.as_deref(), Some("1"));
            }
            let is_told = |change: &Observation| matches!(change, Observation::Set { value, .. } if value[..] == *word.as_bytes());
            while !is_told(&next(&mut told).await) {}
        }
        let is_ready = || get(&server, "/readyz").starts_with("HTTP/1.1 200");
        until("it is ready", is_ready).await;
        server.stop().unwrap();
    });
}
