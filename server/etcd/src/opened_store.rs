//! Opening of the store over connections to all members, and its creation at the first start.
use super::connection::{
    MemberConnectError, connect, describe, describe_with_advice, may_be_transient,
};
use super::key_names::KeyNames;
use super::members::Members;
use super::store::{OpenError, Store};
use super::{EtcdConfig, EtcdError, REQUEST_TIMEOUT, releases};
use etcd_client::Client;
use statestored_link::thread_link::StoreSecret;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Time for which connecting is retried at the start while etcd does not answer yet.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// A store that was found or created, and the members that have it.
pub(super) struct OpenedStore {
    pub(super) members: Arc<Members>,
    pub(super) store: Arc<Store>,
}

impl StoreSecret for OpenedStore {
    fn store_secret(&self) -> &[u8] {
        self.store.secret()
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A server starts. It creates the store if there is none.
    Start,
    /// A backup reads the store.
    Snapshot,
    /// A restore begins a store.
    Restore,
}

/// Connects, and finds or creates the store.
pub(super) async fn begin(config: &EtcdConfig, purpose: Purpose) -> Result<OpenedStore, EtcdError> {
    let place = config.endpoints.join(",");
    let end = Instant::now() + START_TIMEOUT;
    let mut is_told = false;
    loop {
        let error = match connect_once(config, end, purpose).await {
            Ok((members, store)) => {
                return Ok(OpenedStore {
                    members: Arc::new(members),
                    store: Arc::new(store),
                });
            }
            Err(StartError::TimedOut) => None,
            Err(StartError::File(file, error)) => return Err(EtcdError::File(file, error)),
            Err(StartError::Store(OpenError::Foreign(what))) => {
                return Err(EtcdError::Foreign(place, what));
            }
            Err(StartError::Store(OpenError::Release(place, release, objection))) => {
                return Err(EtcdError::Release(place, release, objection));
            }
            Err(StartError::Store(OpenError::Etcd(error))) if !may_be_transient(&error) => {
                let text = describe_with_advice(&error, config);
                return Err(EtcdError::Refused(place, text));
            }
            Err(StartError::Store(OpenError::Etcd(error))) => {
                Some(describe_with_advice(&error, config))
            }
        };
        if end <= Instant::now() + RETRY_PAUSE {
            return Err(match error {
                Some(error) => EtcdError::Unreachable(place, error),
                None => EtcdError::TimedOut(place, START_TIMEOUT),
            });
        }
        if !is_told {
            is_told = true;
            let error = error.as_deref().unwrap_or("no answer in time");
            tracing::warn!(error, "etcd is not there yet: trying for {START_TIMEOUT:?}");
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// The reason why the start failed.
enum StartError {
    TimedOut,
    File(PathBuf, std::io::Error),
    Store(OpenError),
}

async fn connect_once(
    config: &EtcdConfig,
    end: Instant,
    purpose: Purpose,
) -> Result<(Members, Store), StartError> {
    let manifest = KeyNames::new(&config.prefix).manifest();
    let mut attempts = JoinSet::new();
    for index in 0..config.endpoints.len() {
        let (config, manifest) = (config.clone(), manifest.clone());
        attempts.spawn(async move {
            let attempt = connect_and_probe(&config, &config.endpoints[index], manifest);
            (index, timeout(REQUEST_TIMEOUT, attempt).await)
        });
    }
    let mut clients = vec![None; config.endpoints.len()];
    // The member whose answer comes first creates the store: another one may not answer at all.
    let mut first = None;
    let mut failure = StartError::TimedOut;
    while let Some(result) = attempts.join_next().await {
        let Ok((index, result)) = result else {
            continue;
        };
        match result {
            Ok(Ok((client, release))) => {
                if let Some(release) = release
                    && let Some(objection) = releases::incompatibility(&release)
                {
                    let endpoint = config.endpoints[index].clone();
                    let release = OpenError::Release(endpoint, release, objection);
                    return Err(StartError::Store(release));
                }
                first.get_or_insert_with(|| client.clone());
                clients[index] = Some(client);
            }
            Ok(Err(MemberConnectError::File(file, error))) => {
                return Err(StartError::File(file, error));
            }
            Ok(Err(MemberConnectError::Etcd(error))) => {
                // A permanent error is more informative.
                let is_better = match &failure {
                    StartError::Store(OpenError::Etcd(other)) => {
                        may_be_transient(other) && !may_be_transient(&error)
                    }
                    _ => true,
                };
                if is_better {
                    failure = StartError::Store(OpenError::Etcd(error));
                }
            }
            Err(_) => {}
        }
    }
    let Some(mut client) = first else {
        return Err(failure);
    };
    let left = end.saturating_duration_since(Instant::now());
    let prefix = &config.prefix;
    let store = async {
        match purpose {
            Purpose::Start => Store::open_or_create(&mut client, prefix, true).await,
            Purpose::Snapshot => Store::open_or_create(&mut client, prefix, false).await,
            Purpose::Restore => Store::begin_unfinished(&mut client, prefix).await,
        }
    };
    match timeout(left.max(REQUEST_TIMEOUT), store).await {
        Ok(Ok(store)) => Ok((Members::new(config.clone(), manifest, clients), store)),
        Ok(Err(error)) => Err(StartError::Store(error)),
        Err(_) => Err(StartError::TimedOut),
    }
}

/// Returns a client of a member that has answered a read, and the release of the member if it reports one.
async fn connect_and_probe(
    config: &EtcdConfig,
    endpoint: &str,
    manifest: Vec<u8>,
) -> Result<(Client, Option<String>), MemberConnectError> {
    let mut client = connect(config, endpoint).await?;
    client.get(manifest, None).await?;
    let release = match client.status().await {
        Ok(status) => Some(status.version().to_owned()),
        // The user may not be allowed to see the release.
        Err(error) => {
            let error = describe(&error);
            tracing::debug!(endpoint, error, "the release of a member is not known");
            None
        }
    };
    Ok((client, release))
}
