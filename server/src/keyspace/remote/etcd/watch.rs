//! Snapshots, pages, and the changes behind them.
use super::connecting;
use super::names::{Names, decode_floor};
use super::transactions::{record_of, revision_of};
use super::{MAX_MESSAGE_BYTES, REQUEST_TIMEOUT};
use crate::keyspace::remote::{AskId, BUCKETS, Found, FoundPage, News, Record, Revision};
use crate::keyspace::rules::Version;
use bytes::Bytes;
use etcd_client::{
    Client, Error, EventType, GetOptions, GetResponse, KvClient, ResponseHeader, WatchOptions,
    WatchResponse,
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
    names: Arc<Names>,
    ask: AskId,
    tell: UnboundedSender<News>,
) {
    let reason = match follow(&client, &names, ask, &tell).await {
        Ok(reason) => reason,
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
            text
        }
    };
    tracing::warn!(
        reason,
        "the changes of etcd are not known any more; they are watched anew"
    );
    // Nobody may listen any more.
    let _ = tell.send(News::WatchLost(ask));
}

/// Tells a snapshot and all changes behind it, until some may be missed: says why.
async fn follow(
    client: &Client,
    names: &Names,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> Result<String, Error> {
    let Some((at, floors)) = snapshot(client, names, ask, tell).await? else {
        return Ok("it holds what this program cannot read".into());
    };
    let begins = i64::try_from(at.0).unwrap_or(i64::MAX).saturating_add(1);
    let options = WatchOptions::new()
        .with_prefix()
        .with_start_revision(begins);
    let mut watch = client
        .watch_client()
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let opening = timeout(REQUEST_TIMEOUT, watch.watch(names.entries(), Some(options)));
    let Ok(opened) = opening.await else {
        return Ok("it does not answer".into());
    };
    let mut stream = opened?;
    let _ = tell.send(News::Synced(ask, at, floors));
    let mut is_asked = false;
    loop {
        let response = match timeout(SILENCE, stream.message()).await {
            Ok(response) => response?,
            Err(_) if is_asked => return Ok("it has been silent".into()),
            Err(_) => {
                is_asked = true;
                stream.request_progress().await?;
                continue;
            }
        };
        is_asked = false;
        let Some(response) = response else {
            return Ok("it has ended".into());
        };
        if response.canceled() {
            return Ok(format!("it was cancelled: {}", response.cancel_reason()));
        }
        if !tell_changes(&response, names, ask, tell) {
            return Ok("it holds what this program cannot read".into());
        }
    }
}

/// Tells the changes of each revision; whether all of them could be read.
fn tell_changes(
    response: &WatchResponse,
    names: &Names,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> bool {
    let events = response.events();
    let revision = |event: &etcd_client::Event| event.kv().map(revision_of).unwrap_or_default();
    for group in events.chunk_by(|a, b| revision(a) == revision(b)) {
        let mut changes: Vec<(Bytes, Option<Record>)> = Vec::with_capacity(group.len());
        for event in group {
            let Some(found) = event.kv() else { continue };
            let Some(key) = names.key(found.key()) else {
                tracing::error!(name = ?String::from_utf8_lossy(found.key()), "a key that this program did not write");
                return false;
            };
            let record = match event.event_type() {
                EventType::Delete => None,
                EventType::Put => match record_of(found) {
                    Ok(record) => Some(record),
                    Err(error) => {
                        tracing::error!(%error, "a record that this program cannot read");
                        return false;
                    }
                },
            };
            changes.push((key, record));
        }
        let at = group.first().map(revision).unwrap_or_default();
        let _ = tell.send(News::Changes(ask, at, changes));
    }
    true
}

fn found(response: &GetResponse, names: &Names) -> Option<Vec<Found>> {
    let found = response.kvs().iter().map(|found| {
        let record = record_of(found).inspect_err(|error| {
            tracing::error!(%error, "a record that this program cannot read");
        });
        Some(Found {
            key: names.key(found.key())?,
            record: record.ok()?,
            revision: revision_of(found),
        })
    });
    found.collect()
}

/// Tells all records at one revision, and gives that and the floors; nothing if it cannot be read.
async fn snapshot(
    client: &Client,
    names: &Names,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> Result<Option<(Revision, Vec<Version>)>, Error> {
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
        let response = kv.get(from.clone(), Some(options)).await?;
        if at == 0 {
            at = response.header().map_or(0, ResponseHeader::revision);
        }
        let Some(records) = found(&response, names) else {
            return Ok(None);
        };
        if let Some(last) = response.kvs().last() {
            from = [last.key(), b"\0"].concat();
        }
        let _ = tell.send(News::Snapshot(ask, records));
        if !response.more() {
            break;
        }
    }
    let options = GetOptions::new().with_prefix().with_revision(at);
    let response = kv.get(names.floors(), Some(options)).await?;
    let floors: Option<Vec<_>> = response
        .kvs()
        .iter()
        .map(|found| decode_floor(found.value()))
        .collect();
    let floors = floors.filter(|floors| floors.len() == usize::from(BUCKETS));
    let at = Revision(u64::try_from(at).unwrap_or_default());
    Ok(floors.map(|floors| (at, floors)))
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
    names: Arc<Names>,
    ask: AskId,
    after: Option<(u16, Bytes)>,
    most: usize,
    tell: UnboundedSender<News>,
) {
    let entries = names.entries();
    let from = match after {
        Some((bucket, key)) => [&names.entry(bucket, &key)[..], b"\0"].concat(),
        None => entries.clone(),
    };
    let options = GetOptions::new()
        .with_range(prefix_end(&entries))
        .with_limit(i64::try_from(most).unwrap_or(AT_ONCE));
    let page = match timeout(REQUEST_TIMEOUT, kv.get(from, Some(options))).await {
        Ok(Ok(response)) => found(&response, &names).map(|records| FoundPage {
            records,
            has_more: response.more(),
        }),
        _ => None,
    };
    let _ = tell.send(News::Page(ask, page));
}
