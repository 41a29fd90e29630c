//! Snapshot and watch of etcd's changes.
use super::connection;
use super::key_names::KeyNames;
use super::members::{Member, Members};
use super::progress::{Progress, RevisionPoller, read_manifest};
use super::ranges::decode_key;
use super::snapshot::SnapshotReader;
use super::store::Store;
use super::transactions::decode_record;
use super::{MAX_MESSAGE_BYTES, REQUEST_TIMEOUT};
use bytes::Bytes;
use etcd_client::{
    Client, Error, EventType, KeyValue, ResponseHeader, WatchOptions, WatchResponse, WatchStream,
};
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_link::log_deduplicator::LogDeduplicator;
use statestored_shared::{EngineError, EngineEvent, EngineRequestId, Record, Revision};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

/// Time for which a broken watch is resumed where it stopped, at any member. Afterwards, everything is read again.
const RESUME_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Reports a snapshot and all changes after it, and finally that some may be missed.
pub(super) async fn watch(
    members: Arc<Members>,
    store: Arc<Store>,
    id: EngineRequestId,
    batch_size: Arc<AdaptiveBatchSize>,
    log_deduplicator: LogDeduplicator,
    events: UnboundedSender<EngineEvent>,
) {
    let task = WatchTask {
        members: &members,
        store: &store,
        revision_poller: RevisionPoller::start(&members, &store),
        request_id: id,
        events: &events,
        log_deduplicator: &log_deduplicator,
        broken_since: None,
        other_keys: NonRecordKeys::new(store.names()),
        reported_revision: 0,
        partial: None,
    };
    let (reason, error) = match task.run(&batch_size).await {
        WatchError::Transient(reason) | WatchError::Gap(reason) => (reason, None),
        WatchError::Permanent(error) => (error.to_string(), Some(error)),
    };
    if log_deduplicator.is_new(&format!("lost: {reason}")) {
        tracing::warn!(
            reason,
            "etcd no longer has the changes since the last one received; the server reads all keys and watches again"
        );
    }
    // The receiver may be gone.
    let _ = events.send(EngineEvent::WatchLost(id, error));
}

/// The reason why a watch broke.
enum WatchError {
    /// The reason is temporary.
    Transient(String),
    /// Changes after the last reported one are no longer available.
    Gap(String),
    Permanent(EngineError),
}

impl From<EngineError> for WatchError {
    fn from(error: EngineError) -> Self {
        Self::Permanent(error)
    }
}

impl From<Error> for WatchError {
    fn from(error: Error) -> Self {
        Self::Transient(connection::describe(&error))
    }
}

fn transient(reason: &str) -> WatchError {
    WatchError::Transient(reason.into())
}

/// A key with its record, or `None` if it has none any more.
type RecordChange = (Bytes, Option<Record>);

/// A watch, from its snapshot until changes are missed.
struct WatchTask<'a> {
    members: &'a Arc<Members>,
    store: &'a Arc<Store>,
    revision_poller: RevisionPoller,
    request_id: EngineRequestId,
    events: &'a UnboundedSender<EngineEvent>,
    log_deduplicator: &'a LogDeduplicator,
    /// Time since when only failures of the watch were received.
    broken_since: Option<Instant>,
    other_keys: NonRecordKeys,
    /// The revision up to which all changes were reported.
    reported_revision: i64,
    /// Changes of a later revision that may still be incomplete.
    partial: Option<(i64, Vec<RecordChange>)>,
}

