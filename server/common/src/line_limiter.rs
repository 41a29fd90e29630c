//! Limits of log lines about clients: no client fills the log, or hides what others do.
use std::collections::HashMap;
use std::net::IpAddr;

const MICROSECONDS: u64 = 1_000_000;
/// Number of lines that may come at once, in seconds of the rate.
const BURST_SECONDS: u64 = 5;
/// Share of the rate that one address has, as a divisor.
const ADDRESS_SHARE: u32 = 2;
/// Share of the rate that one client has, as a divisor.
const CLIENT_SHARE: u32 = 20;
/// Time after which lines that were left out are reported.
const REPORT_MS: u64 = 10_000;
/// Maximum number of clients and of addresses that are counted apart.
const MAX_SOURCES: usize = 1024;
/// Maximum number of clients that a report names.
const MAX_REPORTED: usize = 16;

/// The subject of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineKind {
    /// A connection began or ended.
    Connection,
    /// Something was refused.
    Refusal,
    /// A request to the HTTP port was denied.
    Admin,
}

/// Lines about one client that were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedLines {
    /// Subject of the lines.
    pub kind: LineKind,
    /// Client id, or address if no client id is known; `None` for all sources that are not named.
    pub source: Option<String>,
    /// Number of lines.
    pub lines: u64,
}

/// A rate that allows bursts.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// When all lines so far are paid off.
    next_free_us: u64,
}

impl Bucket {
    fn allows(self, rate: u32, now_us: u64) -> bool {
        let burst_us = BURST_SECONDS * MICROSECONDS;
        self.next_free_us.max(now_us) + MICROSECONDS / u64::from(rate) <= now_us + burst_us
    }

    fn take(&mut self, rate: u32, now_us: u64) {
        self.next_free_us = self.next_free_us.max(now_us) + MICROSECONDS / u64::from(rate);
    }
}

/// Decides which lines are written, and counts the others.
#[derive(Debug, Default)]
pub struct LineLimiter {
    all: Bucket,
    clients: HashMap<String, Bucket>,
    addresses: HashMap<Option<IpAddr>, Bucket>,
    omitted: HashMap<(LineKind, Option<String>), u64>,
    report_ms: Option<u64>,
}

impl LineLimiter {
    /// Whether a line may be written of this client (empty if none is known) at this address. `rate` is the number of lines per
    /// second in total, 0 for no limit.
    pub fn admits(
        &mut self,
        line: LineKind,
        client: &str,
        address: Option<IpAddr>,
        rate: u32,
        now_ms: u64,
    ) -> bool {
        if rate == 0 {
            return true;
        }
        let micros = now_ms.saturating_mul(1000);
        let of_address = (rate / ADDRESS_SHARE).max(1);
        let of_client = (rate / CLIENT_SHARE).max(1);
        let mut source = client.to_owned();
        if source.is_empty() {
            source = address.map(|it| it.to_string()).unwrap_or_default();
        }
        evict_idle(&mut self.clients, micros);
        evict_idle(&mut self.addresses, micros);
        let client = if self.clients.len() < MAX_SOURCES || self.clients.contains_key(&source) {
            self.clients.entry(source.clone()).or_default()
        } else {
            self.clients.entry(String::new()).or_default()
        };
        let is_known = self.addresses.len() < MAX_SOURCES || self.addresses.contains_key(&address);
        let address = self
            .addresses
            .entry(address.filter(|_| is_known))
            .or_default();
        let admits = client.allows(of_client, micros)
            && address.allows(of_address, micros)
            && self.all.allows(rate, micros);
        if admits {
            client.take(of_client, micros);
            address.take(of_address, micros);
            self.all.take(rate, micros);
        } else {
            self.report_ms.get_or_insert(now_ms + REPORT_MS);
            let named = self.omitted.len() < MAX_SOURCES;
            let mut key = (line, Some(source));
            if !named && !self.omitted.contains_key(&key) {
                key.1 = None;
            }
            *self.omitted.entry(key).or_default() += 1;
        }
        admits
    }

