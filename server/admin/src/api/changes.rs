//! Changes of entries. Each is answered once it is durable.
use crate::app_state::AppState;
use crate::audit::AuditDetails;
use crate::failure::failure;
use crate::query::from_hex;
use crate::reply::{self, Reply};
use crate::requests::{POLL_INTERVAL, get, to_entry_view, unexpected_reply};
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;
use statestore_protocol::{
    Command, Condition, Hlc, HlcError, Reply as Answer, SetOptions, Version,
};
use statestored_store::keyspace::{EntryView, Fence};
use statestored_store::service::ReplyEnvelope;
use std::num::NonZeroU64;

/// Number of times that an entry is read and set before its change is given up, since other clients change it meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// The value of `if_version` that demands an absent key.
const ABSENT: &str = "absent";

/// Body of a request to set an entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetRequest {
    /// Key as text; `hex` is the alternative.
    key: Option<String>,
    /// Key as hexadecimal digits.
    hex: Option<String>,
    /// Value as text; `value_hex` is the alternative.
    value: Option<String>,
    /// Value as hexadecimal digits.
    value_hex: Option<String>,
    /// Milliseconds until the entry expires.
    expires_in_ms: Option<NonZeroU64>,
    /// Whether the entry keeps the time that it has left.
    #[serde(default)]
    keep_expiry: bool,
    /// Version that the entry must have, or [`ABSENT`].
    if_version: Option<String>,
    /// Fencing token of the change.
    fence: Option<String>,
}

/// Body of a request to change the time until an entry expires.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpireRequest {
    key: Option<String>,
    hex: Option<String>,
    /// Milliseconds until the entry expires, or null: never. The field is mandatory.
    #[serde(deserialize_with = "Option::deserialize")]
    expires_in_ms: Option<NonZeroU64>,
    if_version: Option<String>,
    fence: Option<String>,
}

/// Body of a request to delete a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteRequest {
    key: Option<String>,
    hex: Option<String>,
    if_version: Option<String>,
    fence: Option<String>,
}

/// Body of a request to delete the key of a lock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnlockRequest {
    key: Option<String>,
    hex: Option<String>,
    /// The holder that has the lock: the value of the key.
    holder: String,
}

/// Reason why a request cannot be read.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("say which: {{\"key\": TEXT}}, or {{\"hex\": DIGITS}}")]
    Key,
    #[error("say what: {{\"value\": TEXT}}, or {{\"value_hex\": DIGITS}}")]
    Value,
    #[error(
        "an entry that keeps its time has no other one: leave out expires_in_ms, or keep_expiry"
    )]
    Expiry,
    #[error("this is not a version")]
    Version,
    #[error(transparent)]
    Fence(#[from] HlcError),
}

/// The time until an entry expires after a change.
#[derive(Debug)]
enum NewExpiry {
    /// In so many milliseconds, or never.
    InMs(Option<NonZeroU64>),
    /// At the same time as before.
    Kept,
}

/// The key, condition and fencing token of a change.
#[derive(Debug)]
struct Target {
    key: Bytes,
    condition: Condition,
    fence: Option<Hlc>,
}

impl Target {
    fn new(
        (key, hex): (Option<String>, Option<String>),
        if_version: Option<&str>,
        fence: Option<&str>,
    ) -> Result<Self, RequestError> {
        let condition = match if_version {
            None => Condition::Always,
            Some(ABSENT) => Condition::IfAbsent,
            Some(text) => {
                let version = Version::parse(text.as_bytes()).ok_or(RequestError::Version)?;
                Condition::IfVersion(version)
            }
        };
        Ok(Self {
            key: text_or_hex(key, hex).ok_or(RequestError::Key)?,
            condition,
            fence: fence.map(str::parse::<Hlc>).transpose()?,
        })
    }

    /// Creates the target of a change that needs an entry.
    fn of_entry(
        key: (Option<String>, Option<String>),
        if_version: Option<&str>,
        fence: Option<&str>,
    ) -> Result<(Self, Option<Version>), RequestError> {
        let target = Self::new(key, if_version, fence)?;
        let version = match target.condition {
            Condition::Always => None,
            Condition::IfVersion(version) => Some(version),
            _ => return Err(RequestError::Version),
        };
        Ok((target, version))
    }
}

