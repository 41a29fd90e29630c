//! Cost of monitoring: requests to a server without an HTTP port, with metrics that are read each second, and with an open page as
//! well.
//!
//! `cargo bench -p statestored --bench watched`
//!
//! The servers are measured in turns, and a ratio is that of two within one round: a shared machine may be twice as fast a minute
//! later.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "rates are read by people")]
use futures_util::future::join_all;
use statestore::{Client, Settings};
use statestored::RunningServer;
use statestored::admin::AdminConfig;
use statestored::config::Config;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 21;
const ROUND: Duration = Duration::from_secs(1);
/// How often metrics are read; monitoring does it every 15 seconds or so.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// How a server is monitored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Monitoring {
    /// No monitoring: there is no HTTP port.
    Off,
    /// The metrics are read each second.
    Scraped,
    /// As above, and the page is open.
    PageOpen,
}

fn start(watched: Monitoring) -> RunningServer {
    let mut config = Config::in_memory();
    if watched != Monitoring::Off {
        let address = "http://127.0.0.1:0".parse().unwrap();
        config.admin = Some(AdminConfig::new(address, None).unwrap());
    }
    RunningServer::start(config).unwrap()
}

fn send_get(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads the metrics until `end` is signalled.
fn scrape(address: SocketAddr, end: &Receiver<()>) {
    while end.recv_timeout(SCRAPE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let mut answer = String::new();
        send_get(address, "/metrics")
            .read_to_string(&mut answer)
            .unwrap();
        assert!(answer.contains("statestored_requests_total"), "{answer}");
    }
}

/// Reads the events of an open page until the server ends.
fn read_events(address: SocketAddr) {
    let mut stream = send_get(address, "/events");
    let mut part = [0; 16 * 1024];
    while stream.read(&mut part).is_ok_and(|count| count > 0) {}
}

/// Responses per second, half of them to SETs.
async fn rate(client: &Client) -> f64 {
    let done = Cell::new(0_u64);
    let begun = Instant::now();
    let lane = |number: usize| {
        let done = &done;
        async move {
            let key = format!("key-{number}");
            while begun.elapsed() < ROUND {
                client.set(key.as_str(), vec![b'v'; 100]).await.unwrap();
                client.get(key.as_str()).await.unwrap();
                done.set(done.get() + 2);
            }
        }
    };
    join_all((0..IN_FLIGHT).map(lane)).await;
    done.get() as f64 / begun.elapsed().as_secs_f64()
}

/// The median, lowest and highest of the values.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
    ]
}

fn main() {
    let kinds = [Monitoring::Off, Monitoring::Scraped, Monitoring::PageOpen];
    let servers = kinds.map(start);
    let mut ends = Vec::new();
    let mut threads = Vec::new();
    for (watched, server) in kinds.into_iter().zip(&servers) {
        let Some(address) = server.http_address() else {
            continue;
        };
        let (end, ended) = channel();
        ends.push(end);
        threads.push(std::thread::spawn(move || scrape(address, &ended)));
        if watched == Monitoring::PageOpen {
            threads.push(std::thread::spawn(move || read_events(address)));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut rates = [(); 3].map(|()| Vec::new());
    runtime.block_on(async {
        let mut clients = Vec::new();
        for server in &servers {
            let settings = Settings::from_url(&server.url()).unwrap();
            clients.push(Client::connect(settings).await.unwrap());
        }
        for round in 0..ROUNDS {
            for turn in 0..servers.len() {
                let which = (round + turn) % servers.len();
                rates[which].push(rate(&clients[which]).await);
            }
        }
    });
    drop(ends);
    for server in servers {
        server.stop().unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    for (which, name) in [(1, "metrics read each second"), (2, "and the page open")] {
        let ratios = rates[which]
            .iter()
            .zip(&rates[0])
            .map(|(its, bare)| its / bare);
        let [median, least, most] = spread(ratios.collect());
        println!(
            "{IN_FLIGHT} in flight, half GET, half SET of 100 bytes, {name}: {median:.3} of the throughput without an HTTP port \
             (median of {ROUNDS} rounds in turns, {least:.3} to {most:.3})"
        );
    }
    let [median, least, most] = spread(std::mem::take(&mut rates[0]));
    println!("without: {median:.0} req/s ({least:.0} to {most:.0})");
}
