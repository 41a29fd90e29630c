//! Cost of the service and the embedded keyspace per operation and per key, without a socket: `cargo bench -p statestored --bench engine`.
//!
//! Prints nanoseconds of CPU time per operation, the time of the longest SCAN page, and the resident bytes per key. CPU time depends less
//! on other load of the machine. The stores have a thousand, a hundred thousand and a million keys of 16 bytes with 100-byte values.
use bytes::{Bytes, BytesMut};
use rustix::time::{ClockId, clock_gettime};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, Condition, Hlc, Reply, SetOptions};
use statestored_access::Principal;
use statestored_store::service::{
    ClockReading, Outcome, ReplyEnvelope, Request, RequestEnvelope, RequestProgress, Service,
    ServiceConfig,
};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const NOW: ClockReading = ClockReading {
    wall_ms: 1_760_000_000_000,
    mono_ms: 1_000_000,
};
const OPERATIONS: u64 = 200_000;

struct Bench {
    service: Service,
    client: Arc<str>,
    correlation: u128,
    keys: u64,
    random: u64,
}

impl Bench {
    fn new(keys: u64) -> Self {
        Self {
            service: Service::embedded(ServiceConfig::default()),
            client: "bench".into(),
            correlation: 0,
            keys,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    fn key(number: u64) -> Bytes {
        format!("key:{number:012}").into()
    }

    fn random_key(&mut self) -> Bytes {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Self::key(self.random % self.keys)
    }

    fn execute(&mut self, payload: &Bytes, now: ClockReading) -> ReplyEnvelope {
        self.correlation += 1;
        let timestamp = Hlc::new(now.wall_ms, 0, "bench").expect("a valid node id");
        let request = Request {
            client: &self.client,
            principal: &Principal::default(),
            rights: None,
            correlation: &self.correlation.to_be_bytes(),
            payload,
            properties: RequestProperties {
                timestamp: Some(Ok(timestamp)),
                ..RequestProperties::default()
            },
            may_be_redelivered: true,
        };
        let envelope = RequestEnvelope {
            request,
            deadline_ms: None,
            has_capacity: true,
            max_reply_bytes: usize::MAX,
            is_shared: false,
        };
        let progress = self.service.submit(&envelope, now);
        if self.service.has_notifications() {
            self.service.take_notifications(&mut Vec::new());
        }
        match progress {
            RequestProgress::Complete(Outcome::Replied(response)) => response,
            other => panic!("{other:?}"),
        }
    }

    /// Nanoseconds per operation; what `command` makes is encoded before the clock starts.
    fn measure(&mut self, mut command: impl FnMut(Bytes) -> Command) -> f64 {
        let mut spent = Duration::ZERO;
        for _ in 0..OPERATIONS / 1_000 {
            let payloads: Vec<_> = (0..1_000)
                .map(|_| encode(&command(self.random_key())))
                .collect();
            let start = cpu_time();
            for payload in &payloads {
                let response = self.execute(payload, NOW);
                assert!(!matches!(response.reply, Reply::Error(_)), "{response:?}");
            }
            spent += cpu_time().saturating_sub(start);
        }
        #[allow(clippy::cast_precision_loss)]
        let nanoseconds = spent.as_nanos() as f64 / OPERATIONS as f64;
        nanoseconds
    }

    /// Measures a SET while 10,000 patterns of other prefixes are watched, in turns with one without: the median of its nanoseconds, and
    /// that of the ratios.
    fn set_with_patterns(&mut self) -> (f64, f64) {
        let mut rounds: Vec<(f64, f64)> = (0..9)
            .map(|_| {
                let alone = self.measure(|key| set(key, None));
                for number in 0..10_000 {
                    let pattern = format!("key-{number}/*").into();
                    self.execute(&encode(&Command::WatchPattern { pattern }), NOW);
                }
                let watched = self.measure(|key| set(key, None));
                self.service.end_watches("bench");
                (watched, watched / alone)
            })
            .collect();
        rounds.sort_by(|left, right| left.0.total_cmp(&right.0));
        let nanoseconds = rounds[4].0;
        rounds.sort_by(|left, right| left.1.total_cmp(&right.1));
        (nanoseconds, rounds[4].1)
    }

    /// Walks all keys; the number of pages, the mean and the longest time of one, in microseconds.
    fn scan(&mut self, pattern: &'static str) -> (u32, u128, u128) {
        let (mut token, mut pages, mut longest, mut sum) = (None, 0, 0, 0);
        loop {
            let command = Command::Scan {
                pattern: pattern.into(),
                token,
                values: false,
            };
            let payload = encode(&command);
            let start = cpu_time();
            let response = self.execute(&payload, NOW);
            let spent = cpu_time().saturating_sub(start).as_micros();
            pages += 1;
            longest = longest.max(spent);
            sum += spent;
            match response.reply {
                Reply::Page { token: next, .. } if next.is_some() => token = next,
                _ => return (pages, sum / u128::from(pages), longest),
            }
        }
    }
}

fn encode(command: &Command) -> Bytes {
    let mut out = BytesMut::with_capacity(command.encoded_len());
    command.encode(&mut out);
    out.freeze()
}

fn get(key: Bytes) -> Command {
    Command::Get {
        key,
        remaining: false,
        eventual: false,
    }
}

fn set(key: Bytes, expires_in_ms: Option<u64>) -> Command {
    Command::Set {
        key,
        value: Bytes::from_static(&[b'v'; 100]),
        options: SetOptions {
            condition: Condition::Always,
            expires_in_ms: expires_in_ms.and_then(NonZeroU64::new),
        },
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("CPU time is not negative")
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

fn main() {
    for keys in [1_000, 100_000, 1_000_000] {
        let before = resident_bytes();
        let mut bench = Bench::new(keys);
        let (mut longest, start) = (0, cpu_time());
        for number in 0..keys {
            let payload = encode(&set(Bench::key(number), None));
            let one = cpu_time();
            bench.execute(&payload, NOW);
            longest = longest.max(cpu_time().saturating_sub(one).as_micros());
        }
        let load = cpu_time().saturating_sub(start);
        let per_key = resident_bytes().saturating_sub(before) / keys;
        println!(
            "{keys:>9} keys: load {load:.2?} (longest SET {longest} us), {per_key} resident bytes per key"
        );
        let row = |name: &str, nanoseconds: f64| println!("    {name:<22} {nanoseconds:>7.0} ns");
        row("GET", bench.measure(get));
        row("GET of an absent key", {
            let absent = |key: Bytes| [&key[..], b"?"].concat().into();
            bench.measure(|key| get(absent(key)))
        });
        row("SET", bench.measure(|key| set(key, None)));
        let (with_patterns, ratio) = bench.set_with_patterns();
        row("SET, 10,000 patterns", with_patterns);
        println!("    of a SET               {ratio:>7.2}");
        row("SET PX", {
            let mut ttl = 10_000_000;
            bench.measure(|key| {
                ttl += 1;
                set(key, Some(ttl))
            })
        });
        row("DEL or SET", {
            let mut turn = false;
            bench.measure(|key| {
                turn = !turn;
                if turn {
                    Command::Del {
                        key,
                        if_version: None,
                    }
                } else {
                    set(key, None)
                }
            })
        });
        for pattern in ["*", "no*match"] {
            let (pages, mean, longest) = bench.scan(pattern);
            println!("    SCAN {pattern:<10} {pages} pages, mean {mean} us, longest {longest} us");
        }
        let due = ClockReading {
            mono_ms: u64::MAX,
            ..NOW
        };
        let (mut calls, mut sum, mut longest) = (0, 0, 0);
        while bench.service.next_ms().is_some() {
            let start = cpu_time();
            bench.service.advance(due);
            let spent = cpu_time().saturating_sub(start).as_micros();
            longest = longest.max(spent);
            sum += spent;
            calls += 1;
        }
        println!(
            "    expire: {calls} calls, mean {} us, longest {longest} us",
            sum / calls.max(1)
        );
    }
}
