//! A TCP proxy that breaks connections on command.
use bytes::BytesMut;
use statestore::Settings;
use statestore_protocol::mqtt::{Limits, Packet, decode};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Kind of end of a connection, towards both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutKind {
    /// RST: bytes in flight may be lost.
    Reset,
    /// FIN: bytes in flight arrive, then the stream ends.
    Finish,
}

/// Handling of new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptMode {
    /// Connections reach the server.
    Forward,
    /// Connections are reset immediately.
    Reset,
    /// Connections are accepted and stay silent, as behind a firewall that drops packets.
    Silence,
}

/// State of a connection to be applied by its pumps. Directions are in the order of [`Direction`].
#[derive(Debug, Clone, Copy, Default)]
struct ConnectionFaults {
    cut: Option<CutKind>,
    stalled: [bool; 2],
    finished: [bool; 2],
}

#[derive(Debug)]
struct Connection {
    faults: watch::Sender<ConnectionFaults>,
    /// Bytes that the client sent, while they are recorded.
    sent: BytesMut,
}

#[derive(Debug)]
struct State {
    upstream: SocketAddr,
    admission: AcceptMode,
    delay: Duration,
    /// Bytes per second in each direction.
    rate: Option<u32>,
    /// Whether each direction is blocked on new connections.
    blocked: [bool; 2],
    is_recording: bool,
    /// Cuts a connection in this way after this number of further bytes in this direction.
    fuse: Option<(Direction, usize, CutKind)>,
    /// All connections that were ever accepted, in their order.
    connections: Vec<Connection>,
    /// Bytes that have arrived in each direction.
    received: [usize; 2],
}

/// The proxy. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    acceptor: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

impl Proxy {
    /// Listens on a free port of the loopback interface and forwards to `upstream`.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            upstream,
            admission: AcceptMode::Forward,
            delay: Duration::ZERO,
            rate: None,
            blocked: [false; 2],
            is_recording: false,
            fuse: None,
            connections: Vec::new(),
            received: [0; 2],
        }));
        let acceptor = tokio::spawn(accept(listener, state.clone()));
        Self {
            address,
            state,
            acceptor,
        }
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Settings of a client that connects through the proxy and reconnects without delay.
    pub fn settings(&self) -> Settings {
        Settings::new(self.address.ip().to_string(), self.address.port())
            .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
            .request_timeout(super::WAIT_LIMIT)
    }

    /// Sets the target of new connections.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.state().upstream = upstream;
    }

    /// Sets the handling of new connections.
    pub fn set_accept_mode(&self, admission: AcceptMode) {
        self.state().admission = admission;
    }

    /// Sets the delay of each piece of data, in both directions.
    pub fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Sets the number of bytes per second, in each direction.
    pub fn set_rate(&self, bytes_per_second: u32) {
        self.state().rate = Some(bytes_per_second);
    }

    /// Cuts all connections. Data that waits because of [`stall`](Self::stall) or [`block`](Self::block) is lost.
    pub fn cut(&self, how: CutKind) {
        self.change(|fate| fate.cut = Some(how));
    }

    /// Cuts a connection after `bytes` more have passed in this direction on any connections; a packet may be torn.
    pub fn cut_after(&self, direction: Direction, bytes: usize, how: CutKind) {
        self.state().fuse = Some((direction, bytes, how));
    }

    /// Stalls this direction on the existing connections.
    pub fn stall(&self, direction: Direction) {
        self.change(|fate| fate.stalled[direction as usize] = true);
    }

    /// Lets bytes pass again, including the waiting ones.
    pub fn resume(&self, direction: Direction) {
        self.change(|fate| fate.stalled[direction as usize] = false);
    }

    /// Stalls this direction on the existing connections and on later ones.
    pub fn block(&self, direction: Direction) {
        self.state().blocked[direction as usize] = true;
        self.stall(direction);
    }

    /// Lets bytes pass in both directions, including the waiting ones.
    pub fn unblock(&self) {
        self.state().blocked = [false; 2];
        self.change(|fate| fate.stalled = [false; 2]);
    }

    /// Ends the stream in this direction only (FIN); the other direction stays open.
    pub fn close_half(&self, direction: Direction) {
        self.change(|fate| fate.finished[direction as usize] = true);
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.state().connections.len()
    }

    /// Returns the number of bytes that have arrived in this direction over all connections, including delayed ones.
    pub fn received(&self, direction: Direction) -> usize {
        self.state().received[direction as usize]
    }

    /// Records the bytes that clients send on new connections.
    pub fn start_recording(&self) {
        self.state().is_recording = true;
    }

    /// Returns the whole packets that the client sent on the connection of this number, if they were recorded.
    pub fn sent(&self, connection: usize) -> Vec<Packet> {
        let mut bytes = self.state().connections[connection].sent.clone();
        std::iter::from_fn(|| decode(&mut bytes, Limits::MAX_PACKET_BYTES).unwrap()).collect()
    }

    fn change(&self, change: impl Fn(&mut ConnectionFaults)) {
        for connection in &self.state().connections {
            connection.faults.send_modify(&change);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        while connections.try_join_next().is_some() {}
        let (number, admission, upstream, fates) = {
            let mut state = state.lock().unwrap();
            let (fate, fates) = watch::channel(ConnectionFaults {
                stalled: state.blocked,
                ..ConnectionFaults::default()
            });
            let sent = BytesMut::new();
            state.connections.push(Connection { faults: fate, sent });
            let number = state.connections.len() - 1;
            (number, state.admission, state.upstream, fates)
        };
        let state = state.clone();
        connections.spawn(async move {
            match admission {
                AcceptMode::Reset => client.set_zero_linger().unwrap(),
                AcceptMode::Silence => {
                    wait_for_cut(fates).await;
                    client.set_zero_linger().unwrap();
                }
                AcceptMode::Forward => match TcpStream::connect(upstream).await {
                    Err(_) => client.set_zero_linger().unwrap(),
                    Ok(server) => forward(number, client, server, &fates, &state).await,
                },
            }
        });
    }
}

