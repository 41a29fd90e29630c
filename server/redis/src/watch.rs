//! Snapshots and the changes after them. Each change is an item of the stream, whose revisions have no gaps.
use super::RedisConfig;
use super::batch_sizes::BatchSizes;
use super::change_reporter::{ChangePosition, ChangeReporter};
use super::connection::{self, Session};
use super::key_names::SHELVES;
use super::reader::{ReadError, Reader, StreamItem, decode_record, next_revision, transient};
use super::transactions::ConnectionStatus;
use ::redis::Value;
use statestored_link::log_deduplicator::LogDeduplicator;
use statestored_shared::{EngineEvent, EngineRequestId, KeyedRecord};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// Approximate maximum number of entries of a shelf read at once.
const MAX_SCANNED_ENTRIES: usize = 1_000;

/// Time for which Redis waits for the next change before it reports that there was none.
const STREAM_TIMEOUT: Duration = Duration::from_secs(1);

/// Reports a snapshot and all changes after it, and finally that some may be missed.
pub(super) async fn watch(
    config: Arc<RedisConfig>,
    session: Arc<Session>,
    (batch_sizes, reporter): (BatchSizes, Arc<ChangeReporter>),
    log_deduplicator: LogDeduplicator,
    id: EngineRequestId,
    events: UnboundedSender<EngineEvent>,
) -> ConnectionStatus {
    let mut status = ConnectionStatus::Usable;
    let lost = tokio::select! {
        lost = run_watch(&config, &session, (&batch_sizes, &reporter), &log_deduplicator, id, &events) => lost,
        () = session.left() => transient("redis has another master"),
    };
    reporter.end_watch(id);
    let (reason, error) = match lost {
        ReadError::Transient(reason) => (reason, None),
        ReadError::Permanent(error) => (error.to_string(), Some(error)),
        ReadError::ConnectionLost => {
            status = ConnectionStatus::Lost;
            ("the connection to redis must be renewed".into(), None)
        }
    };
    if log_deduplicator.is_new(&reason) {
        tracing::warn!(
            reason,
            "redis no longer has the changes since the last one received; the server reads all keys and watches again"
        );
    }
    // The receiver may be gone.
    let _ = events.send(EngineEvent::WatchLost(id, error));
    status
}

async fn run_watch(
    config: &RedisConfig,
    session: &Session,
    (batch_sizes, reporter): (&BatchSizes, &ChangeReporter),
    log_deduplicator: &LogDeduplicator,
    id: EngineRequestId,
    events: &UnboundedSender<EngineEvent>,
) -> ReadError {
    let connection = match connection::connect(config, &session.address).await {
        Ok(connection) => connection,
        Err(obstacle) => return transient(&obstacle.describe()),
    };
    let watch = WatchTask {
        reader: Reader {
            connection,
            session,
            batch_sizes,
        },
        reporter,
        log_deduplicator,
        request_id: id,
        events,
    };
    match watch.run().await {
        Err(lost) => lost,
    }
}

struct WatchTask<'a> {
    reader: Reader<'a>,
    reporter: &'a ChangeReporter,
    log_deduplicator: &'a LogDeduplicator,
    request_id: EngineRequestId,
    events: &'a UnboundedSender<EngineEvent>,
}

impl WatchTask<'_> {
    async fn run(mut self) -> Result<std::convert::Infallible, ReadError> {
        let (before, _) = self.reader.position().await?;
        self.report_entries().await?;
        let (at, floors) = self.reader.position().await?;
        // Changes made while the entries were read may be missing among them.
        let mut known = before;
        while known < at {
            let items = self.reader.items_after(known, None).await?;
            if items.is_empty() {
                return Err(transient("some were not there any more"));
            }
            for item in items {
                known = next_revision(known, &item)?;
                self.report_as_entries(item);
            }
        }
        let at = at.max(known);
        let _ = self
            .events
            .send(EngineEvent::Synced(self.request_id, at, floors));
        self.reporter.begin_watch(self.request_id, at);
        self.log_deduplicator.forget();
        loop {
            self.reporter.wait_until_due().await;
            let at = self.reporter.reported_revision(self.request_id);
            let at = at.ok_or_else(|| transient("another watch has begun"))?;
            let begun = Instant::now();
            let most = self.reader.batch_sizes.items.current();
            let items = self.reader.items_after(at, Some(STREAM_TIMEOUT)).await?;
            // There are no other changes, or there were none when Redis had waited.
            let waited = if items.is_empty() {
                STREAM_TIMEOUT
            } else {
                Duration::ZERO
            };
            let is_all = items.len() < most;
            let ago = begun.elapsed().saturating_sub(waited);
            for StreamItem {
                revision: at,
                changes,
            } in items
            {
                if self
                    .reporter
                    .report_from_stream(self.request_id, at, changes, self.events)
                    == ChangePosition::Ahead
                {
                    return Err(transient("some were not there any more"));
                }
            }
            if is_all {
                let _ = self
                    .events
                    .send(EngineEvent::WatchProgress(self.request_id, ago));
            }
        }
    }

    /// Reports all entries, each as it is when it is read.
    async fn report_entries(&mut self) -> Result<(), ReadError> {
        let (session, batch_sizes) = (self.reader.session, self.reader.batch_sizes);
        let mut left: Vec<(u16, Vec<u8>)> = Vec::new();
        let mut next = 0;
        loop {
            let most = batch_sizes.entries.current();
            let shelves = (most / MAX_SCANNED_ENTRIES).max(1);
            while left.len() < shelves && next < SHELVES {
                left.push((next, b"0".to_vec()));
                next += 1;
            }
            if left.is_empty() {
                return Ok(());
            }
            let mut commands = ::redis::pipe();
            for (shelf, cursor) in &left {
                commands.cmd("HSCAN").arg(session.names.entries(*shelf));
                commands.arg(&cursor[..]).arg("COUNT");
                commands.arg(most.min(MAX_SCANNED_ENTRIES));
            }
            let begun = Instant::now();
            let answers = self.reader.query(commands).await;
            batch_sizes.entries.finished(most, begun.elapsed());
            let answers = answers?;
            let mut later = Vec::new();
            let mut records = Vec::new();
            for ((shelf, _), answer) in left.into_iter().zip(answers) {
                let (cursor, found) = decode_scan(answer)?;
                records.extend(found);
                if cursor != b"0" {
                    later.push((shelf, cursor));
                }
            }
            left = later;
            let _ = self
                .events
                .send(EngineEvent::Snapshot(self.request_id, records));
        }
    }

    fn report_as_entries(&self, item: StreamItem) {
        let StreamItem {
            revision: at,
            changes,
        } = item;
        let records = changes.into_iter().filter_map(|(key, record)| {
            Some(KeyedRecord {
                key,
                record: record?,
                revision: at,
            })
        });
        let records = records.collect();
        let _ = self
            .events
            .send(EngineEvent::Snapshot(self.request_id, records));
    }
}

/// Returns the cursor and the entries of an answer.
fn decode_scan(answer: Value) -> Result<(Vec<u8>, Vec<KeyedRecord>), ReadError> {
    let Value::Array(parts) = answer else {
        return Err(ReadError::Transient(format!("redis answers {answer:?}")));
    };
    let [Value::BulkString(cursor), Value::Array(fields)] = &parts[..] else {
        return Err(ReadError::Transient(format!("redis answers {parts:?}")));
    };
    let found = fields
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[key, value]| decode_record(key, value));
    let found = found.collect::<Result<_, _>>()?;
    Ok((cursor.clone(), found))
}
