//! Many idle connections that watch one key: the server's memory for each of them, the time until all are notified of a SET of
//! that key, and the latency that another client sees.
//!
//! The watchers are sockets on one thread, which shares the machine's cores with the server and acknowledges notifications
//! immediately, as clients do. The other client sends a GET every five milliseconds without waiting for the last answer. A server
//! that stands still therefore gets as many requests as one that does not.

use crate::{
    load::{Request, micros, quantile},
    mqtt::Mqtt,
    plan::{BenchmarkPlan, ServerBuild},
    process::{self, Server, open_files},
    socket::{Message, ReadBuffer, Socket, Wire},
    table::{Column, Table},
};
use mio::{Events, Poll};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Number of connections that a server allows, less those of the two other clients.
const WATCHERS: usize = 10_000 - 2;
/// Further files that this process needs.
const OTHER_FILES: usize = 64;
/// SETs of one round.
const SETS: usize = 10;
/// Time between two SETs.
const PAUSE: Duration = Duration::from_millis(100);
const GET_EVERY: Duration = Duration::from_millis(5);
const GET: Request = Request {
    is_set: false,
    key: *b"key-000000000000",
};
/// Longest time without any message.
const SILENCE: Duration = Duration::from_secs(30);

const COLUMNS: [Column; 8] = [
    Column::new("resident bytes per connection", "", 0),
    Column::new("all told after, median", " ms", 1),
    Column::new("at worst", " ms", 1),
    Column::new("server CPU per SET", " ms", 1),
    Column::new("watchers' CPU per SET", " ms", 1),
    Column::new("other's GET p99 meanwhile", " ms", 2),
    Column::new("longest GET meanwhile", " ms", 2),
    Column::new("GET p99 before the SETs", " ms", 2),
];

/// Measures and prints, if the process may open that many files.
pub fn measure(plan: &BenchmarkPlan) {
    let title = format!("{WATCHERS} idle connections that watch one key, {SETS} SETs of it");
    let needed = WATCHERS + OTHER_FILES;
    let allowed = open_files();
    if allowed < needed {
        println!("\n### {title}\n");
        println!("Not measured: {allowed} files may be open, {needed} are needed (`ulimit -n`).");
        return;
    }
    let mut table = Table::new(&COLUMNS);
    let rows: Vec<_> = plan
        .builds()
        .into_iter()
        .map(|build| {
            let name = format!("statestored{}", build.mark);
            table.row(name, move || round(&build, plan.time))
        })
        .collect();
    if let [now, before] = rows[..] {
        table.ratio("now / before", now, before);
    }
    table.print(&title, plan.rounds);
}

/// Runs a round with a server of its own; returns its numbers for [`COLUMNS`].
fn round(build: &ServerBuild, rest: Duration) -> Vec<f64> {
    let server = build.in_memory(&[]);
    let mut writer = Client::connect(&server, "writer");
    let set = Request {
        is_set: true,
        ..GET
    };
    writer.send(set);
    writer.wait();
    let reader = GetThread::start(Client::connect(&server, "reader"));

    let before = server.resident_bytes();
    let mut watchers = WatcherConnections::connect(&server);
    let quiet = Instant::now();
    thread::sleep(rest);
    let resident = server.resident_bytes().saturating_sub(before) as f64 / WATCHERS as f64;

    let mut told = Vec::new();
    let cpu = (server.cpu(), process::own_cpu());
    for _ in 0..SETS {
        let start = Instant::now();
        writer.send(set);
        watchers.wait_for(Message::Notification);
        told.push((start, Instant::now()));
        writer.wait();
        thread::sleep(PAUSE);
    }
    let cpu = (
        server.cpu().saturating_sub(cpu.0),
        process::own_cpu().saturating_sub(cpu.1),
    );
    let gets = reader.stop();
    // The server ends before its clients, so that it does not have to notice each of their ends.
    drop(server);

    let during = |spans: &[(Instant, Instant)]| -> Vec<u64> {
        let is_in = |at: Instant| spans.iter().any(|&(from, to)| (from..to).contains(&at));
        let gets = gets.iter().filter(|get| is_in(get.sent));
        gets.map(|get| get.latency.as_nanos() as u64).collect()
    };
    let (mut meanwhile, mut otherwise) = (during(&told), during(&[(quiet, told[0].0)]));
    let mut took: Vec<_> = told
        .iter()
        .map(|(from, to)| (*to - *from).as_nanos() as u64)
        .collect();
    let millis = |of: &mut [u64], part| micros(quantile(of, part)) / 1e3;
    let cpu_per_set = |cpu| micros(cpu) / 1e3 / SETS as f64;
    vec![
        resident,
        millis(&mut took, 0.5),
        millis(&mut took, 1.0),
        cpu_per_set(cpu.0),
        cpu_per_set(cpu.1),
        millis(&mut meanwhile, 0.99),
        millis(&mut meanwhile, 1.0),
        millis(&mut otherwise, 0.99),
    ]
}