impl WatchTask<'_> {
    fn send(&self, event: EngineEvent) {
        // The receiver may be gone.
        let _ = self.events.send(event);
    }

    /// Reports a snapshot and all changes after it, until some may be missed. Returns the reason.
    async fn run(mut self, batch_size: &AdaptiveBatchSize) -> WatchError {
        let stream = match self.start(batch_size).await {
            Ok(stream) => stream,
            Err(broken) => return broken,
        };
        let mut broken = self.receive(stream).await;
        loop {
            let WatchError::Transient(reason) = &broken else {
                return broken;
            };
            if self.log_deduplicator.is_new(reason) {
                tracing::info!(
                    reason,
                    "the watch of etcd broke, and resumes where it ended"
                );
            }
            self.send(EngineEvent::WatchInterrupted(self.request_id));
            self.partial = None;
            let stream = match self.resume(broken).await {
                Ok(stream) => stream,
                Err(broken) => return broken,
            };
            self.send(EngineEvent::WatchResumed(self.request_id));
            broken = self.receive(stream).await;
        }
    }

    async fn start(&mut self, batch_size: &AdaptiveBatchSize) -> Result<OpenWatch, WatchError> {
        let snapshot = SnapshotReader {
            members: self.members,
            store: self.store,
            batch_size,
            retry_timeout: Duration::ZERO,
        };
        let report = |records| {
            self.send(EngineEvent::Snapshot(self.request_id, records));
            Ok::<_, WatchError>(())
        };
        let (at, floors) = snapshot.read(report).await?;
        self.reported_revision = at;
        let stream = self.open().await?;
        let at = Revision(u64::try_from(at).unwrap_or_default());
        self.send(EngineEvent::Synced(self.request_id, at, floors));
        self.log_deduplicator.forget();
        Ok(stream)
    }

    /// Opens a watch on all changes after the reported ones.
    async fn open(&self) -> Result<OpenWatch, WatchError> {
        // In fragments: accumulated changes may be far more than fit one message.
        let options = WatchOptions::new()
            .with_prefix()
            .with_fragment()
            .with_start_revision(self.reported_revision.saturating_add(1));
        let (member, client) = self
            .members
            .choose()
            .ok_or_else(|| transient("there is no connection to any member"))?;
        let mut watch = client
            .watch_client()
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        let opening = watch.watch(self.store.names().all(), Some(options));
        let broken = match timeout(REQUEST_TIMEOUT, opening).await {
            Ok(Ok(stream)) => {
                return Ok(OpenWatch {
                    member,
                    client,
                    stream,
                });
            }
            Ok(Err(error)) => error.into(),
            Err(_) => transient("it does not answer"),
        };
        if let WatchError::Transient(reason) = &broken {
            member.suspend(reason);
        }
        Err(broken)
    }

    /// Reopens the watch, which broke for this reason. Retries for some time after the last response.
    async fn resume(&mut self, mut broken: WatchError) -> Result<OpenWatch, WatchError> {
        let is_first = self.broken_since.is_none();
        let until = *self.broken_since.get_or_insert_with(Instant::now) + RESUME_TIMEOUT;
        if !is_first {
            sleep(RETRY_PAUSE).await;
        }
        while Instant::now() < until {
            broken = match self.reopen().await {
                Err(broken @ WatchError::Transient(_)) => broken,
                result => return result,
            };
            sleep(RETRY_PAUSE).await;
        }
        Err(broken)
    }

    /// Reopens the watch once it is certain that the store is the same, and has all reported changes.
    async fn reopen(&self) -> Result<OpenWatch, WatchError> {
        let latest = self.store.latest();
        let found = read_manifest(self.members, self.store).await?;
        self.store.check_header(found.header(), latest)?;
        self.store.check_manifest(&found)?;
        self.open().await
    }

    /// Reports changes until none arrive or the watch is behind. Returns the reason.
    async fn receive(&mut self, opened: OpenWatch) -> WatchError {
        let OpenWatch {
            member,
            client,
            mut stream,
        } = opened;
        let given_up = member.abandoned();
        let mut given_up = std::pin::pin!(given_up);
        let mut progress = Progress::new(self.reported_revision);
        loop {
            let response = tokio::select! {
                response = stream.message() => response,
                () = &mut given_up => return transient("its member is avoided"),
                confirmed = self.revision_poller.next() => {
                    progress.revision_confirmed(confirmed);
                    // Only a watch that is not behind answers. More changes may arrive before its answer.
                    if progress.is_lagging() && let Err(error) = stream.request_progress().await {
                        return error.into();
                    }
                    self.report_progress(&mut progress);
                    continue;
                }
                reason = progress.stalled() => {
                    member.suspend(reason);
                    return transient(reason);
                }
            };
            let response = match response {
                Ok(Some(response)) => response,
                Ok(None) => return transient("it has ended"),
                Err(error) => return error.into(),
            };
            let is_word = !response.created() && !response.canceled();
            if is_word && self.broken_since.take().is_some() {
                self.log_deduplicator.forget();
            }
            if response.canceled() {
                let reason = format!("it was cancelled: {}", response.cancel_reason());
                // A user's token is valid for some minutes.
                if reason.contains("invalid auth token")
                    && let Err(error) = client.refresh_token().await
                {
                    member.suspend(&connection::describe(&error));
                }
                return match response.compact_revision() {
                    0 => WatchError::Transient(reason),
                    _ => WatchError::Gap(reason),
                };
            }
            if let Err(error) = self.report_changes(&response) {
                return error.into();
            }
            // The header shows the latest revision even in front of changes that the watch still has to catch up with.
            let is_progress = response.events().is_empty() && !response.created();
            let at = response.header().map_or(0, ResponseHeader::revision);
            progress.revision_reached(if is_progress {
                at.max(self.reported_revision)
            } else {
                self.reported_revision
            });
            self.report_progress(&mut progress);
        }
    }

    fn report_progress(&self, progress: &mut Progress) {
        if let Some(since) = progress.take_confirmed() {
            self.send(EngineEvent::WatchProgress(self.request_id, since.elapsed()));
        }
    }

    /// Reports the changes of each revision as soon as they are complete.
    fn report_changes(&mut self, response: &WatchResponse) -> Result<(), EngineError> {
        let events = response.events();
        let revision = |event: &etcd_client::Event| event.kv().map_or(0, KeyValue::mod_revision);
        for group in events.chunk_by(|a, b| revision(a) == revision(b)) {
            let at = group.first().map_or(0, revision);
            if self.partial.as_ref().is_some_and(|(of, _)| *of != at) {
                self.report_partial();
            }
            let (_, changes) = self
                .partial
                .get_or_insert_with(|| (at, Vec::with_capacity(group.len())));
            for event in group {
                changes.extend(change_of(event, &self.other_keys, self.store)?);
            }
        }
        // More of the same revision may be in the next fragment.
        if !response.0.fragment {
            self.report_partial();
        }
        Ok(())
    }

    fn report_partial(&mut self) {
        if let Some((at, changes)) = self.partial.take() {
            self.reported_revision = at;
            let at = Revision(u64::try_from(at).unwrap_or_default());
            self.send(EngineEvent::Changes(self.request_id, at, changes));
        }
    }
}

