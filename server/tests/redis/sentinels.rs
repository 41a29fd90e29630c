//! Sentinels that disagree about the master after a failover, or do not answer.
use crate::elsewhere::{Engine, LONG, block_on, connect_to, until, value};
use crate::server::Redis;
use statestore::Client;
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use statestored_redis::RedisConfig;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};

/// A sentinel that names a master, or does not answer.
struct Sentinel {
    port: u16,
    /// The port of the master; `None` while the sentinel does not answer.
    master: Rc<Cell<Option<u16>>>,
    /// Number of questions for the master.
    asked: Rc<Cell<usize>>,
    serving: JoinHandle<()>,
}

impl Sentinel {
    async fn naming(master: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (master, asked) = (Rc::new(Cell::new(Some(master))), Rc::default());
        let serving = spawn_local(serve(listener, Rc::clone(&master), Rc::clone(&asked)));
        Self {
            port,
            master,
            asked,
            serving,
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, master: Rc<Cell<Option<u16>>>, asked: Rc<Cell<usize>>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (master, asked) = (Rc::clone(&master), Rc::clone(&asked));
        // The client may close the connection at any time.
        connections.spawn_local(async move { answer(stream, &master, &asked).await.ok() });
    }
}

async fn answer(
    stream: TcpStream,
    master: &Cell<Option<u16>>,
    asked: &Cell<usize>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let words = words(&mut stream).await?;
        let Some(master) = master.get() else {
            continue;
        };
        let answer = if words[0].eq_ignore_ascii_case("SENTINEL") {
            assert!(words[1].eq_ignore_ascii_case("GET-MASTER-ADDR-BY-NAME"));
            assert_eq!(words[2], "plant");
            asked.set(asked.get() + 1);
            let port = master.to_string();
            format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
        } else {
            "-ERR unknown command\r\n".to_owned()
        };
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Reads the words of the next command.
async fn words(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..length(stream, '*').await? {
        let mut word = vec![0; length(stream, '$').await? + 2];
        stream.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).unwrap());
    }
    Ok(words)
}

async fn length(stream: &mut BufReader<TcpStream>, kind: char) -> std::io::Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().strip_prefix(kind).unwrap().parse().unwrap())
}

/// State of the former master after the failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Former {
    Killed,
    Stopped,
    Replica,
}

/// Answer of one of the two sentinels after the failover; the other one names the new master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Silent,
    FormerMaster,
}

/// Writes until it succeeds.
async fn write(client: &Client, value: &str) {
    let end = Instant::now() + LONG;
    while let Err(error) = client.set("k", value).await {
        assert!(error.is_retryable() && Instant::now() < end, "{error}");
    }
}

async fn start_server(sentinels: &[Sentinel], master: &Redis) -> RunningServer {
    let ports = sentinels.iter().map(|it| it.port);
    let config = RedisConfig {
        addresses: ports.map(|port| ("127.0.0.1".into(), port)).collect(),
        master: Some("plant".into()),
        ..master.redis_config("test")
    };
    let config = Config {
        storage: StorageConfig::Redis(config),
        ..Config::in_memory()
    };
    // The sentinels answer meanwhile.
    let starting = tokio::task::spawn_blocking(|| RunningServer::start(config).unwrap());
    starting.await.unwrap()
}

async fn fails_over(former: Former, wrong: Wrong, place: usize) {
    println!("sentinel {place}: {wrong:?}, the former master: {former:?}");
    let mut master = Redis::start();
    let replica = Redis::replica_of(master.port);
    let sentinels = [
        Sentinel::naming(master.port).await,
        Sentinel::naming(master.port).await,
    ];
    let server = start_server(&sentinels, &master).await;
    let client = connect_to(&server).await;
    write(&client, "1").await;
    let has_it = || replica.run::<i64>("EXISTS {test}:changes") == 1;
    until("the replica has it", has_it).await;

    if wrong == Wrong::Silent {
        sentinels[place].master.set(None);
    }
    let other = &sentinels[1 - place];
    other.master.set(Some(replica.port));
    let before = other.asked.get();
    match former {
        Former::Killed => master.kill(),
        Former::Stopped => master.pause(),
        Former::Replica => {}
    }
    let () = replica.run("REPLICAOF NO ONE");
    if former == Former::Replica {
        let () = master.run(&format!("REPLICAOF 127.0.0.1 {}", replica.port));
    }
    write(&client, "2").await;
    assert_eq!(value(&client, "k").await.as_deref(), Some("2"));
    assert!(other.asked.get() > before);
    server.stop().unwrap();
}

#[test]
fn the_master_that_one_sentinel_names_is_followed_while_another_does_not_answer() {
    block_on(async {
        for former in [Former::Killed, Former::Stopped, Former::Replica] {
            for place in [0, 1] {
                fails_over(former, Wrong::Silent, place).await;
            }
        }
    });
}

#[test]
fn the_master_that_one_sentinel_names_is_followed_while_another_names_the_former_one() {
    block_on(async {
        for former in [Former::Killed, Former::Stopped, Former::Replica] {
            for place in [0, 1] {
                fails_over(former, Wrong::FormerMaster, place).await;
            }
        }
    });
}

/// Number of the times that a server asks a sentinel, after which it would have left a master that this sentinel alone no longer names.
const CHECKS: usize = 3;

#[test]
fn a_former_master_that_still_takes_writes_is_left_when_most_sentinels_name_another() {
    block_on(async {
        let master = Redis::start();
        let replica = Redis::replica_of(master.port);
        let sentinels = [
            Sentinel::naming(master.port).await,
            Sentinel::naming(master.port).await,
            Sentinel::naming(master.port).await,
        ];
        let server = start_server(&sentinels, &master).await;
        let client = connect_to(&server).await;
        write(&client, "1").await;
        let revision = |redis: &Redis| redis.run::<u64>("GET {test}:revision");
        let has_it = || replica.run::<i64>("EXISTS {test}:changes") == 1;
        until("the replica has it", has_it).await;
        let () = replica.run("REPLICAOF NO ONE");
        let before = revision(&replica);

        sentinels[0].master.set(Some(replica.port));
        let asked = sentinels[0].asked.get();
        let is_checked = || sentinels[0].asked.get() >= asked + CHECKS;
        until("the sentinels are asked again", is_checked).await;
        let at_master = revision(&master);
        write(&client, "2").await;
        assert!(revision(&master) > at_master && revision(&replica) == before);

        sentinels[1].master.set(Some(replica.port));
        until("the former master is left", || revision(&replica) > before).await;
        write(&client, "3").await;
        let at_master = revision(&master);
        write(&client, "4").await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("4"));
        assert_eq!(revision(&master), at_master);
        server.stop().unwrap();
    });
}
