//! Servers over one engine, one of which has a wall clock that is far ahead: processes, whose clocks `tests/disk` sets.
use super::{Engine, block_on, next, until};
use crate::disk::Disk;
use statestore::{
    Client, Condition, ErrorKind, Observation, Outcome, SetOptions, SetOutcome, Settings,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const HOUR_MS: u64 = 3_600_000;

/// A server with a clock of its own.
struct Server {
    child: Child,
    disk: Disk,
    _folder: TempDir,
    url: String,
    http: String,
}

impl Server {
    /// Starts a server whose clock is ahead by this many milliseconds.
    fn start(engine: &impl Engine, ahead_ms: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::under(folder.path());
        disk.set(&[("clock_ahead_ms", ahead_ms)]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_statestored"))
            .args(["--storage", &engine.url("test")])
            .args(["--listen", "tcp://127.0.0.1:0"])
            .args(["--http", "http://127.0.0.1:0", "--log", "warn"])
            .envs(disk.variables())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = |what: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(what).unwrap().to_owned()
        };
        Self {
            url: said("listening on tcp://"),
            http: said("http on "),
            child,
            disk,
            _folder: folder,
        }
    }

    fn set_clock(&self, ahead_ms: u64) {
        self.disk.set(&[("clock_ahead_ms", ahead_ms)]);
    }

    async fn client(&self) -> Client {
        let settings: Settings = format!("mqtt://{}", self.url).parse().unwrap();
        Client::connect(settings).await.unwrap()
    }

    fn get(&self, path: &str) -> String {
        let address = self.http.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address.trim_end_matches('/')).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    async fn is_ready(&self) {
        until("it is ready", || {
            self.get("/readyz").starts_with("HTTP/1.1 200")
        })
        .await;
    }

    async fn is_ahead(&self) {
        until("it says so", || self.get("/readyz").contains("clock_ahead")).await;
        let metrics = self.get("/metrics");
        assert!(
            metrics.contains("\nstatestored_engine_clock_refused 1\n"),
            "{metrics}"
        );
        let name = "statestored_engine_clock_ahead_seconds ";
        let ahead = metrics.lines().find_map(|line| line.strip_prefix(name));
        assert!(ahead.unwrap().parse::<u64>().unwrap() > 3_500, "{metrics}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

async fn version_ms(client: &Client, key: &str, value: &str) -> u64 {
    let outcome = client.set(key, value).await.unwrap();
    let SetOutcome::Applied { version } = outcome else {
        panic!("{outcome:?}");
    };
    version.wall_ms()
}

async fn assert_refused(client: &Client) {
    for error in [
        client.set("k", "of the future").await.unwrap_err(),
        client.del("k").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::TimestampSkew, "{error}");
        assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    }
    // Requests that change nothing are answered.
    let absent = SetOptions::new().condition(Condition::IfAbsent);
    let unmet = client.set_with("k", "other", &absent).await.unwrap();
    assert!(matches!(unmet, SetOutcome::NotApplied { .. }));
    assert!(client.get("k").await.unwrap().is_some());
}

/// Checks a node whose clock jumps, and a node that starts with such a clock.
pub(crate) fn a_server_with_a_fast_clock_assigns_no_versions_and_expires_nothing_early<
    E: Engine,
>() {
    let engine = E::start();
    let servers = [0, 0, 0].map(|ahead_ms| Server::start(&engine, ahead_ms));
    block_on(async {
        let [right, wrong, _] = &servers;
        for server in &servers {
            server.is_ready().await;
        }
        let (a, b) = (right.client().await, wrong.client().await);
        assert!(version_ms(&a, "k", "1").await < now_ms() + 60_000);
        let mut told = a.observe("brief").await.unwrap();
        // One entry whose age is known from the wall clock, and one that expires before the clock is right again.
        let options = |seconds| SetOptions::new().expires_in(Duration::from_secs(seconds));
        a.set_with("lock", "held", &options(1_200)).await.unwrap();
        a.set_with("brief", "held", &options(2)).await.unwrap();

        wrong.set_clock(HOUR_MS);
        wrong.is_ahead().await;
        assert_refused(&b).await;
        assert!(b.get("lock").await.unwrap().is_some());
        let begun = Server::start(&engine, HOUR_MS);
        begun.is_ahead().await;
        let c = begun.client().await;
        assert_refused(&c).await;
        assert!(c.get("lock").await.unwrap().is_some());
        // Another server reports its end, with a version of a correct clock.
        loop {
            if let Observation::Deleted { version } = next(&mut told).await {
                assert!(version.unwrap().wall_ms() < now_ms() + 60_000);
                break;
            }
        }
        for key in ["k", "other"] {
            assert!(version_ms(&a, key, "2").await < now_ms() + 60_000);
        }
        assert!(a.get("lock").await.unwrap().is_some());
        assert!(
            right
                .get("/metrics")
                .contains("\nstatestored_engine_clock_refused 0\n"),
            "the others go on"
        );

        wrong.set_clock(0);
        begun.set_clock(0);
        for (server, client) in [(wrong, &b), (&begun, &c)] {
            server.is_ready().await;
            assert!(version_ms(client, "k", "3").await < now_ms() + 60_000);
        }
    });
}

/// Checks that a server notices a clock step without another server to compare with.
pub(crate) fn a_single_server_detects_a_clock_step<E: Engine>() {
    let engine = E::start();
    let server = Server::start(&engine, 0);
    block_on(async {
        server.is_ready().await;
        let client = server.client().await;
        client.set("k", "1").await.unwrap();
        server.set_clock(HOUR_MS);
        server.is_ahead().await;
        assert_refused(&client).await;
        server.set_clock(0);
        server.is_ready().await;
        assert!(version_ms(&client, "k", "2").await < now_ms() + 60_000);
    });
}
