//! A component: its connection to a store, and the calls on single keys.
use crate::content_type;
use crate::etag::{self, Precondition};
use crate::expiry;
use crate::proto::state_options::StateConsistency;
use crate::proto::{DeleteRequest, GetRequest, GetResponse, SetRequest};
use crate::settings::ComponentSpec;
use crate::status::{failed, mismatch};
use bytes::Bytes;
use statestore::{
    Capabilities, Client, Condition, DelOptions, DelOutcome, Entry, Error, ErrorKind, GetOptions,
    SetOptions, TransactOptions, Transaction, TransactionOutcome, UpdateOptions, UpdateOutcome,
};
use statestore_intents::IntentsClient;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Status;

/// Reasons why a write does not apply.
pub(crate) const STALE: &str = "the ETag is not that of the entry";
const PRESENT: &str = "the entry is there already, and this is not its first write";

/// Time limit for calls on a connection that was replaced.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time that a call waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum length of a key in bytes: that of `statestored`.
const MAX_KEY_BYTES: usize = 16_384;

/// A component.
#[derive(Debug)]
pub(crate) struct Instance {
    client: IntentsClient,
    persist: bool,
    keep_content_type: bool,
    /// Each call has a receiver.
    calls: watch::Sender<()>,
}

/// A call on a component.
#[derive(Debug)]
pub(crate) struct Call {
    instance: Arc<Instance>,
    _runs: watch::Receiver<()>,
}

impl Call {
    /// Starts a call on this component; dropping the result ends the call.
    pub(crate) fn new(instance: Arc<Instance>) -> Self {
        Self {
            _runs: instance.calls.subscribe(),
            instance,
        }
    }
}

impl Deref for Call {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

/// The SET request to the store for a SET of daprd.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) key: String,
    pub(crate) value: Bytes,
    pub(crate) options: SetOptions,
    /// Error text if the condition is not met.
    pub(crate) conflict_message: &'static str,
}

impl Instance {
    /// Connects to the store.
    pub(crate) async fn connect(spec: ComponentSpec) -> Result<Self, Status> {
        let client = Client::connect(spec.settings).await;
        let client = client.and_then(IntentsClient::new);
        Ok(Self {
            client: client.map_err(|error| failed(&error))?,
            persist: spec.persist,
            keep_content_type: spec.keep_content_type,
            calls: watch::Sender::default(),
        })
    }

    /// Disconnects from the store.
    pub(crate) async fn close(&self) {
        self.client.client().close().await;
    }

    /// Waits until the running calls have ended, then disconnects from the store. New calls can no longer begin.
    pub(crate) async fn close_when_idle(&self) {
        let _ = tokio::time::timeout(IDLE_TIMEOUT, self.calls.closed()).await;
        self.close().await;
    }

    /// Fails unless there is a connection to the store.
    pub(crate) fn ping(&self) -> Result<(), Status> {
        let state = self.client.client().state();
        let state = state.borrow();
        if state.is_connected() {
            return Ok(());
        }
        Err(Status::unavailable(format!(
            "not connected to the store: {}; the request was not sent",
            *state
        )))
    }

    /// Waits a short time for a connection to the store, which is tried immediately.
    pub(crate) async fn ready(&self) -> Result<(), Status> {
        let mut state = self.client.client().state();
        if state.borrow().is_connected() {
            return Ok(());
        }
        self.client.client().reconnect_now();
        let settled = state.wait_for(|state| state.is_connected() || state.is_closed());
        let _ = tokio::time::timeout(CONNECT_TIMEOUT, settled).await;
        self.ping()
    }

    /// Returns the capabilities of the store, requested once for each connection.
    pub(crate) async fn capabilities(&self) -> Result<Capabilities, Status> {
        let capabilities = self.client.client().capabilities().await;
        capabilities.map_err(|error| failed(&error))
    }

    /// Reads a key.
    pub(crate) async fn get(&self, request: GetRequest) -> Result<GetResponse, Status> {
        check_key(&request.key)?;
        let consistency = etag::consistency(request.consistency)?;
        let options = GetOptions::new()
            .remaining(self.capabilities().await?.remaining_time)
            .eventual(consistency == StateConsistency::ConsistencyEventual);
        let entry = self.client.get_with(&request.key, &options).await;
        let Some(entry) = entry.map_err(|error| failed(&error))? else {
            return Ok(GetResponse::default());
        };
        let (data, content_type) = if self.keep_content_type {
            content_type::decode_value(entry.value)
        } else {
            (entry.value, String::new())
        };
        Ok(GetResponse {
            data,
            etag: Some(etag::etag(&entry.version)),
            metadata: expiry::expiry_metadata(entry.expires_in),
            content_type,
        })
    }

