//! The last lines of the audit trail, in memory.
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Beginning of the targets of the audit trail.
const TARGET: &str = "statestored::audit";
/// Maximum number of lines.
const MAX_LINES: usize = 1_000;
/// Maximum number of bytes of all lines.
const MAX_BYTES: usize = 512 * 1024;
/// Maximum number of characters of a field.
const MAX_FIELD_CHARS: usize = 512;

/// A line of the audit trail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AuditLine {
    /// Number of the line since the start.
    number: u64,
    pub(crate) at_ms: u64,
    pub(crate) level: Cow<'static, str>,
    pub(crate) event: String,
    pub(crate) fields: Map<String, Value>,
}

/// The last lines of the audit trail of a process, from level info on, whatever the filter of its log is.
#[derive(Debug, Clone, Default)]
pub struct AuditLog(Arc<Mutex<AuditLines>>);

/// Lines as JSON, oldest first, in memory that is allocated once: a thousand small allocations would divide the free memory of the thread
/// that serves the clients.
#[derive(Debug)]
struct AuditLines {
    bytes: VecDeque<u8>,
    /// Lengths of the lines.
    lengths: VecDeque<usize>,
    /// The line that is being added.
    buffer: Vec<u8>,
    next_number: u64,
}

impl Default for AuditLines {
    fn default() -> Self {
        Self {
            bytes: VecDeque::with_capacity(MAX_BYTES),
            lengths: VecDeque::with_capacity(MAX_LINES),
            buffer: Vec::with_capacity(16 * 1024),
            next_number: 0,
        }
    }
}

impl AuditLines {
    fn push(&mut self, line: &AuditLine) {
        self.buffer.clear();
        // Text, numbers and maps of them can be written.
        if serde_json::to_writer(&mut self.buffer, line).is_err() || self.buffer.len() > MAX_BYTES {
            return;
        }
        while self.lengths.len() >= MAX_LINES || self.bytes.len() + self.buffer.len() > MAX_BYTES {
            let length = self.lengths.pop_front().unwrap_or_default();
            self.bytes.drain(..length);
        }
        self.bytes.extend(&self.buffer);
        self.lengths.push_back(self.buffer.len());
    }

    /// Returns the lines, newest first.
    fn newest_first(&mut self) -> impl Iterator<Item = AuditLine> {
        let mut rest = &*self.bytes.make_contiguous();
        self.lengths.iter().rev().filter_map(move |length| {
            let (older, line) = rest.split_at(rest.len() - length);
            rest = older;
            serde_json::from_slice(line).ok()
        })
    }
}

/// A layer that keeps the lines.
struct AuditLayer(AuditLog);

/// A visitor that collects the fields of an event.
#[derive(Default)]
struct FieldCollector {
    event: String,
    fields: Map<String, Value>,
}

impl AuditLog {
    /// Returns the layer of a subscriber that adds lines.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + 'static,
    {
        let filter = Targets::new().with_target(TARGET, Level::INFO);
        AuditLayer(self.clone()).with_filter(filter)
    }

    /// Returns at most `max` selected lines, newest first, from those before line `before` on. The number is the `before` of the next
    /// call; `None` at the end.
    pub(crate) fn recent(
        &self,
        before: Option<u64>,
        max: usize,
        is_selected: impl Fn(&AuditLine) -> bool,
    ) -> (Vec<AuditLine>, Option<u64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let older = all.newest_first();
        let older = older.filter(|line| before.is_none_or(|before| line.number < before));
        let mut selected = older.filter(|line| is_selected(line));
        let found: Vec<AuditLine> = selected.by_ref().take(max).collect();
        let has_more = selected.next().is_some();
        let next = found.last().map(|line| line.number);
        (found, next.filter(|_| has_more))
    }

    fn push(&self, level: &'static str, collected: FieldCollector) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_ms = u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.next_number;
        all.next_number += 1;
        all.push(&AuditLine {
            number,
            at_ms,
            level: level.into(),
            event: collected.event,
            fields: collected.fields,
        });
    }
}

impl<S: Subscriber> Layer<S> for AuditLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let mut collected = FieldCollector::default();
        event.record(&mut collected);
        self.0.push(level, collected);
    }
}

impl FieldCollector {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for FieldCollector {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "event" {
            value.clone_into(&mut self.event);
        } else {
            self.insert(field, shortened(value));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, shortened(&format!("{value:?}")));
    }
}

/// Returns the beginning of a text, with `…` if more follows.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_FIELD_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestored_broker::audit;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn the_last_lines_of_the_audit_trail_are_kept() {
        let log = AuditLog::default();
        let subscriber = tracing_subscriber::registry().with(log.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("something else");
            tracing::debug!(target: audit::ADMIN, event = "request", "not kept");
            for number in 0..1_100_u64 {
                let client = if number % 2 == 0 { "even" } else { "odd" };
                tracing::info!(
                    target: audit::CONNECTION,
                    event = "connected",
                    client,
                    number,
                    "a client connected"
                );
            }
            tracing::warn!(target: audit::ADMIN, event = "denied", path = "x".repeat(1_000), "no");
        });
        let (lines, next) = log.recent(None, 10_000, |_| true);
        assert_eq!((lines.len(), next), (MAX_LINES, None));
        assert_eq!((&*lines[0].level, &*lines[0].event), ("warn", "denied"));
        let path = lines[0].fields["path"].as_str().unwrap();
        assert_eq!(path.chars().count(), MAX_FIELD_CHARS + 1);
        let of_odd = |line: &AuditLine| line.fields.get("client") == Some(&"odd".into());
        let (page, next) = log.recent(None, 2, of_odd);
        let numbers = |lines: &[AuditLine]| {
            let numbers = lines.iter().map(|line| line.fields["number"].as_u64());
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(numbers(&page), [Some(1_099), Some(1_097)]);
        let (page, _) = log.recent(next, 1, of_odd);
        assert_eq!(numbers(&page), [Some(1_095)]);
        let (rest, next) = log.recent(next, 10_000, of_odd);
        assert_eq!((rest.len(), next), (498, None));
        let capacity = || log.0.lock().unwrap().bytes.capacity();
        let before = capacity();
        let subscriber = tracing_subscriber::registry().with(log.layer());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2_000 {
                tracing::warn!(target: audit::ADMIN, path = "x".repeat(1_000), "no");
            }
        });
        let (lines, _) = log.recent(None, 10_000, |_| true);
        assert!((800..MAX_LINES).contains(&lines.len()), "{}", lines.len());
        assert_eq!(capacity(), before);
    }
}
