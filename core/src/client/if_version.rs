//! SET with a condition on the version, also for stores without such conditions.
use super::Deadline;
use super::action::key_action;
use super::capabilities::permits_conditions;
use super::compare_and_set::{CompareAndSet, Progress};
use super::expiry::{certain_lifetime, check_expiry};
use crate::error::{Error, ErrorKind, Outcome};
use crate::{Client, Entry, GetOptions, Hlc, SetOptions, SetOutcome};
use bytes::Bytes;
use statestore_protocol::{CommandRef, Version};
use std::time::Duration;
use tokio::time::Instant;

const SETTING: &str = "SET";

impl Client {
    /// Stores a value if the key has this version. On a store without conditions, the client does what [`update`](Self::update)
    /// does.
    pub(super) async fn set_if_version(
        &self,
        key: &[u8],
        value: &[u8],
        version: Version,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        // Invalid arguments are rejected before any request is sent.
        drop(self.shared().start_set(key, value, options, None)?);
        let command = CommandRef::Set {
            key,
            value,
            options: statestore_protocol::SetOptions::default(),
        };
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let set = |timeout, ()| {
            let options = options.clone().timeout(timeout);
            async move { self.shared().send_set(key, value, &options).await }
        };
        let permits = permits_conditions(command);
        let result = self
            .call_if_supported(&deadline, !options.at_once, command, permits, set)
            .await;
        match result {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                compare_and_set(self, key, value, version, options, &deadline).await
            }
            result => result,
        }
    }
}

/// Replaces the value that the key had at this version, by the steps of [`CompareAndSet`].
async fn compare_and_set(
    client: &Client,
    key: &[u8],
    value: &[u8],
    version: Version,
    options: &SetOptions,
    deadline: &Deadline,
) -> Result<SetOutcome, Error> {
    if options.fencing_token.is_some() {
        let reason =
            "the store has no conditions on versions; without them it takes a token of its own";
        return Err(error(ErrorKind::Unsupported, key, reason));
    }
    check_expiry(SETTING, key, options.expires_in)?;
    let options = &SetOptions {
        expires_in: options.expires_in.filter(|&after| after != Duration::MAX),
        ..options.clone()
    };
    let set = VersionedSet {
        client,
        key,
        value,
        version,
        options,
        deadline,
    };
    set.run().await
}

fn error(kind: ErrorKind, key: &[u8], reason: impl Into<String>) -> Error {
    Error::new(kind, Outcome::NotDone, key_action(SETTING, key), reason)
}

struct VersionedSet<'a> {
    client: &'a Client,
    key: &'a [u8],
    value: &'a [u8],
    version: Version,
    options: &'a SetOptions,
    deadline: &'a Deadline,
}

/// The value that was read.
enum FoundVersion {
    /// The entry with the requested version.
    Same(Entry),
    /// An entry with another version, or none.
    Other(Option<Hlc>),
}

/// Result of one attempt.
enum AttemptOutcome {
    Completed(SetOutcome),
    /// A higher token protects the key, as this error reports.
    Outranked(Error),
}

impl VersionedSet<'_> {
    async fn run(&self) -> Result<SetOutcome, Error> {
        if let AttemptOutcome::Completed(outcome) = self.attempt(CompareAndSet::new).await? {
            return Ok(outcome);
        }
        // A caller chose the token, or another client replaces the same version, which then gets a new version.
        match self.attempt(CompareAndSet::outranking).await? {
            AttemptOutcome::Completed(outcome) => Ok(outcome),
            AttemptOutcome::Outranked(error) => match self.read().await? {
                FoundVersion::Same(_) => Err(error),
                FoundVersion::Other(version) => Ok(SetOutcome::NotApplied { version }),
            },
        }
    }

    async fn attempt(
        &self,
        begin: impl Fn(Option<Entry>, Bytes, &Hlc) -> CompareAndSet,
    ) -> Result<AttemptOutcome, Error> {
        let old = match self.read().await? {
            FoundVersion::Same(old) => old,
            FoundVersion::Other(version) => {
                return Ok(AttemptOutcome::Completed(SetOutcome::NotApplied {
                    version,
                }));
            }
        };
        let new = Bytes::copy_from_slice(self.value);
        let timestamp = self.client.shared().unique_timestamp();
        self.replace(begin(Some(old), new, &timestamp)).await
    }

    async fn read(&self) -> Result<FoundVersion, Error> {
        let options = GetOptions::new()
            .timeout(self.deadline.remaining())
            .at_once(self.options.at_once);
        let found = self.client.shared().send_get(self.key, &options).await;
        Ok(match found.map_err(not_done)? {
            Some(entry) if Version::from(&entry.version) == self.version => {
                FoundVersion::Same(entry)
            }
            found => FoundVersion::Other(found.map(|entry| entry.version)),
        })
    }

    async fn replace(&self, mut steps: CompareAndSet) -> Result<AttemptOutcome, Error> {
        let mut fence_ends = None;
        while let Some(step) = steps.request() {
            let sent = Instant::now();
            let left = self.deadline.remaining();
            let fenced =
                fence_ends.map_or(left, |end: Instant| end.saturating_duration_since(sent));
            if fenced.is_zero() {
                let reason = "the key may have expired before it could be written";
                return Err(error(ErrorKind::TimedOut, self.key, reason));
            }
            let options = SetOptions {
                condition: step.condition,
                expires_in: self.options.expires_in,
                fencing_token: Some(step.token),
                persist: self.options.persist,
                timeout: Some(left.min(fenced)),
                at_once: self.options.at_once,
                ..SetOptions::default()
            };
            let result = self
                .client
                .shared()
                .send_set(self.key, &step.value, &options)
                .await;
            match (steps.handle_outcome((&result).into()), result) {
                (Progress::Continue, _) => {
                    fence_ends = self
                        .options
                        .expires_in
                        .map(|after| sent + certain_lifetime(after));
                }
                (Progress::Outranked, Err(error)) => return Ok(AttemptOutcome::Outranked(error)),
                (_, Ok(outcome)) => return Ok(AttemptOutcome::Completed(outcome)),
                (_, Err(error)) if step.is_write => return Err(error),
                (_, Err(error)) => return Err(not_done(error)),
            }
        }
        Err(error(
            ErrorKind::InvalidResponse,
            self.key,
            "there was no answer to its last step",
        ))
    }
}

/// Marks an error with a known outcome: the new value was not stored.
fn not_done(error: Error) -> Error {
    error.with_outcome(Outcome::NotDone)
}