/// All watching connections.
struct WatcherConnections {
    sockets: Vec<Socket<Mqtt>>,
    poll: Poll,
    events: Events,
    buffer: ReadBuffer,
}

impl WatcherConnections {
    /// Connects all watchers; returns when each watch has been granted.
    fn connect(server: &Server) -> Self {
        let poll = Poll::new().expect("a poll");
        let sockets = (0..WATCHERS)
            .map(|number| {
                let mut socket = Socket::open(server.port, Mqtt::new("watcher", number));
                socket.register(poll.registry(), number);
                socket.wire.watch(GET.key, &mut socket.out);
                socket.flush();
                socket
            })
            .collect();
        let mut watchers = Self {
            sockets,
            poll,
            events: Events::with_capacity(1024),
            buffer: ReadBuffer::default(),
        };
        watchers.wait_for(Message::Answer);
        watchers
    }

    /// Waits until each watcher got such a message.
    fn wait_for(&mut self, wanted: Message) {
        let mut left = WATCHERS;
        while left > 0 {
            self.poll
                .poll(&mut self.events, Some(SILENCE))
                .expect("a poll");
            assert!(!self.events.is_empty(), "{left} watchers wait in vain");
            for event in &self.events {
                let socket = &mut self.sockets[event.token().0];
                socket.receive(&mut self.buffer, |message| {
                    left -= usize::from(message == wanted);
                });
                socket.flush();
            }
        }
    }
}

/// A client with one request at a time.
struct Client {
    socket: Socket<Mqtt>,
    poll: Poll,
    events: Events,
    buffer: ReadBuffer,
}

impl Client {
    fn connect(server: &Server, name: &str) -> Self {
        let poll = Poll::new().expect("a poll");
        let mut socket = Socket::open(server.port, Mqtt::new(name, 0));
        socket.register(poll.registry(), 0);
        Self {
            socket,
            poll,
            events: Events::with_capacity(1),
            buffer: ReadBuffer::default(),
        }
    }

    fn send(&mut self, request: Request) {
        self.socket.wire.request(request, &mut self.socket.out);
        self.socket.flush();
    }

    /// Waits for input, but at most for this time; returns the number of answers.
    fn receive(&mut self, longest: Duration) -> usize {
        self.poll
            .poll(&mut self.events, Some(longest))
            .expect("a poll");
        let mut answers = 0;
        self.socket.receive(&mut self.buffer, |message| {
            answers += usize::from(message == Message::Answer);
        });
        self.socket.flush();
        answers
    }

    /// Waits for the answer to the only pending request.
    fn wait(&mut self) {
        let start = Instant::now();
        while self.receive(SILENCE) == 0 {
            assert!(start.elapsed() < SILENCE, "a request gets no answer");
        }
    }
}

/// A GET of the other client.
struct GetSample {
    sent: Instant,
    latency: Duration,
}

/// The thread of the other client.
struct GetThread {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<GetSample>>,
}

impl GetThread {
    fn start(mut client: Client) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        let thread = thread::spawn(move || {
            let (mut gets, mut waiting) = (Vec::new(), VecDeque::new());
            let mut next = Instant::now();
            while !stop.load(Ordering::Relaxed) || !waiting.is_empty() {
                let now = Instant::now();
                if now >= next {
                    client.send(GET);
                    waiting.push_back(now);
                    next = now + GET_EVERY;
                }
                let answers = client.receive(next.saturating_duration_since(now));
                for sent in waiting.drain(..answers) {
                    let latency = sent.elapsed();
                    gets.push(GetSample { sent, latency });
                }
            }
            gets
        });
        Self { is_over, thread }
    }

    fn stop(self) -> Vec<GetSample> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no GET fails")
    }
}