    /// Writes a key.
    pub(crate) async fn set(&self, request: SetRequest) -> Result<(), Status> {
        let set = self.translate_set(request)?;
        let outcome = self.client.set_with(&set.key, &set.value, &set.options);
        let is_applied = match outcome.await {
            Ok(outcome) => outcome.is_applied(),
            Err(error) if self.is_fenced_by_components(&error).await? => {
                self.set_fenced(&set).await?
            }
            Err(error) => return Err(failed(&error)),
        };
        if is_applied {
            return Ok(());
        }
        Err(mismatch(set.conflict_message))
    }

    /// Writes a protected key: one that was written with an `ETag` on a store that cannot compare versions. Returns whether the
    /// write applied.
    async fn set_fenced(&self, set: &Set) -> Result<bool, Status> {
        let is_first = set.options.condition == Condition::IfAbsent;
        let options = UpdateOptions::new()
            .expires_in(set.options.expires_in.unwrap_or(Duration::MAX))
            .persist(self.persist);
        let change = |old: Option<&Entry>| (old.is_none() || !is_first).then(|| set.value.clone());
        let outcome = self.client.update_with(&set.key, &options, change).await;
        let outcome = outcome.map_err(|error| failed(&error))?;
        Ok(matches!(outcome, UpdateOutcome::Applied { .. }))
    }

    /// Deletes a key. Without an `ETag`, an absent key counts as deleted.
    pub(crate) async fn delete(&self, request: DeleteRequest) -> Result<(), Status> {
        let options = translate_delete(&request)?;
        match self.client.client().del_with(&request.key, &options).await {
            Ok(DelOutcome::Deleted { .. }) => Ok(()),
            Ok(DelOutcome::Absent) if options.if_version.is_none() => Ok(()),
            Ok(DelOutcome::Absent | DelOutcome::Mismatch { .. }) => Err(mismatch(STALE)),
            // The fence that keeps other clients out during the deletion must not be deleted with the key.
            Err(error)
                if error.kind() == ErrorKind::Unsupported
                    || self.is_fenced_by_components(&error).await? =>
            {
                let transaction = Transaction::new().del(&request.key, &options);
                let outcome = self.execute(&transaction).await?;
                if outcome.is_applied() {
                    return Ok(());
                }
                Err(mismatch(STALE))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    /// Whether a write was rejected because of a fence that other writes of components leave behind, on a store that cannot
    /// compare versions. On other stores the fence belongs to another client that uses it on purpose.
    async fn is_fenced_by_components(&self, error: &Error) -> Result<bool, Status> {
        let is_fenced = error.kind() == ErrorKind::FencingTokenRequired;
        Ok(is_fenced && !self.capabilities().await?.conditions)
    }

    /// Executes a transaction atomically.
    pub(crate) async fn execute(
        &self,
        transaction: &Transaction,
    ) -> Result<TransactionOutcome, Status> {
        let options = TransactOptions::new().persist(self.persist);
        let outcome = self.client.transact_with(transaction, &options).await;
        outcome.map_err(|error| failed(&error))
    }

    /// Translates a SET into a request to the store.
    pub(crate) fn translate_set(&self, request: SetRequest) -> Result<Set, Status> {
        check_key(&request.key)?;
        let (condition, if_not) =
            match etag::set_precondition(request.etag.as_ref(), request.options)? {
                Precondition::None => (Condition::Always, STALE),
                Precondition::Absent => (Condition::IfAbsent, PRESENT),
                Precondition::Version(version) => (Condition::IfVersion(version), STALE),
            };
        let expires_in = expiry::expires_in(&request.metadata)?;
        let value = if self.keep_content_type {
            content_type::encode_value(request.value, &request.content_type, &request.metadata)?
        } else {
            request.value
        };
        let options = SetOptions::new()
            .condition(condition)
            .expires_in(expires_in)
            .persist(self.persist);
        Ok(Set {
            key: request.key,
            value,
            options,
            conflict_message: if_not,
        })
    }
}

/// Translates a deletion into options of the store.
pub(crate) fn translate_delete(request: &DeleteRequest) -> Result<DelOptions, Status> {
    check_key(&request.key)?;
    let version = match etag::delete_precondition(request.etag.as_ref(), request.options)? {
        Precondition::Version(version) => Some(version),
        Precondition::None | Precondition::Absent => None,
    };
    Ok(DelOptions::new().if_version(version))
}

fn check_key(key: &str) -> Result<(), Status> {
    if key.is_empty() {
        return Err(Status::invalid_argument("the key is empty"));
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(Status::invalid_argument(format!(
            "the key has {} bytes; {MAX_KEY_BYTES} bytes are the maximum",
            key.len()
        )));
    }
    Ok(())
}
