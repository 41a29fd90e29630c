//! Records in the order of their names, in answers of limited size.
use super::REQUEST_TIMEOUT;
use super::limits::says_too_much;
use super::members::Members;
use super::names::Names;
use super::store::Store;
use super::transactions::{self, record_of, revision_of};
use crate::keyspace::remote::portion::Portion;
use crate::keyspace::remote::{AskId, EngineError, Found, FoundPage, News};
use bytes::Bytes;
use etcd_client::{Error, GetOptions, GetResponse, KeyValue};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// Maximum number of records in one answer.
pub(super) const AT_ONCE: usize = 1_000;

/// Size in bytes above which an answer is larger than necessary: it delays other answers.
const ENOUGH_BYTES: usize = 8 * 1024 * 1024;

pub(super) fn key_of(found: &KeyValue, names: &Names) -> Result<Bytes, EngineError> {
    names.key(found.key()).ok_or_else(|| {
        let name = String::from_utf8_lossy(found.key());
        EngineError::Foreign(format!("this program gives no key the name {name:?}"))
    })
}

pub(super) fn found(response: &GetResponse, names: &Names) -> Result<Vec<Found>, EngineError> {
    let found = response.kvs().iter().map(|found| {
        Ok(Found {
            key: key_of(found, names)?,
            record: record_of(found)?,
            revision: revision_of(found),
        })
    });
    found.collect()
}

/// Entries from a name on, at this revision unless it is zero.
pub(super) struct Range {
    pub(super) from: Vec<u8>,
    pub(super) at: i64,
    pub(super) most: usize,
}

impl Range {
    /// Requests as many entries as make an answer of limited size.
    pub(super) async fn ask(
        &self,
        members: &Members,
        store: &Store,
        portion: &Portion,
        patience: Duration,
    ) -> Result<GetResponse, Error> {
        loop {
            let limit = self.most.min(portion.now());
            let options = GetOptions::new()
                .with_range(prefix_end(&store.names().entries()))
                .with_revision(self.at)
                .with_limit(i64::try_from(limit).unwrap_or(i64::MAX));
            let begun = Instant::now();
            let asking = members.ask_at_length(patience, |client| async move {
                let mut kv = transactions::kv(&client);
                kv.get(self.from.clone(), Some(options)).await
            });
            let error = match asking.await {
                Ok(response) => {
                    let sizes = response
                        .kvs()
                        .iter()
                        .map(|it| it.key().len() + it.value().len());
                    if sizes.sum::<usize>() > ENOUGH_BYTES {
                        portion.was_too_much(limit);
                    } else {
                        portion.came(response.kvs().len(), begun.elapsed());
                    }
                    return Ok(response);
                }
                Err(error) => error,
            };
            let is_too_large = says_too_much(&error);
            if is_too_large || is_late(&error) {
                portion.was_too_much(limit);
            }
            if !is_too_large || limit == 1 {
                return Err(error);
            }
        }
    }
}

/// Returns the error of a request whose answer is no longer awaited.
pub(super) fn late() -> Error {
    Error::IoError(std::io::ErrorKind::TimedOut.into())
}

pub(super) fn is_late(error: &Error) -> bool {
    matches!(error, Error::IoError(error) if error.kind() == std::io::ErrorKind::TimedOut)
}

/// Returns the first name behind all names with this prefix.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // Prefixes end with a slash here, which has a successor.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// Reads a page of records behind a key.
pub(super) async fn page(
    members: Arc<Members>,
    store: Arc<Store>,
    ask: AskId,
    after: Option<(u16, Bytes)>,
    (most, portion): (usize, Arc<Portion>),
    tell: UnboundedSender<News>,
) {
    let page = page_behind(&members, &store, after, most, &portion).await;
    let _ = tell.send(News::Page(ask, page));
}

async fn page_behind(
    members: &Members,
    store: &Store,
    after: Option<(u16, Bytes)>,
    most: usize,
    portion: &Portion,
) -> Result<FoundPage, Option<EngineError>> {
    store.check()?;
    let names = store.names();
    let from = match after {
        Some((bucket, key)) => [&names.entry(bucket, &key)[..], b"\0"].concat(),
        None => names.entries(),
    };
    let range = Range { from, at: 0, most };
    let latest = store.latest();
    let asking = range.ask(members, store, portion, REQUEST_TIMEOUT);
    let Ok(response) = asking.await else {
        return Err(None);
    };
    store.look_at(response.header(), latest)?;
    Ok(FoundPage {
        records: found(&response, names)?,
        has_more: response.more(),
    })
}
