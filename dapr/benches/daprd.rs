//! Calls on three state stores of one daprd over HTTP, in turns: ours, a peer, and one that does nothing (`nothing.rs`).
//! `tests/dapr/daprd/speed.py` starts what it needs, and gives the port of daprd, the names of the stores and the number of rounds.
//!
//! Each caller is a thread with a connection of its own, which waits for each answer.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "rates are read by people")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long the calls of a round take at least, all bursts together.
const ROUND: Duration = Duration::from_millis(500);

/// How many calls a caller makes in a burst. Between two of them, it reads what the next one needs, which does not count.
const BURST: usize = 50;

const OPERATIONS: usize = 5;

/// Values are as long as this.
const VALUE: &str = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

#[derive(Debug, Clone, Copy)]
enum CallKind {
    Get,
    SaveWithEtag,
    Transaction,
}

/// A caller: its connection, and keys that nobody else has.
struct BenchCaller<'a> {
    stream: BufReader<TcpStream>,
    store: &'a str,
    number: usize,
    etags: Vec<String>,
}

struct HttpResponse {
    status: u16,
    etag: Option<String>,
}

impl<'a> BenchCaller<'a> {
    fn new(port: u16, store: &'a str, number: usize) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
            store,
            number,
            etags: Vec::new(),
        }
    }

    fn key(&self, call: usize) -> String {
        format!("key-{}-{call}", self.number)
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> HttpResponse {
        let request = format!(
            "{method} /v1.0/state/{}{path} HTTP/1.1\r\nHost: daprd\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.store,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let status = self.line();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        let mut etag = None;
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "etag" => etag = Some(value.to_owned()),
                "transfer-encoding" => panic!("an answer in pieces"),
                _ => {}
            }
        }
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).unwrap();
        HttpResponse { status, etag }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.truncate(line.trim_end().len());
        line
    }

    fn save(&mut self, call: usize, etag: &str) {
        let key = self.key(call);
        let item = format!(r#"[{{"key":"{key}","value":"{VALUE}","etag":"{etag}"}}]"#);
        assert_eq!(self.ask("POST", "", &item).status, 204);
    }

    fn prepare(&mut self, kind: CallKind) {
        if matches!(kind, CallKind::SaveWithEtag) {
            let etag = |call| {
                let path = format!("/{}", self.key(call));
                self.ask("GET", &path, "").etag.unwrap()
            };
            self.etags = (0..BURST).map(etag).collect();
        }
    }

    fn call(&mut self, kind: CallKind, call: usize) {
        match kind {
            CallKind::Get => {
                let path = format!("/{}", self.key(call));
                assert_eq!(self.ask("GET", &path, "").status, 200);
            }
            CallKind::SaveWithEtag => {
                let etag = std::mem::take(&mut self.etags[call]);
                self.save(call, &etag);
            }
            CallKind::Transaction => {
                let mut operations = String::new();
                for number in 0..OPERATIONS {
                    let separator = if number == 0 { "" } else { "," };
                    let key = self.key((call + number) % BURST);
                    write!(
                        operations,
                        r#"{separator}{{"operation":"upsert","request":{{"key":"{key}","value":"{VALUE}"}}}}"#
                    )
                    .unwrap();
                }
                let body = format!(r#"{{"operations":[{operations}]}}"#);
                assert_eq!(self.ask("POST", "/transaction", &body).status, 204);
            }
        }
    }
}

/// Calls per second, of all callers together.
fn round(callers: &mut [BenchCaller<'_>], kind: CallKind) -> f64 {
    let mut took = Duration::ZERO;
    let mut calls = 0;
    while took < ROUND {
        took += burst(callers, kind);
        calls += callers.len() * BURST;
    }
    calls as f64 / took.as_secs_f64()
}

/// How long the calls of a burst take.
fn burst(callers: &mut [BenchCaller<'_>], kind: CallKind) -> Duration {
    let ready = Barrier::new(callers.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = callers
            .iter_mut()
            .map(|caller| {
                scope.spawn(|| {
                    caller.prepare(kind);
                    ready.wait();
                    for call in 0..BURST {
                        caller.call(kind, call);
                    }
                })
            })
            .collect();
        ready.wait();
        let begun = Instant::now();
        for thread in threads {
            thread.join().unwrap();
        }
        begun.elapsed()
    })
}

/// The middle one, the least and the most.
fn spread(values: &[f64], digits: usize) -> String {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let [least, most] = [values[0], values[values.len() - 1]];
    format!(
        "{:.digits$} ({least:.digits$}–{most:.digits$})",
        values[values.len() / 2]
    )
}

/// Of each round.
fn ratios_of(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

fn main() {
    // As cargo calls it, there is one argument more.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|it| it != "--bench")
        .collect();
    let [port, rounds, ours, peer, nothing] = arguments.as_slice() else {
        panic!("PORT ROUNDS OURS PEER NOTHING; tests/dapr/daprd/speed.py knows them");
    };
    let [port, rounds]: [u16; 2] = [port, rounds].map(|number| number.parse().unwrap());
    println!(
        "| | {ours}, calls/s | {peer}, calls/s | {nothing}, calls/s | {ours}/{peer} | {nothing}/{peer} | {ours}/{nothing} |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (kind, name) in [
        (CallKind::Get, "get"),
        (CallKind::SaveWithEtag, "save with an ETag"),
        (CallKind::Transaction, "transaction of 5 saves"),
    ] {
        for count in [1, 32, 64, 256] {
            let mut stores = [ours, peer, nothing].map(|store| {
                let mut callers: Vec<_> = (0..count)
                    .map(|number| BenchCaller::new(port, store, number))
                    .collect();
                for caller in &mut callers {
                    for call in 0..BURST {
                        caller.save(call, "");
                    }
                }
                burst(&mut callers, kind);
                (callers, Vec::new())
            });
            for _ in 0..rounds {
                for (callers, rates) in &mut stores {
                    rates.push(round(callers, kind));
                }
            }
            let [ours, peer, nothing] = stores.map(|(_, rates)| rates);
            let rates = [&ours, &peer, &nothing].map(|rates| spread(rates, 0));
            let ratios = [(&ours, &peer), (&nothing, &peer), (&ours, &nothing)];
            let ratios = ratios.map(|(of, to)| spread(&ratios_of(of, to), 2));
            let cells = [rates, ratios].concat().join(" | ");
            println!("| {name}, {count} at a time | {cells} |");
        }
    }
}