/// Waits until the connection is to be cut.
async fn wait_for_cut(mut fates: watch::Receiver<ConnectionFaults>) -> Option<CutKind> {
    match fates.wait_for(|fate| fate.cut.is_some()).await {
        Ok(fate) => fate.cut,
        Err(_) => Some(CutKind::Reset),
    }
}

async fn forward(
    number: usize,
    mut client: TcpStream,
    mut server: TcpStream,
    fates: &watch::Receiver<ConnectionFaults>,
    state: &Mutex<State>,
) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let cut = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let pump = |direction| StreamCopier {
            number,
            direction,
            fates: fates.clone(),
            state,
        };
        let up = pump(Direction::ToServer).run(from_client, to_server);
        let down = pump(Direction::ToClient).run(from_server, to_client);
        tokio::select! {
            cut = wait_for_cut(fates.clone()) => cut,
            result = async { tokio::try_join!(up, down) } => result.err(),
        }
    };
    match cut {
        // Both streams have ended.
        None => {}
        Some(CutKind::Reset) => {
            client.set_zero_linger().unwrap();
            server.set_zero_linger().unwrap();
        }
        Some(CutKind::Finish) => {
            // Closing with unread data would reset, so read until the other side has closed as well.
            let (one, other) = (finish(client), finish(server));
            tokio::join!(one, other);
        }
    }
}

async fn finish(mut stream: TcpStream) {
    // A side that is gone cannot be shut down.
    let _ = stream.shutdown().await;
    let mut scrap = [0; 4096];
    while let Ok(1..) = stream.read(&mut scrap).await {}
}

/// Copies bytes in one direction.
struct StreamCopier<'a> {
    number: usize,
    direction: Direction,
    fates: watch::Receiver<ConnectionFaults>,
    state: &'a Mutex<State>,
}

impl StreamCopier<'_> {
    /// Copies until the source ends, then shuts the destination down. An error tells how both directions are to be cut.
    async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), CutKind> {
        let reset = |_: io::Error| CutKind::Reset;
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = tokio::select! {
                read = from.read(&mut buffer) => read.map_err(reset)?,
                () = wait_for_half_close(self.direction, &mut self.fates) => 0,
            };
            let flows = |fate: &ConnectionFaults| {
                fate.cut.is_some() || !fate.stalled[self.direction as usize]
            };
            // The sender lives as long as the proxy.
            if let Ok(fate) = self.fates.wait_for(flows).await
                && let Some(cut) = fate.cut
            {
                return Err(cut);
            }
            if read == 0 {
                to.shutdown().await.map_err(reset)?;
                return Ok(());
            }
            let (delay, passing, cut) = self.admit_bytes(&buffer[..read]);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            to.write_all(&buffer[..passing]).await.map_err(reset)?;
            if let Some(cut) = cut {
                return Err(cut);
            }
        }
    }

    /// Returns the delay of these bytes, the number of them that pass, and the cut after them, if there is one.
    fn admit_bytes(&self, bytes: &[u8]) -> (Duration, usize, Option<CutKind>) {
        let mut state = self.state.lock().unwrap();
        state.received[self.direction as usize] += bytes.len();
        let (mut passing, mut end) = (bytes.len(), None);
        match &mut state.fuse {
            Some((direction, left, _)) if *direction != self.direction => _ = left,
            Some((_, left, cut)) if *left <= bytes.len() => {
                (passing, end) = (*left, Some(*cut));
                state.fuse = None;
            }
            Some((_, left, _)) => *left -= bytes.len(),
            None => {}
        }
        if state.is_recording && self.direction == Direction::ToServer {
            state.connections[self.number]
                .sent
                .extend_from_slice(&bytes[..passing]);
        }
        let transmission = match state.rate {
            Some(rate) => Duration::from_secs(passing as u64) / rate,
            None => Duration::ZERO,
        };
        (state.delay + transmission, passing, end)
    }
}

async fn wait_for_half_close(direction: Direction, fates: &mut watch::Receiver<ConnectionFaults>) {
    // The sender lives as long as the proxy.
    let _ = fates
        .wait_for(|fate| fate.finished[direction as usize])
        .await;
}
