//! The present state of all keys on one connection: `scan_entries` of our client, beside `SCAN` and `MGET` of Redis.

use crate::{
    load::micros,
    own_client::OwnClient,
    plan::BenchmarkPlan,
    process::{self, Server},
    redis,
    table::{Column, Table},
};
use bytes::Bytes;
use statestore::Entry;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// Number of keys that Redis looks at for each page.
const REDIS_PAGE: usize = 1000;

const COLUMNS: [Column; 4] = [
    Column::new("time", " s", 2),
    Column::new("keys/s", "", 0),
    Column::new("client CPU per key", " µs", 2),
    Column::new("server CPU per key", " µs", 2),
];

/// Measures and prints. The server has one million `keys`.
pub fn measure(plan: &BenchmarkPlan, runtime: &Runtime, server: &Server, keys: u64) {
    let redis = redis::start_filled(keys);
    let client = runtime.block_on(OwnClient::connect(server.port, "bench-initial"));
    let mut table = Table::new(&COLUMNS);
    let own = table.row("own client, scan_entries", move || {
        run_measured(server, keys, || runtime.block_on(read_all(&client)))
    });
    let mut reader = RedisReader::connect(redis.port);
    let peer = table.row("Redis, bare socket, SCAN and MGET", move || {
        run_measured(&redis, keys, || reader.read_all())
    });
    table.ratio("own client / Redis", own, peer);
    let title = "The present state of one million keys on one connection";
    table.print(title, plan.rounds);
}

/// Reads all pages, and returns the numbers for [`COLUMNS`].
fn run_measured<T>(server: &Server, keys: u64, read: impl FnOnce() -> Vec<Vec<T>>) -> Vec<f64> {
    let before = (process::own_cpu(), server.cpu());
    let start = Instant::now();
    let pages = read();
    let seconds = start.elapsed().as_secs_f64();
    let after = (process::own_cpu(), server.cpu());
    let found: usize = pages.iter().map(Vec::len).sum();
    assert!(found as u64 >= keys, "a scan returns each key");
    let per_key = |from, to: Duration| micros(to.saturating_sub(from)) / keys as f64;
    vec![
        seconds,
        keys as f64 / seconds,
        per_key(before.0, after.0),
        per_key(before.1, after.1),
    ]
}

async fn read_all(client: &OwnClient) -> Vec<Vec<(Bytes, Entry)>> {
    let mut scan = client.0.scan_entries("*");
    let mut pages = Vec::new();
    while let Some(page) = scan.next_page().await.expect("scan") {
        pages.push(page);
    }
    pages
}

/// A connection to Redis that reads all keys with their values.
struct RedisReader {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl RedisReader {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("redis answers");
        stream.set_nodelay(true).expect("a socket of TCP");
        let answers = stream.try_clone().expect("clone");
        Self {
            stream,
            answers: BufReader::with_capacity(256 * 1024, answers),
            line: Vec::new(),
        }
    }

    /// Reads all pages. The values of a page and the keys of the next one are requested together.
    fn read_all(&mut self) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut pages = Vec::new();
        let mut request = Vec::new();
        write_scan(b"0", &mut request);
        self.stream.write_all(&request).expect("redis reads");
        loop {
            let (cursor, keys) = self.read_keys();
            let is_last = cursor == b"0";
            request.clear();
            if !keys.is_empty() {
                write_mget(&keys, &mut request);
            }
            if !is_last {
                write_scan(&cursor, &mut request);
            }
            self.stream.write_all(&request).expect("redis reads");
            if !keys.is_empty() {
                assert_eq!(self.read_header(b'*'), keys.len());
                let pairs = keys.into_iter().map(|key| (key, self.read_bulk()));
                pages.push(pairs.collect());
            }
            if is_last {
                return pages;
            }
        }
    }

    /// Reads the answer to SCAN: the next cursor, and keys.
    fn read_keys(&mut self) -> (Vec<u8>, Vec<Vec<u8>>) {
        assert_eq!(self.read_header(b'*'), 2);
        let cursor = self.read_bulk();
        let count = self.read_header(b'*');
        let keys = (0..count).map(|_| self.read_bulk()).collect();
        (cursor, keys)
    }

    /// Reads a line of this type, and returns its number.
    fn read_header(&mut self, kind: u8) -> usize {
        self.line.clear();
        self.answers
            .read_until(b'\n', &mut self.line)
            .expect("redis answers");
        let text = String::from_utf8_lossy(&self.line);
        let number = text.trim_end().strip_prefix(char::from(kind));
        let number = number.and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("redis answers {text:?}"))
    }

    fn read_bulk(&mut self) -> Vec<u8> {
        let len = self.read_header(b'$');
        let mut bytes = vec![0; len + 2];
        self.answers.read_exact(&mut bytes).expect("redis answers");
        bytes.truncate(len);
        bytes
    }
}

fn write_scan(cursor: &[u8], out: &mut Vec<u8>) {
    let count = REDIS_PAGE.to_string();
    write_command(&[b"SCAN", cursor, b"COUNT", count.as_bytes()], out);
}

fn write_mget(keys: &[Vec<u8>], out: &mut Vec<u8>) {
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.extend(keys.iter().map(Vec::as_slice));
    write_command(&words, out);
}

fn write_command(words: &[&[u8]], out: &mut Vec<u8>) {
    write!(out, "*{}\r\n", words.len()).expect("memory");
    for word in words {
        write!(out, "${}\r\n", word.len()).expect("memory");
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
