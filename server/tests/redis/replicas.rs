//! A replica that takes over.
use crate::elsewhere::{Engine, LONG, block_on, connect_to, get, until, value};
use crate::server::Redis;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use harness::{AcceptMode, CutKind, Proxy};
use statestore::{Client, Condition, ScanOptions, SetOptions, SetOutcome};
use statestored::RunningServer;
use statestored::admin::AdminConfig;
use statestored::config::{Config, StorageConfig};
use statestored_redis::RedisConfig;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn server(config: RedisConfig) -> RunningServer {
    let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), None).unwrap();
    RunningServer::start(Config {
        storage: StorageConfig::Redis(config),
        admin: Some(admin),
        ..Config::in_memory()
    })
    .unwrap()
}

/// Writes until it succeeds.
async fn write(client: &Client, key: &str, value: &str) {
    let end = Instant::now() + LONG;
    while let Err(error) = client.set(key, value).await {
        assert!(error.is_retryable() && Instant::now() < end, "{error}");
    }
}

#[test]
fn a_promoted_replica_is_found_and_used() {
    let mut master = Redis::start();
    let replica = Redis::replica_of(master.port);
    let server = server(RedisConfig {
        addresses: vec![
            ("127.0.0.1".into(), replica.port),
            ("127.0.0.1".into(), master.port),
        ],
        replicas: 1,
        ..master.redis_config("test")
    });
    block_on(async {
        let client = connect_to(&server).await;
        let absent = SetOptions::new().condition(Condition::IfAbsent);
        for number in 0..50 {
            client.set(format!("k{number}"), "1").await.unwrap();
        }
        master.kill();
        let () = replica.run("REPLICAOF NO ONE");
        // No replica confirms any more: a server that waits for a confirmation would wait for ever.
        let second = Redis::replica_of(replica.port);
        write(&client, "after", "1").await;
        // Writes that a replica had confirmed are present.
        for number in 0..50 {
            let again = client.set_with(format!("k{number}"), "2", &absent).await;
            assert!(matches!(again.unwrap(), SetOutcome::NotApplied { .. }));
        }
        let metrics = get(&server, "/metrics");
        assert!(
            metrics.contains("\nstatestored_engine_reversions_total 1\n"),
            "{metrics}"
        );
        drop(second);
    });
    server.stop().unwrap();
}

#[test]
fn writes_without_enough_replicas_are_not_acknowledged() {
    let master = Redis::start();
    let server = server(RedisConfig {
        replicas: 1,
        ..master.redis_config("test")
    });
    block_on(async {
        let client = connect_to(&server).await;
        let soon = Duration::from_secs(1);
        let options = SetOptions::new().timeout(soon);
        let error = client.set_with("k", "1", &options).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let replica = Redis::replica_of(master.port);
        write(&client, "k", "2").await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("2"));
        let scanned = client.scan("k").next_page().await.unwrap();
        assert_eq!(scanned.map(|keys| keys.len()), Some(1));
        drop(replica);
        let mut scan = client.scan_with("k", ScanOptions::new().timeout(soon));
        let error = scan.next_page().await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
    });
    server.stop().unwrap();
}

/// How long each piece of what is replicated is on its way, one behind the other.
const DELAY: Duration = Duration::from_millis(5);

/// Kills a master while a client writes, and lets its replica take over. Returns the number of acknowledged writes, and the number of those
/// that are lost.
async fn lost_by_kill(confirming: u32) -> (usize, usize) {
    let mut master = Redis::start();
    let slow = Proxy::start(([127, 0, 0, 1], master.port).into()).await;
    slow.set_delay(DELAY);
    let port = slow.address().port();
    let following = tokio::task::spawn_blocking(move || Redis::replica_of(port));
    let replica = following.await.unwrap();
    let server = server(RedisConfig {
        addresses: vec![
            ("127.0.0.1".into(), replica.port),
            ("127.0.0.1".into(), master.port),
        ],
        replicas: confirming,
        ..master.redis_config("test")
    });
    let has_store = || replica.run::<i64>("EXISTS {test}:manifest") == 1;
    until("the replica has the store", has_store).await;
    let client = connect_to(&server).await;
    let mut acknowledged = Vec::new();
    let mut next = 0;
    // Some are in flight at any time, and when it is killed.
    let mut sets = FuturesUnordered::new();
    while acknowledged.len() < 2_000 {
        while sets.len() < 64 {
            let key = format!("k{next}");
            next += 1;
            let client = client.clone();
            sets.push(async move { (client.set(key.clone(), "1").await, key) });
        }
        if let Some((outcome, key)) = sets.next().await {
            outcome.unwrap();
            acknowledged.push(key);
        }
    }
    slow.set_accept_mode(AcceptMode::Reset);
    slow.cut(CutKind::Reset);
    master.kill();
    let () = replica.run("REPLICAOF NO ONE");
    // Otherwise no replica would confirm.
    let port = replica.port;
    let following = tokio::task::spawn_blocking(move || Redis::replica_of(port));
    let second = following.await.unwrap();
    while let Some((outcome, key)) = sets.next().await {
        if outcome.is_ok() {
            acknowledged.push(key);
        }
    }
    write(&client, "after", "1").await;
    let mut lost = 0;
    for some in acknowledged.chunks(250) {
        let entries = client.get_many(some).await.unwrap();
        lost += entries.iter().filter(|entry| entry.is_none()).count();
    }
    drop(second);
    server.stop().unwrap();
    (acknowledged.len(), lost)
}

