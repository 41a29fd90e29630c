//! Snapshot and watch of etcd's changes.
use super::connecting;
use super::members::{Member, Members};
use super::names::Names;
use super::progress::{Certainty, Progress, read_manifest};
use super::ranges::key_of;
use super::snapshot::Snapshot;
use super::store::Store;
use super::transactions::record_of;
use super::{MAX_MESSAGE_BYTES, REQUEST_TIMEOUT};
use crate::keyspace::remote::portion::Portion;
use crate::keyspace::remote::said::Said;
use crate::keyspace::remote::{AskId, EngineError, News, Record, Revision};
use bytes::Bytes;
use etcd_client::{
    Client, Error, EventType, KeyValue, ResponseHeader, WatchOptions, WatchResponse, WatchStream,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

/// Time for which a broken watch is resumed where it stopped, at any member. Afterwards, everything is read again.
const RESUMED_WITHIN: Duration = Duration::from_secs(10);

/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(100);

/// Reports a snapshot and all changes after it, and finally that some may be missed.
pub(super) async fn watch(
    members: Arc<Members>,
    store: Arc<Store>,
    ask: AskId,
    portion: Arc<Portion>,
    said: Said,
    tell: UnboundedSender<News>,
) {
    let watching = Watching {
        members: &members,
        store: &store,
        certain: Certainty::begin(&members, &store),
        ask,
        tell: &tell,
        said: &said,
        broken_since: None,
        beside: Beside::new(store.names()),
        told: 0,
        part: None,
    };
    let (reason, error) = match watching.follow(&portion).await {
        Broken::Passing(reason) | Broken::Gap(reason) => (reason, None),
        Broken::ForGood(error) => (error.to_string(), Some(error)),
    };
    if said.is_new(&format!("lost: {reason}")) {
        tracing::warn!(
            reason,
            "the changes of etcd are not known any more; they are watched anew"
        );
    }
    // The receiver may be gone.
    let _ = tell.send(News::WatchLost(ask, error));
}

/// The reason why a watch broke.
enum Broken {
    /// The reason is temporary.
    Passing(String),
    /// Changes after the last reported one are no longer available.
    Gap(String),
    ForGood(EngineError),
}

impl From<EngineError> for Broken {
    fn from(error: EngineError) -> Self {
        Self::ForGood(error)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Passing(connecting::describe(&error))
    }
}

fn passing(reason: &str) -> Broken {
    Broken::Passing(reason.into())
}

/// A key with its record, or `None` if it has none any more.
type Change = (Bytes, Option<Record>);

/// A watch, from its snapshot until changes are missed.
struct Watching<'a> {
    members: &'a Arc<Members>,
    store: &'a Arc<Store>,
    certain: Certainty,
    ask: AskId,
    tell: &'a UnboundedSender<News>,
    said: &'a Said,
    /// Time since when only failures of the watch were received.
    broken_since: Option<Instant>,
    beside: Beside,
    /// The revision up to which all changes were reported.
    told: i64,
    /// Changes of a later revision that may still be incomplete.
    part: Option<(i64, Vec<Change>)>,
}

