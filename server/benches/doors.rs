//! Cost of TLS: requests on one connection compared with plain TCP, and the effect of many handshakes on other clients.
//!
//! `cargo bench -p statestored --bench doors`
//!
//! The rounds of both kinds of connections alternate, and a ratio is that of two consecutive rounds: a shared machine may be twice as
//! fast a minute later.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "rates are read by people")]
use bytes::BytesMut;
use futures_util::future::join_all;
use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use statestore::{Client, Settings};
use statestore_protocol::mqtt::Connect;
use statestored::RunningServer;
use statestored::config::{ClientCertificates, Config, Tls, TlsFiles};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_secs(1);

/// New connections per second during the flood, the number of threads that open them, and its duration.
const HANDSHAKES: u32 = 1000;
const THREADS: u32 = 8;
const FLOOD: Duration = Duration::from_secs(5);

/// A server with both doors, and what its clients need.
struct ListenerBench {
    server: RunningServer,
    _folder: TempDir,
    ca: PathBuf,
    config: Arc<ClientConfig>,
}

impl ListenerBench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let ca = folder.path().join("server.crt");
        let key_file = folder.path().join("server.key");
        std::fs::write(&ca, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        let mut config = Config::in_memory();
        config.listeners = vec![
            "tcp://127.0.0.1:0".parse().unwrap(),
            "tls://127.0.0.1:0".parse().unwrap(),
        ];
        let files = TlsFiles {
            certificate: ca.clone(),
            key: key_file,
            client_ca: None,
            client_certificates: ClientCertificates::Off,
            client_crl: None,
        };
        config.listener_config.tls = Some(Tls::read(files).unwrap());
        Self {
            server: RunningServer::start(config).unwrap(),
            _folder: folder,
            ca,
            config: Arc::new(client),
        }
    }

    async fn client(&self, door: usize) -> Client {
        let url = self.server.bound_addresses()[door].url();
        let settings = Settings::from_url(&url).unwrap();
        let settings = match door {
            0 => settings,
            _ => settings.ca_file(&self.ca),
        };
        Client::connect(settings).await.unwrap()
    }
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

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn throughput(world: &ListenerBench) {
    let clients = [world.client(0).await, world.client(1).await];
    let mut rates = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let plain = rate(&clients[0]).await;
        let encrypted = rate(&clients[1]).await;
        rates[0].push(plain);
        rates[1].push(encrypted);
        ratios.push(encrypted / plain);
    }
    let [plain, encrypted] = &mut rates;
    println!(
        "{IN_FLIGHT} in flight, half GET, half SET of 100 bytes: {:.0} req/s over TCP, {:.0} req/s over TLS 1.3; ratio {:.2}",
        median(plain),
        median(encrypted),
        median(&mut ratios),
    );
}

/// Completes a handshake, up to the response to CONNECT.
fn connect(address: SocketAddr, config: &Arc<ClientConfig>) {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let mut out = BytesMut::new();
    let connect = Connect {
        clean_start: true,
        ..Connect::default()
    };
    connect.encode(u32::MAX, &mut out).unwrap();
    stream.write_all(&out).unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
}

/// How long requests one after the other take, in milliseconds: the median, 99 of 100, and the longest.
async fn latency(client: &Client, time: Duration) -> [f64; 3] {
    let begun = Instant::now();
    let mut taken = Vec::new();
    while begun.elapsed() < time {
        let asked = Instant::now();
        client.get("key-0").await.unwrap();
        taken.push(asked.elapsed().as_secs_f64() * 1000.0);
    }
    taken.sort_by(f64::total_cmp);
    [taken.len() / 2, taken.len() * 99 / 100, taken.len() - 1].map(|at| taken[at])
}

fn handshakes(world: &ListenerBench, runtime: &Runtime) {
    let client = runtime.block_on(world.client(0));
    let [median, p99, longest] = runtime.block_on(latency(&client, ROUND));
    println!(
        "GET, one after the other: median {median:.2} ms, p99 {p99:.2} ms, longest {longest:.2} ms"
    );
    let (made, is_over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let address = world.server.addresses()[1];
    std::thread::scope(|scope| {
        let begun = Instant::now();
        for _ in 0..THREADS {
            scope.spawn(move || {
                let mut due = begun;
                while !is_over.load(Ordering::Relaxed) {
                    due += Duration::from_secs(1) * THREADS / HANDSHAKES;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    connect(address, &world.config);
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let [median, p99, longest] = runtime.block_on(latency(&client, FLOOD));
        is_over.store(true, Ordering::Relaxed);
        let rate = made.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
        println!(
            "beside {rate:.0} of {HANDSHAKES} wanted new TLS connections a second: median {median:.2} ms, p99 {p99:.2} ms, longest {longest:.2} ms"
        );
    });
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let world = ListenerBench::new();
    runtime.block_on(throughput(&world));
    handshakes(&world, &runtime);
}