/// `REDIS_KILLS` says how often.
#[test]
fn writes_confirmed_by_a_replica_survive_failover() {
    let kills = std::env::var("REDIS_KILLS").map_or(1, |kills| kills.parse().unwrap());
    block_on(async {
        let mut confirmed = 0;
        let mut losses = Vec::new();
        for _ in 0..kills {
            let (acknowledged, lost) = lost_by_kill(1).await;
            assert_eq!(lost, 0, "of {acknowledged}");
            confirmed += acknowledged;
            losses.push(lost_by_kill(0).await.1);
        }
        // A busy machine may leave nothing to lose. If nothing ever was, nothing was tried.
        while losses.iter().all(|lost| *lost == 0) {
            assert!(losses.len() < kills + 10, "nothing is ever lost");
            losses.push(lost_by_kill(0).await.1);
        }
        losses.sort_unstable();
        println!(
            "{kills} kills, replication {DELAY:?} late: of {confirmed} confirmed writes 0 lost; without confirmation {losses:?}"
        );
    });
}

/// A process that names the master; killed when it is dropped.
struct Sentinel {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Sentinel {
    fn of(master: &Redis) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..10 {
            let port = harness::free_port();
            let path = folder.path().join("sentinel.conf");
            let mut file = std::fs::File::create(&path).unwrap();
            writeln!(file, "bind 127.0.0.1\nport {port}").unwrap();
            writeln!(file, "sentinel monitor plant 127.0.0.1 {} 1", master.port).unwrap();
            writeln!(file, "sentinel down-after-milliseconds plant 500").unwrap();
            drop(file);
            let mut child = Command::new("redis-server")
                .arg(&path)
                .arg("--sentinel")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            if crate::elsewhere::wait_until_listening(&mut child, port) {
                return Self {
                    child,
                    port,
                    _folder: folder,
                };
            }
        }
        panic!("no sentinel starts");
    }

    fn query(&self, what: &str) -> String {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut command = redis::cmd("INFO");
        let answer: String = command
            .arg(what)
            .query(&mut client.get_connection().unwrap())
            .unwrap();
        answer
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sentinels_name_the_master() {
    let mut master = Redis::start();
    let replica = Redis::replica_of(master.port);
    let sentinel = Sentinel::of(&master);
    let server = server(RedisConfig {
        addresses: vec![("127.0.0.1".into(), sentinel.port)],
        master: Some("plant".into()),
        ..master.redis_config("test")
    });
    block_on(async {
        let knows = || sentinel.query("sentinel").contains("slaves=1");
        until("the sentinel knows the replica", knows).await;
        let client = connect_to(&server).await;
        client.set("k", "1").await.unwrap();
        let has_it = || replica.run::<i64>("EXISTS {test}:changes") == 1;
        until("the replica has it", has_it).await;
        master.kill();
        write(&client, "k", "2").await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("2"));
    });
    server.stop().unwrap();
}

/// Listeners that accept connections and never answer.
const SILENT: u32 = 16;

/// Time until a request to one of them counts as unanswered. All of them one after the other would take as long as no busy machine does.
const UNANSWERED: Duration = Duration::from_secs(2);

/// The time that a server takes to start over addresses of which only the last one answers.
fn start_behind_silent_ones(answering: u16, config: RedisConfig) -> Duration {
    let silent = (0..SILENT).map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let silent: Vec<_> = silent.collect();
    let ports = silent.iter().map(|it| it.local_addr().unwrap().port());
    let addresses = ports.chain([answering]);
    let began = Instant::now();
    let server = server(RedisConfig {
        addresses: addresses.map(|port| ("127.0.0.1".into(), port)).collect(),
        ..config
    });
    let took = began.elapsed();
    block_on(async { write(&connect_to(&server).await, "k", "1").await });
    server.stop().unwrap();
    took
}

#[test]
fn unresponsive_addresses_do_not_delay_a_responsive_one() {
    let master = Redis::start();
    let took = start_behind_silent_ones(master.port, master.redis_config("test"));
    assert!(took < SILENT * UNANSWERED, "{took:?}");
}

#[test]
fn unresponsive_sentinels_do_not_delay_a_responsive_one() {
    let master = Redis::start();
    let sentinel = Sentinel::of(&master);
    let config = RedisConfig {
        master: Some("plant".into()),
        ..master.redis_config("test")
    };
    let took = start_behind_silent_ones(sentinel.port, config);
    assert!(took < SILENT * UNANSWERED, "{took:?}");
}