impl Watching<'_> {
    fn tell(&self, news: News) {
        // The receiver may be gone.
        let _ = self.tell.send(news);
    }

    /// Reports a snapshot and all changes after it, until some may be missed. Returns the reason.
    async fn follow(mut self, portion: &Portion) -> Broken {
        let stream = match self.begin(portion).await {
            Ok(stream) => stream,
            Err(broken) => return broken,
        };
        let mut broken = self.listen(stream).await;
        loop {
            let Broken::Passing(reason) = &broken else {
                return broken;
            };
            if self.said.is_new(reason) {
                tracing::info!(
                    reason,
                    "the watch of etcd broke, and is taken up where it was"
                );
            }
            self.tell(News::WatchBroken(self.ask));
            self.part = None;
            let stream = match self.resume(broken).await {
                Ok(stream) => stream,
                Err(broken) => return broken,
            };
            self.tell(News::WatchResumed(self.ask));
            broken = self.listen(stream).await;
        }
    }

    async fn begin(&mut self, portion: &Portion) -> Result<Opened, Broken> {
        let snapshot = Snapshot {
            members: self.members,
            store: self.store,
            portion,
            retried_for: Duration::ZERO,
        };
        let tell = |records| {
            self.tell(News::Snapshot(self.ask, records));
            Ok::<_, Broken>(())
        };
        let (at, floors) = snapshot.read(tell).await?;
        self.told = at;
        let stream = self.open().await?;
        let at = Revision(u64::try_from(at).unwrap_or_default());
        self.tell(News::Synced(self.ask, at, floors));
        self.said.forget();
        Ok(stream)
    }

    /// Opens a watch on all changes after the reported ones.
    async fn open(&self) -> Result<Opened, Broken> {
        // In fragments: accumulated changes may be far more than fit one message.
        let options = WatchOptions::new()
            .with_prefix()
            .with_fragment()
            .with_start_revision(self.told.saturating_add(1));
        let (member, client) = self
            .members
            .choose()
            .ok_or_else(|| passing("there is no connection to any member"))?;
        let mut watch = client
            .watch_client()
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        let opening = watch.watch(self.store.names().all(), Some(options));
        let broken = match timeout(REQUEST_TIMEOUT, opening).await {
            Ok(Ok(stream)) => {
                return Ok(Opened {
                    member,
                    client,
                    stream,
                });
            }
            Ok(Err(error)) => error.into(),
            Err(_) => passing("it does not answer"),
        };
        if let Broken::Passing(reason) = &broken {
            member.put_aside(reason);
        }
        Err(broken)
    }

    /// Reopens the watch, which broke for this reason. Retries for some time after the last response.
    async fn resume(&mut self, mut broken: Broken) -> Result<Opened, Broken> {
        let is_first = self.broken_since.is_none();
        let until = *self.broken_since.get_or_insert_with(Instant::now) + RESUMED_WITHIN;
        if !is_first {
            sleep(AGAIN).await;
        }
        while Instant::now() < until {
            broken = match self.open_again().await {
                Err(broken @ Broken::Passing(_)) => broken,
                result => return result,
            };
            sleep(AGAIN).await;
        }
        Err(broken)
    }

    /// Reopens the watch once it is certain that the store is the same, and has all reported changes.
    async fn open_again(&self) -> Result<Opened, Broken> {
        let latest = self.store.latest();
        let found = read_manifest(self.members, self.store).await?;
        self.store.look_at(found.header(), latest)?;
        self.store.look_at_manifest(&found)?;
        self.open().await
    }

    /// Reports changes until none arrive or the watch is behind. Returns the reason.
    async fn listen(&mut self, opened: Opened) -> Broken {
        let Opened {
            member,
            client,
            mut stream,
        } = opened;
        let given_up = member.given_up();
        let mut given_up = std::pin::pin!(given_up);
        let mut progress = Progress::begin(self.told);
        loop {
            let response = tokio::select! {
                response = stream.message() => response,
                () = &mut given_up => return passing("its member is avoided"),
                certain = self.certain.next() => {
                    progress.is_certain(certain);
                    // Only a watch that is not behind answers. More changes may arrive before its answer.
                    if progress.is_behind() && let Err(error) = stream.request_progress().await {
                        return error.into();
                    }
                    self.tell_if_certain(&mut progress);
                    continue;
                }
                reason = progress.ends() => {
                    member.put_aside(reason);
                    return passing(reason);
                }
            };
            let response = match response {
                Ok(Some(response)) => response,
                Ok(None) => return passing("it has ended"),
                Err(error) => return error.into(),
            };
            let is_word = !response.created() && !response.canceled();
            if is_word && self.broken_since.take().is_some() {
                self.said.forget();
            }
            if response.canceled() {
                let reason = format!("it was cancelled: {}", response.cancel_reason());
                // A user's token is valid for some minutes.
                if reason.contains("invalid auth token")
                    && let Err(error) = client.refresh_token().await
                {
                    member.put_aside(&connecting::describe(&error));
                }
                return match response.compact_revision() {
                    0 => Broken::Passing(reason),
                    _ => Broken::Gap(reason),
                };
            }
            if let Err(error) = self.tell_changes(&response) {
                return error.into();
            }
            // The header shows the latest revision even in front of changes that the watch still has to catch up with.
            let is_progress = response.events().is_empty() && !response.created();
            let at = response.header().map_or(0, ResponseHeader::revision);
            progress.reached(if is_progress {
                at.max(self.told)
            } else {
                self.told
            });
            self.tell_if_certain(&mut progress);
        }
    }

    fn tell_if_certain(&self, progress: &mut Progress) {
        if let Some(since) = progress.take_certain() {
            self.tell(News::Watching(self.ask, since.elapsed()));
        }
    }

    /// Reports the changes of each revision as soon as they are complete.
    fn tell_changes(&mut self, response: &WatchResponse) -> Result<(), EngineError> {
        let events = response.events();
        let revision = |event: &etcd_client::Event| event.kv().map_or(0, KeyValue::mod_revision);
        for group in events.chunk_by(|a, b| revision(a) == revision(b)) {
            let at = group.first().map_or(0, revision);
            if self.part.as_ref().is_some_and(|(of, _)| *of != at) {
                self.tell_part();
            }
            let (_, changes) = self
                .part
                .get_or_insert_with(|| (at, Vec::with_capacity(group.len())));
            for event in group {
                changes.extend(change_of(event, &self.beside, self.store)?);
            }
        }
        // More of the same revision may be in the next fragment.
        if !response.0.fragment {
            self.tell_part();
        }
        Ok(())
    }

    fn tell_part(&mut self) {
        if let Some((at, changes)) = self.part.take() {
            self.told = at;
            let at = Revision(u64::try_from(at).unwrap_or_default());
            self.tell(News::Changes(self.ask, at, changes));
        }
    }
}

/// A watch and its member.
struct Opened {
    member: Arc<Member>,
    client: Client,
    stream: WatchStream,
}

/// Names that are not those of records.
struct Beside {
    manifest: Vec<u8>,
    own: [Vec<u8>; 2],
    kinds: [Vec<u8>; 3],
}

impl Beside {
    fn new(names: &Names) -> Self {
        Self {
            manifest: names.manifest(),
            own: [names.mark(), names.compaction()],
            kinds: [names.floors(), names.answers(), names.clocks()],
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.own.iter().any(|own| name == own)
            || self.kinds.iter().any(|kind| name.starts_with(kind))
    }
}

/// Returns the change of an event, if it is about a record.
fn change_of(
    event: &etcd_client::Event,
    beside: &Beside,
    store: &Store,
) -> Result<Option<Change>, EngineError> {
    let Some(found) = event.kv() else {
        return Ok(None);
    };
    if found.key() == beside.manifest {
        let is_put = event.event_type() == EventType::Put;
        return Err(store.is_another(is_put.then_some(found)));
    }
    if beside.has(found.key()) {
        return Ok(None);
    }
    let record = match event.event_type() {
        EventType::Delete => None,
        EventType::Put => Some(record_of(found)?),
    };
    Ok(Some((key_of(found, store.names())?, record)))
}