/// A watch and its member.
struct OpenWatch {
    member: Arc<Member>,
    client: Client,
    stream: WatchStream,
}

/// Names that are not those of records.
struct NonRecordKeys {
    manifest: Vec<u8>,
    own_keys: [Vec<u8>; 2],
    prefixes: [Vec<u8>; 3],
}

impl NonRecordKeys {
    fn new(names: &KeyNames) -> Self {
        Self {
            manifest: names.manifest(),
            own_keys: [names.mark(), names.compaction()],
            prefixes: [names.floors(), names.replies(), names.clocks()],
        }
    }

    fn contains(&self, name: &[u8]) -> bool {
        self.own_keys.iter().any(|own| name == own)
            || self.prefixes.iter().any(|kind| name.starts_with(kind))
    }
}

/// Returns the change of an event, if it is about a record.
fn change_of(
    event: &etcd_client::Event,
    other_keys: &NonRecordKeys,
    store: &Store,
) -> Result<Option<RecordChange>, EngineError> {
    let Some(entry) = event.kv() else {
        return Ok(None);
    };
    if entry.key() == other_keys.manifest {
        let is_put = event.event_type() == EventType::Put;
        return Err(store.other_store_error(is_put.then_some(entry)));
    }
    if other_keys.contains(entry.key()) {
        return Ok(None);
    }
    let record = match event.event_type() {
        EventType::Delete => None,
        EventType::Put => Some(decode_record(entry)?),
    };
    Ok(Some((decode_key(entry, store.names())?, record)))
}
