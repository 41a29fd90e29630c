//! Snapshots, pages, and the changes behind them.
use super::connecting;
use super::names::{Names, decode_floor};
use super::store::Store;
use super::transactions::{record_of, revision_of};
use super::{MAX_MESSAGE_BYTES, REQUEST_TIMEOUT};
use crate::keyspace::remote::{
    AskId, BUCKETS, EngineError, Found, FoundPage, News, Record, Revision,
};
use crate::keyspace::rules::Version;
use bytes::Bytes;
use etcd_client::{
    Client, Error, EventType, GetOptions, GetResponse, KeyValue, KvClient, ResponseHeader,
    WatchOptions, WatchResponse,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

/// Most records of one answer of a snapshot.
const AT_ONCE: i64 = 1_000;

/// After so long without a word a watch is asked for one, and then counts as lost.
const SILENCE: Duration = Duration::from_secs(5);

/// Tells a snapshot and all changes behind it, and then that some may be missed.
pub(super) async fn watch(
    client: Client,
    store: Arc<Store>,
    ask: AskId,
    tell: UnboundedSender<News>,
) {
    let (reason, error) = match follow(&client, &store, ask, &tell).await {
        Ok(Lost::Passing(reason)) => (reason, None),
        Ok(Lost::ForGood(error)) => (error.to_string(), Some(error)),
        Err(error) => {
            let text = connecting::describe(&error);
            // A token of a user is good for some minutes.
            if text.contains("invalid auth token")
                && let Err(error) = client.refresh_token().await
            {
                tracing::warn!(
                    error = connecting::describe(&error),
                    "etcd does not accept the user any more"
                );
            }
            (text, None)
        }
    };
    tracing::warn!(
        reason,
        "the changes of etcd are not known any more; they are watched anew"
    );
    // Nobody may listen any more.
    let _ = tell.send(News::WatchLost(ask, error));
}

/// Why changes may be missed.
enum Lost {
    /// It may be otherwise in a moment.
    Passing(String),
    ForGood(EngineError),
}

impl From<EngineError> for Lost {
    fn from(error: EngineError) -> Self {
        Self::ForGood(error)
    }
}

fn passing(reason: &str) -> Lost {
    Lost::Passing(reason.into())
}

/// Tells a snapshot and all changes behind it, until some may be missed: says why.
async fn follow(
    client: &Client,
    store: &Store,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> Result<Lost, Error> {
    let names = store.names();
    let (at, floors) = match snapshot(client, store, ask, tell).await? {
        Ok(snapshot) => snapshot,
        Err(error) => return Ok(error.into()),
    };
    let begins = i64::try_from(at.0).unwrap_or(i64::MAX).saturating_add(1);
    let options = WatchOptions::new()
        .with_prefix()
        .with_start_revision(begins);
    let mut watch = client
        .watch_client()
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let opening = timeout(REQUEST_TIMEOUT, watch.watch(names.all(), Some(options)));
    let Ok(opened) = opening.await else {
        return Ok(passing("it does not answer"));
    };
    let mut stream = opened?;
    let _ = tell.send(News::Synced(ask, at, floors));
    let mut is_asked = false;
    loop {
        let response = match timeout(SILENCE, stream.message()).await {
            Ok(response) => response?,
            Err(_) if is_asked => return Ok(passing("it has been silent")),
            Err(_) => {
                is_asked = true;
                stream.request_progress().await?;
                continue;
            }
        };
        is_asked = false;
        let Some(response) = response else {
            return Ok(passing("it has ended"));
        };
        if response.canceled() {
            return Ok(Lost::Passing(format!(
                "it was cancelled: {}",
                response.cancel_reason()
            )));
        }
        if let Err(error) = tell_changes(&response, store, ask, tell) {
            return Ok(error.into());
        }
    }
}

/// Tells the changes of each revision.
fn tell_changes(
    response: &WatchResponse,
    store: &Store,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> Result<(), EngineError> {
    let names = store.names();
    let manifest = names.manifest();
    let own = [names.mark(), names.compaction()];
    let beside = [names.floors(), names.answers(), names.clocks()];
    let events = response.events();
    if events.is_empty() {
        let _ = tell.send(News::Watching(ask));
    }
    let revision = |event: &etcd_client::Event| event.kv().map(revision_of).unwrap_or_default();
    for group in events.chunk_by(|a, b| revision(a) == revision(b)) {
        let mut changes: Vec<(Bytes, Option<Record>)> = Vec::with_capacity(group.len());
        for event in group {
            let Some(found) = event.kv() else { continue };
            if found.key() == manifest {
                let is_put = event.event_type() == EventType::Put;
                return Err(store.is_another(is_put.then_some(found)));
            }
            if beside.iter().any(|kind| found.key().starts_with(kind))
                || own.iter().any(|name| found.key() == name)
            {
                continue;
            }
            let record = match event.event_type() {
                EventType::Delete => None,
                EventType::Put => Some(record_of(found)?),
            };
            changes.push((key_of(found, names)?, record));
        }
        let at = group.first().map(revision).unwrap_or_default();
        let _ = tell.send(News::Changes(ask, at, changes));
    }
    Ok(())
}

fn key_of(found: &KeyValue, names: &Names) -> Result<Bytes, EngineError> {
    names.key(found.key()).ok_or_else(|| {
        let name = String::from_utf8_lossy(found.key());
        EngineError::Foreign(format!("this program gives no key the name {name:?}"))
    })
}

fn found(response: &GetResponse, names: &Names) -> Result<Vec<Found>, EngineError> {
    let found = response.kvs().iter().map(|found| {
        Ok(Found {
            key: key_of(found, names)?,
            record: record_of(found)?,
            revision: revision_of(found),
        })
    });
    found.collect()
}

type Snapshot = (Revision, Vec<Version>);

/// Tells all records at one revision, and gives that and the floors.
async fn snapshot(
    client: &Client,
    store: &Store,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> Result<Result<Snapshot, EngineError>, Error> {
    if let Err(error) = store.check() {
        return Ok(Err(error));
    }
    let names = store.names();
    let latest = store.latest();
    let mut kv = super::transactions::kv(client);
    let entries = names.entries();
    let end = prefix_end(&entries);
    let mut from = entries;
    let mut at = 0;
    loop {
        let options = GetOptions::new()
            .with_range(end.clone())
            .with_revision(at)
            .with_limit(AT_ONCE);
        let response = soon(kv.get(from.clone(), Some(options))).await?;
        if let Err(error) = store.look_at(response.header(), latest) {
            return Ok(Err(error));
        }
        if at == 0 {
            at = response.header().map_or(0, ResponseHeader::revision);
        }
        let records = match found(&response, names) {
            Ok(records) => records,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(last) = response.kvs().last() {
            from = [last.key(), b"\0"].concat();
        }
        let _ = tell.send(News::Snapshot(ask, records));
        if !response.more() {
            break;
        }
    }
    let options = GetOptions::new().with_revision(at);
    let manifest = soon(kv.get(names.manifest(), Some(options))).await?;
    if let Err(error) = store.look_at_manifest(&manifest) {
        return Ok(Err(error));
    }
    let options = GetOptions::new().with_prefix().with_revision(at);
    let response = soon(kv.get(names.floors(), Some(options))).await?;
    let floors: Option<Vec<_>> = response
        .kvs()
        .iter()
        .map(|found| decode_floor(found.value()))
        .collect();
    let floors = floors.filter(|floors| floors.len() == usize::from(BUCKETS));
    let at = Revision(u64::try_from(at).unwrap_or_default());
    let missing = || EngineError::Foreign("floors are missing: data was lost".into());
    Ok(floors.map(|floors| (at, floors)).ok_or_else(missing))
}

/// An answer that does not come in time would keep the watch from being begun at another member.
async fn soon<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Err(Error::IoError(std::io::ErrorKind::TimedOut.into()));
    timeout(SILENCE, asking).await.unwrap_or_else(late)
}

/// The first name behind all that begin so.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // Prefixes end with a slash here, which has a successor.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// Records behind a key.
pub(super) async fn page(
    mut kv: KvClient,
    store: Arc<Store>,
    ask: AskId,
    after: Option<(u16, Bytes)>,
    most: usize,
    tell: UnboundedSender<News>,
) {
    let page = page_behind(&mut kv, &store, after, most).await;
    let _ = tell.send(News::Page(ask, page));
}

async fn page_behind(
    kv: &mut KvClient,
    store: &Store,
    after: Option<(u16, Bytes)>,
    most: usize,
) -> Result<FoundPage, Option<EngineError>> {
    store.check()?;
    let names = store.names();
    let entries = names.entries();
    let from = match after {
        Some((bucket, key)) => [&names.entry(bucket, &key)[..], b"\0"].concat(),
        None => entries.clone(),
    };
    let options = GetOptions::new()
        .with_range(prefix_end(&entries))
        .with_limit(i64::try_from(most).unwrap_or(AT_ONCE));
    let latest = store.latest();
    let Ok(Ok(response)) = timeout(REQUEST_TIMEOUT, kv.get(from, Some(options))).await else {
        return Err(None);
    };
    store.look_at(response.header(), latest)?;
    Ok(FoundPage {
        records: found(&response, names)?,
        has_more: response.more(),
    })
}
