//! Snapshots and the changes after them. Each change is an item of the stream, whose revisions have no gaps.
use super::RedisConfig;
use super::connecting::{self, Session};
use super::names::SHELVES;
use super::portions::Portions;
use super::reading::{Item, Lost, Reader, found, next, passing};
use super::telling::{Lies, Telling};
use super::transactions::Connection;
use crate::keyspace::remote::said::Said;
use crate::keyspace::remote::{AskId, Found, News};
use ::redis::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// Approximate maximum number of entries of a shelf read at once.
const ENTRIES_AT_ONCE: usize = 1_000;

/// Time for which Redis waits for the next change before it reports that there was none.
const WAIT: Duration = Duration::from_secs(1);

/// Reports a snapshot and all changes after it, and finally that some may be missed.
pub(super) async fn watch(
    config: Arc<RedisConfig>,
    session: Arc<Session>,
    (portions, telling): (Portions, Arc<Telling>),
    said: Said,
    ask: AskId,
    tell: UnboundedSender<News>,
) -> Connection {
    let mut then = Connection::IsFine;
    let lost = follow(&config, &session, (&portions, &telling), &said, ask, &tell).await;
    telling.end(ask);
    let (reason, error) = match lost {
        Lost::Passing(reason) => (reason, None),
        Lost::ForGood(error) => (error.to_string(), Some(error)),
        Lost::Connection => {
            then = Connection::IsLost;
            ("redis has to be connected to anew".into(), None)
        }
    };
    if said.is_new(&reason) {
        tracing::warn!(
            reason,
            "the changes of redis are not known any more; they are watched anew"
        );
    }
    // The receiver may be gone.
    let _ = tell.send(News::WatchLost(ask, error));
    then
}

async fn follow(
    config: &RedisConfig,
    session: &Session,
    (portions, telling): (&Portions, &Telling),
    said: &Said,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> Lost {
    let connection = match connecting::connect(config, &session.address).await {
        Ok(connection) => connection,
        Err(obstacle) => return passing(&obstacle.describe()),
    };
    let watch = Watching {
        reader: Reader {
            connection,
            session,
            portions,
        },
        telling,
        said,
        ask,
        tell,
    };
    match watch.follow().await {
        Err(lost) => lost,
    }
}

struct Watching<'a> {
    reader: Reader<'a>,
    telling: &'a Telling,
    said: &'a Said,
    ask: AskId,
    tell: &'a UnboundedSender<News>,
}

impl Watching<'_> {
    async fn follow(mut self) -> Result<std::convert::Infallible, Lost> {
        let (before, _) = self.reader.position().await?;
        self.tell_entries().await?;
        let (at, floors) = self.reader.position().await?;
        // Changes made while the entries were read may be missing among them.
        let mut known = before;
        while known < at {
            let items = self.reader.items_behind(known, None).await?;
            if items.is_empty() {
                return Err(passing("some were not there any more"));
            }
            for item in items {
                known = next(known, &item)?;
                self.tell_as_entries(item);
            }
        }
        let at = at.max(known);
        let _ = self.tell.send(News::Synced(self.ask, at, floors));
        self.telling.begin(self.ask, at);
        self.said.forget();
        loop {
            self.telling.due().await;
            let at = self.telling.known(self.ask);
            let at = at.ok_or_else(|| passing("another watch has begun"))?;
            let begun = Instant::now();
            let most = self.reader.portions.items.now();
            let items = self.reader.items_behind(at, Some(WAIT)).await?;
            // There are no other changes, or there were none when Redis had waited.
            let waited = if items.is_empty() {
                WAIT
            } else {
                Duration::ZERO
            };
            let is_all = items.len() < most;
            let ago = begun.elapsed().saturating_sub(waited);
            for Item { at, changes } in items {
                if self.telling.read(self.ask, at, changes, self.tell) == Lies::Ahead {
                    return Err(passing("some were not there any more"));
                }
            }
            if is_all {
                let _ = self.tell.send(News::Watching(self.ask, ago));
            }
        }
    }

    /// Reports all entries, each as it is when it is read.
    async fn tell_entries(&mut self) -> Result<(), Lost> {
        let (session, portions) = (self.reader.session, self.reader.portions);
        let mut left: Vec<(u16, Vec<u8>)> = Vec::new();
        let mut next = 0;
        loop {
            let most = portions.entries.now();
            let shelves = (most / ENTRIES_AT_ONCE).max(1);
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
                commands.arg(most.min(ENTRIES_AT_ONCE));
            }
            let begun = Instant::now();
            let answers = self.reader.answers(commands).await;
            portions.entries.took(most, begun.elapsed());
            let answers = answers?;
            let mut later = Vec::new();
            let mut records = Vec::new();
            for ((shelf, _), answer) in left.into_iter().zip(answers) {
                let (cursor, found) = scanned(answer)?;
                records.extend(found);
                if cursor != b"0" {
                    later.push((shelf, cursor));
                }
            }
            left = later;
            let _ = self.tell.send(News::Snapshot(self.ask, records));
        }
    }

    fn tell_as_entries(&self, item: Item) {
        let Item { at, changes } = item;
        let records = changes.into_iter().filter_map(|(key, record)| {
            Some(Found {
                key,
                record: record?,
                revision: at,
            })
        });
        let records = records.collect();
        let _ = self.tell.send(News::Snapshot(self.ask, records));
    }
}

/// Returns the cursor and the entries of an answer.
fn scanned(answer: Value) -> Result<(Vec<u8>, Vec<Found>), Lost> {
    let Value::Array(parts) = answer else {
        return Err(Lost::Passing(format!("redis answers {answer:?}")));
    };
    let [Value::BulkString(cursor), Value::Array(fields)] = &parts[..] else {
        return Err(Lost::Passing(format!("redis answers {parts:?}")));
    };
    let found = fields
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[key, value]| found(key, value));
    let found = found.collect::<Result<_, _>>()?;
    Ok((cursor.clone(), found))
}
