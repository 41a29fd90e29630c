//! Requests to the store for operators, executed like those of a client. Over a shared engine, lists and entries are requested in this way
//! as well, since the server has no copy of them.
use super::api::{LOOK_AGAIN, failure};
use super::reply::Reply;
use super::routes::Room;
use crate::hub::inspect::{KeyCursor, LockView, MOST_HOLDER_BYTES, Part, part_of_page};
use crate::keyspace::{Fence, Look};
use crate::service::{Answered, Outcome, Reception, Refusal};
use bytes::Bytes;
use hyper::StatusCode;
use statestore_protocol::{Command, Hlc, Reply as Answer};
use std::sync::Arc;

impl Room {
    /// Returns whether the entries are in a shared engine.
    pub(super) async fn is_over_an_engine(&self) -> Result<bool, Reply> {
        self.ask(|hub, _| hub.is_over_an_engine()).await
    }

    /// Executes a request, with or without a fencing token, and waits for its outcome.
    pub(super) async fn request(
        &self,
        command: Command,
        fence: Option<Hlc>,
    ) -> Result<Answered, Reply> {
        let asked = self.ask(move |hub, now| hub.ask_for_operator(&command, fence, now));
        self.outcome(asked.await?).await
    }

    async fn outcome(&self, mut reception: Reception) -> Result<Answered, Reply> {
        loop {
            let ticket = match reception {
                Reception::Ended(Outcome::Answered(answered)) => return Ok(answered),
                Reception::Ended(Outcome::Refused(refusal)) => return Err(refused(refusal)),
                Reception::Ended(Outcome::Unknown) => {
                    return Err(failure(
                        StatusCode::GATEWAY_TIMEOUT,
                        &"the storage has not said what became of it: it may be done, or not",
                    ));
                }
                Reception::Later(ticket) => ticket,
            };
            let asked = self.ask(move |hub, _| hub.take_operator_outcome(ticket));
            reception = if let Some(outcome) = asked.await? {
                Reception::Ended(outcome)
            } else {
                tokio::time::sleep(LOOK_AGAIN).await;
                Reception::Later(ticket)
            };
        }
    }

    /// Returns keys that match a pattern; `None` if the cursor is invalid.
    pub(super) async fn shared_keys(
        &self,
        pattern: Bytes,
        from: KeyCursor,
    ) -> Result<Option<Part<Bytes, KeyCursor>>, Reply> {
        let scan = Command::Scan {
            pattern,
            token: from.token.clone(),
        };
        match self.request(scan, None).await?.response.reply {
            Answer::Page { keys, token } => Ok(Some(part_of_page(keys, token, from))),
            Answer::Error(statestore_protocol::ServiceError::Syntax) => Ok(None),
            Answer::Error(error) => Err(failure(StatusCode::CONFLICT, &error)),
            _ => Err(unexpected()),
        }
    }

    /// Returns the locks among a part of the keys that match a pattern; `None` if the cursor is invalid.
    pub(super) async fn shared_locks(
        &self,
        pattern: Bytes,
        from: KeyCursor,
    ) -> Result<Option<Part<LockView, KeyCursor>>, Reply> {
        let Some(Part { items, next }) = self.shared_keys(pattern, from).await? else {
            return Ok(None);
        };
        let gets: Vec<_> = items.iter().cloned().map(get).collect();
        let asked = self.ask(move |hub, now| {
            let asked = gets.iter().map(|get| hub.ask_for_operator(get, None, now));
            asked.collect::<Vec<_>>()
        });
        let mut entries = Vec::new();
        for (key, reception) in items.into_iter().zip(asked.await?) {
            let answered = self.outcome(reception).await?;
            let entry = look(answered, MOST_HOLDER_BYTES).map_err(|failure| *failure)?;
            entries.extend(entry.map(|entry| (key, entry)));
        }
        let locks = self.ask(move |hub, _| {
            let entries = entries.into_iter();
            let locks = entries.filter_map(|(key, entry)| hub.lock_of(key, entry));
            locks.collect()
        });
        let items = locks.await?;
        Ok(Some(Part { items, next }))
    }

    /// Returns an entry, and the clients that watch it at this server.
    pub(super) async fn shared_entry(
        &self,
        key: Bytes,
        most_bytes: usize,
    ) -> Result<(Option<Look>, Vec<Arc<str>>), Reply> {
        let mut entry = look(self.request(get(key.clone()), None).await?, most_bytes)
            .map_err(|failure| *failure)?;
        // The response does not contain the fencing token, but the server remembers it from this read.
        let asked = self.ask(move |hub, now| hub.entry(&key, 0, now));
        let (remembered, watchers) = asked.await?;
        if let (Some(entry), Some(remembered)) = (&mut entry, remembered)
            && entry.version == remembered.version
        {
            entry.fence = remembered.fence;
        }
        Ok((entry, watchers))
    }
}

fn get(key: Bytes) -> Command {
    Command::Get {
        key,
        remaining: true,
        eventual: false,
    }
}

/// Converts the response to a GET to the view of an entry.
fn look(answered: Answered, most_bytes: usize) -> Result<Option<Look>, Box<Reply>> {
    let response = answered.response;
    match (response.reply, response.version) {
        (Answer::Nil, _) => Ok(None),
        (
            Answer::ValueAndTime {
                value,
                expires_in_ms,
            },
            Some(version),
        ) => Ok(Some(Look {
            value: value.slice(..value.len().min(most_bytes)),
            value_bytes: value.len(),
            version: (version.wall_ms(), version.counter()),
            fence: Fence::Unknown,
            expires_in_ms,
            since_ms: None,
        })),
        (Answer::Error(error), _) => Err(Box::new(failure(StatusCode::CONFLICT, &error))),
        _ => Err(Box::new(unexpected())),
    }
}

fn refused(refusal: Refusal) -> Reply {
    let why = match refusal {
        Refusal::Expired => "it has waited too long to be executed; nothing was done",
        Refusal::NoRoom => "there is no room for the answer; nothing was done",
        Refusal::Away => "the storage does not answer; nothing was done",
    };
    failure(StatusCode::SERVICE_UNAVAILABLE, &why)
}

/// Returns the response for an unexpected response of the store.
pub(super) fn unexpected() -> Reply {
    let why = "the store has answered something else: this is a bug, please report it";
    failure(StatusCode::INTERNAL_SERVER_ERROR, &why)
}