impl AppState {
    /// Sets an entry.
    pub(crate) async fn set(&self, body: &[u8]) -> Reply {
        let (target, value, expiry) = match parse_set(body) {
            Ok(parsed) => parsed,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let details = match self.details_of(&target.key).await {
            Ok(details) => details,
            Err(failure) => return failure,
        };
        let done = match expiry {
            NewExpiry::InMs(expires_in_ms) => {
                let options = SetOptions {
                    condition: target.condition,
                    expires_in_ms,
                };
                let set = Command::Set {
                    key: target.key,
                    value,
                    options,
                };
                self.execute_durably(set, target.fence).await
            }
            NewExpiry::Kept => {
                let keep = |entry: Option<EntryView>| {
                    let left_ms = entry.and_then(|entry| entry.expires_in_ms);
                    // An entry with less than a millisecond left still expires.
                    let left_ms = left_ms.map(|ms| NonZeroU64::new(ms).unwrap_or(NonZeroU64::MIN));
                    Some((value.clone(), left_ms))
                };
                match self.replace(&target, keep).await {
                    Ok(Some(response)) => Ok(response),
                    Ok(None) => Err(unexpected_reply()),
                    Err(failure) => Err(failure),
                }
            }
        };
        details.attach_to(done.map_or_else(|failure| failure, |it| set_reply(&it)))
    }

    /// Changes the time until an entry expires, and keeps its value.
    pub(crate) async fn expire(&self, body: &[u8]) -> Reply {
        let parse = || {
            let it = serde_json::from_slice::<ExpireRequest>(body)?;
            let (version, fence) = (it.if_version.as_deref(), it.fence.as_deref());
            let (target, _) = Target::of_entry((it.key, it.hex), version, fence)?;
            Ok::<_, RequestError>((target, it.expires_in_ms))
        };
        let (target, expires_in_ms) = match parse() {
            Ok(parsed) => parsed,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let details = match self.details_of(&target.key).await {
            Ok(details) => details,
            Err(failure) => return failure,
        };
        let same_value = |entry: Option<EntryView>| Some((entry?.value, expires_in_ms));
        details.attach_to(match self.replace(&target, same_value).await {
            Ok(Some(response)) => set_reply(&response),
            Ok(None) if target.condition != Condition::Always => condition_failed(None),
            Ok(None) => failure(StatusCode::NOT_FOUND, &"the key is absent"),
            Err(failure) => failure,
        })
    }

    /// Deletes an entry.
    pub(crate) async fn delete(&self, body: &[u8]) -> Reply {
        let parse = || {
            let it = serde_json::from_slice::<DeleteRequest>(body)?;
            let (version, fence) = (it.if_version.as_deref(), it.fence.as_deref());
            Target::of_entry((it.key, it.hex), version, fence)
        };
        let (target, if_version) = match parse() {
            Ok(parsed) => parsed,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let mut details = match self.details_of(&target.key).await {
            Ok(details) => details,
            Err(failure) => return failure,
        };
        let del = Command::Del {
            key: target.key,
            if_version,
        };
        let done = match self.execute_durably(del, target.fence).await {
            Ok(response) => response,
            Err(failure) => return details.attach_to(failure),
        };
        let reply = match done.reply {
            Answer::Count(count) => {
                details.deleted = Some(count);
                reply::json(StatusCode::OK, &json!({ "deleted": count }))
            }
            Answer::NotApplied => condition_failed(done.version.as_ref()),
            _ => unexpected_reply(),
        };
        details.attach_to(reply)
    }

    /// Deletes the key of a lock if a holder still has it.
    pub(crate) async fn unlock(&self, body: &[u8]) -> Reply {
        let parse = || {
            let it = serde_json::from_slice::<UnlockRequest>(body)?;
            let key = text_or_hex(it.key, it.hex).ok_or(RequestError::Key)?;
            Ok::<_, RequestError>((key, Bytes::from(it.holder)))
        };
        let (key, holder) = match parse() {
            Ok(parsed) => parsed,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let mut details = match self.details_of(&key).await {
            Ok(details) => details,
            Err(failure) => return failure,
        };
        let done = match self.release(key, holder).await {
            Ok(done) => done,
            Err(failure) => return details.attach_to(failure),
        };
        let reply = match done {
            Answer::Count(count) => {
                details.deleted = Some(count);
                reply::json(StatusCode::OK, &json!({ "released": count > 0 }))
            }
            Answer::NotApplied => failure(StatusCode::CONFLICT, &"another holder has the lock"),
            _ => unexpected_reply(),
        };
        details.attach_to(reply)
    }

    /// Deletes a key with its fencing token if it has this value.
    async fn release(&self, key: Bytes, value: Bytes) -> Result<Answer, Reply> {
        let (entry, _) = self.find_entry(key.clone(), 0).await?;
        let fence = match entry.map(|entry| entry.fence) {
            Some(Fence::Token(token)) => token.parse::<Hlc>().ok(),
            _ => None,
        };
        let vdel = Command::Vdel {
            key,
            value,
            if_version: None,
        };
        Ok(self.execute_durably(vdel, fence).await?.reply)
    }

    /// Sets an entry to the value and the milliseconds that `change` returns for the present entry; `None` changes nothing. If other
    /// clients change the entry meanwhile, reads and sets it again.
    async fn replace(
        &self,
        target: &Target,
        change: impl Fn(Option<EntryView>) -> Option<(Bytes, Option<NonZeroU64>)>,
    ) -> Result<Option<ReplyEnvelope>, Reply> {
        let mut attempts = 0;
        loop {
            let found = self.execute(get(target.key.clone()), None).await?;
            let found = to_entry_view(found, usize::MAX).map_err(|failure| *failure)?;
            let condition = match (target.condition, &found) {
                (Condition::Always, Some(EntryView { version, .. })) => {
                    Condition::IfVersion(Version::new(version.0, version.1))
                }
                (Condition::Always, None) => Condition::IfAbsent,
                (condition, _) => condition,
            };
            let Some((value, expires_in_ms)) = change(found) else {
                return Ok(None);
            };
            let set = Command::Set {
                key: target.key.clone(),
                value,
                options: SetOptions {
                    condition,
                    expires_in_ms,
                },
            };
            let response = self.execute_durably(set, target.fence.clone()).await?;
            attempts += 1;
            let is_last = target.condition != Condition::Always || attempts == MAX_ATTEMPTS;
            if is_last || response.reply != Answer::NotApplied {
                return Ok(Some(response));
            }
        }
    }

    /// Executes a change, and waits until it is durable.
    async fn execute_durably(
        &self,
        command: Command,
        fence: Option<Hlc>,
    ) -> Result<ReplyEnvelope, Reply> {
        let response = self.execute(command, fence).await?;
        if let Answer::Error(error) = &response.reply {
            return Err(failure(StatusCode::CONFLICT, error));
        }
        let commit = response.commit_index;
        while !self.inspect(move |hub, _| hub.is_durable(commit)).await? {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(response)
    }

    /// Returns what the audit trail shows of a change: the key, if keys are logged.
    async fn details_of(&self, key: &[u8]) -> Result<AuditDetails, Reply> {
        let logs_keys = self.inspect(|hub, _| hub.logs_keys()).await?;
        Ok(AuditDetails {
            key: logs_keys.then(|| String::from_utf8_lossy(key).into_owned()),
            ..AuditDetails::default()
        })
    }
}

/// Reads a request to set an entry: the target, the value and the expiry.
fn parse_set(body: &[u8]) -> Result<(Target, Bytes, NewExpiry), RequestError> {
    let it = serde_json::from_slice::<SetRequest>(body)?;
    let (version, fence) = (it.if_version.as_deref(), it.fence.as_deref());
    let target = Target::new((it.key, it.hex), version, fence)?;
    let value = text_or_hex(it.value, it.value_hex).ok_or(RequestError::Value)?;
    let expiry = match (it.keep_expiry, it.expires_in_ms) {
        (true, None) => NewExpiry::Kept,
        (true, Some(_)) => return Err(RequestError::Expiry),
        (false, expires_in_ms) => NewExpiry::InMs(expires_in_ms),
    };
    Ok((target, value, expiry))
}

/// Returns bytes that a request has either as text or as hexadecimal digits.
fn text_or_hex(text: Option<String>, digits: Option<String>) -> Option<Bytes> {
    match (text, digits) {
        (Some(text), None) => Some(text.into()),
        (None, Some(digits)) => from_hex(&digits),
        _ => None,
    }
}

/// Returns the answer to a request that set an entry, or did not.
fn set_reply(response: &ReplyEnvelope) -> Reply {
    match response.reply {
        Answer::Ok => {
            let version = response.version.as_ref().map(Hlc::to_string);
            reply::json(StatusCode::OK, &json!({ "version": version }))
        }
        Answer::NotApplied => condition_failed(response.version.as_ref()),
        _ => unexpected_reply(),
    }
}

/// Returns the answer to a change whose condition was not met, with the version of the entry.
fn condition_failed(version: Option<&Hlc>) -> Reply {
    let version = version.map(Hlc::to_string);
    let error = match &version {
        Some(version) => format!("the condition is not met: the key has version {version}"),
        None => "the condition is not met: the key is absent".to_owned(),
    };
    let document = json!({ "error": error, "version": version });
    let details = AuditDetails {
        error: Some(error),
        ..AuditDetails::default()
    };
    details.attach_to(reply::json(StatusCode::CONFLICT, &document))
}
