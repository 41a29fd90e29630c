//! Requests to the store for operators, executed like those of a client. Over a shared engine, lists and entries are requested in this way
//! as well, since the server has no copy of them.
use super::app_state::AppState;
use super::failure::failure;
use super::reply::Reply;
use bytes::Bytes;
use hyper::StatusCode;
use statestore_protocol::{Command, Hlc, Reply as Answer};
use statestored_broker::hub::inspect::{
    KeyCursor, ListPage, LockView, MAX_HOLDER_BYTES, list_page_of_keys,
};
use statestored_store::keyspace::{EntryView, Fence};
use statestored_store::service::{NotExecutedReason, Outcome, ReplyEnvelope, RequestProgress};
use std::sync::Arc;
use std::time::Duration;

/// Interval of checks whether a change is durable, or an outcome has arrived.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl AppState {
    /// Returns whether the entries are in a shared engine.
    pub(super) async fn is_shared(&self) -> Result<bool, Reply> {
        self.inspect(|hub, _| hub.uses_shared_engine()).await
    }

    /// Executes a request, with or without a fencing token, and waits for its outcome.
    pub(super) async fn execute(
        &self,
        command: Command,
        fence: Option<Hlc>,
    ) -> Result<ReplyEnvelope, Reply> {
        let reception = self.inspect(move |hub, now| hub.submit_for_operator(&command, fence, now));
        self.wait_for_outcome(reception.await?).await
    }

    async fn wait_for_outcome(&self, progress: RequestProgress) -> Result<ReplyEnvelope, Reply> {
        let outcome = match progress {
            RequestProgress::Complete(outcome) => outcome,
            RequestProgress::Pending(ticket) => loop {
                let taken = self.inspect(move |hub, _| hub.take_operator_outcome(ticket));
                if let Some(outcome) = taken.await? {
                    break outcome;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            },
        };
        match outcome {
            Outcome::Replied(response) => Ok(response),
            Outcome::Refused(refusal) => Err(refusal_reply(refusal)),
            Outcome::Unknown => Err(failure(
                StatusCode::GATEWAY_TIMEOUT,
                &"the storage has not said what became of it: it may be done, or not",
            )),
        }
    }

    /// Returns keys that match a pattern; `None` if the cursor is invalid.
    pub(super) async fn shared_keys(
        &self,
        pattern: Bytes,
        from: KeyCursor,
    ) -> Result<Option<ListPage<Bytes, KeyCursor>>, Reply> {
        let scan = Command::Scan {
            pattern,
            token: from.token.clone(),
            values: false,
        };
        match self.execute(scan, None).await?.reply {
            Answer::Page { keys, token } => Ok(Some(list_page_of_keys(keys, token, from))),
            Answer::Error(statestore_protocol::ServiceError::Syntax) => Ok(None),
            Answer::Error(error) => Err(failure(StatusCode::CONFLICT, &error)),
            _ => Err(unexpected_reply()),
        }
    }

    /// Returns the locks among a part of the keys that match a pattern; `None` if the cursor is invalid.
    pub(super) async fn shared_locks(
        &self,
        pattern: Bytes,
        from: KeyCursor,
    ) -> Result<Option<ListPage<LockView, KeyCursor>>, Reply> {
        let Some(ListPage { items, next }) = self.shared_keys(pattern, from).await? else {
            return Ok(None);
        };
        let gets: Vec<_> = items.iter().cloned().map(get).collect();
        let receptions = self.inspect(move |hub, now| {
            let receptions = gets
                .iter()
                .map(|get| hub.submit_for_operator(get, None, now));
            receptions.collect::<Vec<_>>()
        });
        let mut entries = Vec::new();
        for (key, reception) in items.into_iter().zip(receptions.await?) {
            let response = self.wait_for_outcome(reception).await?;
            let entry = to_entry_view(response, MAX_HOLDER_BYTES).map_err(|failure| *failure)?;
            entries.extend(entry.map(|entry| (key, entry)));
        }
        let locks = self.inspect(move |hub, _| {
            let entries = entries.into_iter();
            let locks = entries.filter_map(|(key, entry)| hub.lock_view(key, entry));
            locks.collect()
        });
        let items = locks.await?;
        Ok(Some(ListPage { items, next }))
    }

    /// Returns an entry, and the clients that watch it at this server.
    pub(super) async fn shared_entry(
        &self,
        key: Bytes,
        most_bytes: usize,
    ) -> Result<(Option<EntryView>, Vec<Arc<str>>), Reply> {
        let mut entry = to_entry_view(self.execute(get(key.clone()), None).await?, most_bytes)
            .map_err(|failure| *failure)?;
        // The response does not contain the fencing token, but the server remembers it from this read.
        let view = self.inspect(move |hub, now| hub.entry_view(&key, 0, now));
        let (remembered, watchers) = view.await?;
        if let (Some(entry), Some(remembered)) = (&mut entry, remembered)
            && entry.version == remembered.version
        {
            entry.fence = remembered.fence;
        }
        Ok((entry, watchers))
    }
}

/// Returns a GET of a key with its remaining time.
pub(super) fn get(key: Bytes) -> Command {
    Command::Get {
        key,
        remaining: true,
        eventual: false,
    }
}

/// Converts the response to a GET to the view of an entry.
pub(super) fn to_entry_view(
    response: ReplyEnvelope,
    most_bytes: usize,
) -> Result<Option<EntryView>, Box<Reply>> {
    match (response.reply, response.version) {
        (Answer::Nil, _) => Ok(None),
        (
            Answer::ValueAndTime {
                value,
                expires_in_ms,
            },
            Some(version),
        ) => Ok(Some(EntryView {
            value: value.slice(..value.len().min(most_bytes)),
            value_bytes: value.len(),
            version: (version.wall_ms(), version.counter()),
            fence: Fence::Unknown,
            expires_in_ms,
            since_ms: None,
        })),
        (Answer::Error(error), _) => Err(Box::new(failure(StatusCode::CONFLICT, &error))),
        _ => Err(Box::new(unexpected_reply())),
    }
}

fn refusal_reply(refusal: NotExecutedReason) -> Reply {
    let why = match refusal {
        NotExecutedReason::Expired => "it has waited too long to be executed; nothing was done",
        NotExecutedReason::NoCapacity => "there is no room for the answer; nothing was done",
        NotExecutedReason::Unavailable => "the storage does not answer; nothing was done",
    };
    failure(StatusCode::SERVICE_UNAVAILABLE, &why)
}

/// Returns the response for an unexpected response of the store.
pub(super) fn unexpected_reply() -> Reply {
    let why = "the store has answered something else: this is a bug, please report it";
    failure(StatusCode::INTERNAL_SERVER_ERROR, &why)
}