    /// When a [report](Self::take_report) is due, in milliseconds.
    pub fn next_ms(&self) -> Option<u64> {
        self.report_ms
    }

    /// Takes the numbers of lines that were left out, if a report is due: the clients with most of them, then the sum of the others.
    pub fn take_report(&mut self, now_ms: u64) -> Vec<OmittedLines> {
        if self.report_ms.is_none_or(|due_ms| now_ms < due_ms) {
            return Vec::new();
        }
        self.report_ms = None;
        let all = std::mem::take(&mut self.omitted);
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by(|(a, a_lines), (b, b_lines)| b_lines.cmp(a_lines).then_with(|| a.cmp(b)));
        let mut report = Vec::new();
        let mut others: Vec<OmittedLines> = Vec::new();
        for ((line, source), lines) in all {
            if source.is_some() && report.len() < MAX_REPORTED {
                report.push(OmittedLines {
                    kind: line,
                    source,
                    lines,
                });
            } else if let Some(other) = others.iter_mut().find(|other| other.kind == line) {
                other.lines += lines;
            } else {
                let source = None;
                others.push(OmittedLines {
                    kind: line,
                    source,
                    lines,
                });
            }
        }
        report.extend(others);
        report
    }
}

/// Forgets sources that have nothing to pay off when there are many.
fn evict_idle<K>(sources: &mut HashMap<K, Bucket>, now_us: u64) {
    if sources.len() >= MAX_SOURCES {
        sources.retain(|_, bucket| bucket.next_free_us > now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 100;

    fn admitted(limiter: &mut LineLimiter, client: &str, address: u8, now_ms: u64) -> bool {
        let address = Some(IpAddr::from([192, 0, 2, address]));
        limiter.admits(LineKind::Refusal, client, address, RATE, now_ms)
    }

    #[test]
    fn a_noisy_client_or_address_does_not_exhaust_the_budget_of_others() {
        let mut limiter = LineLimiter::default();
        let of_one = (0..1000).filter(|_| admitted(&mut limiter, "loop", 1, 0));
        assert_eq!(of_one.count(), 25);
        assert!(admitted(&mut limiter, "good", 1, 0));
        let of_many = (0..1000).filter(|it| admitted(&mut limiter, &format!("c{it}"), 1, 0));
        assert_eq!(of_many.count(), 250 - 26);
        assert!(admitted(&mut limiter, "other", 2, 0));
        assert!(admitted(&mut limiter, "loop", 1, 1_000));
    }

    #[test]
    fn omitted_lines_are_reported_by_client() {
        let mut limiter = LineLimiter::default();
        for _ in 0..125 {
            admitted(&mut limiter, "loop", 1, 0);
        }
        assert_eq!(limiter.next_ms(), Some(10_000));
        assert!(limiter.take_report(9_999).is_empty());
        let report = limiter.take_report(10_000);
        assert_eq!(
            report,
            [OmittedLines {
                kind: LineKind::Refusal,
                source: Some("loop".into()),
                lines: 100
            }]
        );
        assert_eq!(limiter.next_ms(), None);
    }

    #[test]
    fn many_clients_and_addresses_take_bounded_memory() {
        let mut limiter = LineLimiter::default();
        for number in 0..100_000_u32 {
            let address = Some(IpAddr::from(number.to_be_bytes()));
            limiter.admits(LineKind::Connection, &number.to_string(), address, RATE, 0);
        }
        assert!(limiter.clients.len() <= MAX_SOURCES + 1);
        assert!(limiter.addresses.len() <= MAX_SOURCES + 1);
        assert!(limiter.omitted.len() <= MAX_SOURCES + 1);
        let report = limiter.take_report(10_000);
        let lines: u64 = report.iter().map(|it| it.lines).sum();
        assert_eq!((report.len(), lines), (17, 100_000 - 500));
    }

    #[test]
    fn without_a_rate_every_line_is_written() {
        let mut limiter = LineLimiter::default();
        assert!((0..10_000).all(|_| limiter.admits(LineKind::Connection, "c", None, 0, 0)));
    }
}
