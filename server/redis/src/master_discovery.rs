//! Choice of the master, among the addresses in the configuration or those that sentinels report.
use super::connection::{
    ConnectError, ConnectPurpose, MasterConnection, connect_as, connect_to_store,
    describe_with_advice, location, may_be_transient,
};
use super::{REQUEST_TIMEOUT, RedisConfig, RedisError};
use ::redis::RedisConnectionInfo;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time for which connecting is retried at the start while Redis does not answer yet.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Time limit of an attempt at one address.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(4);

/// Time after which the next address is tried in parallel.
const HEAD_START: Duration = Duration::from_millis(250);

/// Maximum number of cluster members that are asked for the one with the keys.
const MAX_REDIRECTIONS: usize = 5;

/// Connects, with retries for some time.
pub(super) async fn begin(
    config: &RedisConfig,
    purpose: ConnectPurpose,
) -> Result<MasterConnection, RedisError> {
    let place = location(config);
    let end = Instant::now() + START_TIMEOUT;
    let mut is_told = false;
    loop {
        let obstacle = match connect_to_master(config, purpose).await {
            Ok(reached) => return Ok(reached),
            Err(obstacle) => obstacle,
        };
        let text = match obstacle {
            ConnectError::File(path, error) => return Err(RedisError::File(path, error)),
            ConnectError::Foreign(what) => return Err(RedisError::Foreign(place, what)),
            obstacle @ ConnectError::StoreMissing => {
                return Err(RedisError::Foreign(place, obstacle.describe()));
            }
            ConnectError::Unsuitable(why) => return Err(RedisError::Unfit(place, why)),
            ConnectError::Redis(error) if !may_be_transient(&error) => {
                return Err(RedisError::Refused(
                    place,
                    describe_with_advice(&error, config),
                ));
            }
            ConnectError::Redis(error) => describe_with_advice(&error, config),
            obstacle => obstacle.describe(),
        };
        if end <= Instant::now() + RETRY_PAUSE {
            return Err(RedisError::Unreachable(place, text));
        }
        if !is_told {
            is_told = true;
            tracing::warn!(
                error = text,
                "redis is not there yet: trying for {START_TIMEOUT:?}"
            );
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Connects to the current master.
///
/// All sentinels are asked at once, and every master that one of them reports is tried. A sentinel that is cut off from the others may
/// report a former master. An address that does not answer does not delay the others: the next attempt begins after [`HEAD_START`]. The
/// first master that has the store is taken. If none has it and the server starts, the store is created at the first master without one.
pub(super) async fn connect_to_master(
    config: &RedisConfig,
    purpose: ConnectPurpose,
) -> Result<MasterConnection, ConnectError> {
    let (mut addresses, sentinels) = match &config.master {
        Some(_) => (Vec::new(), &config.addresses[..]),
        None => (config.addresses.clone(), &[][..]),
    };
    // The last element is tried first.
    addresses.reverse();
    let mut left = config.addresses.len() + MAX_REDIRECTIONS;
    let mut answers: FuturesUnordered<_> = sentinels
        .iter()
        .map(|it| ask_sentinel(config, it))
        .collect();
    let mut named = HashSet::new();
    let mut obstacle = ConnectError::NoMaster("there is no address".into());
    let mut unusable = None;
    let mut empty = None;
    let mut attempts = FuturesUnordered::new();
    let mut next_at = Instant::now();
    loop {
        let (address, found) = tokio::select! {
            biased;
            Some(ended) = attempts.next() => ended,
            Some(answer) = answers.next() => {
                match answer {
                    Ok(master) => {
                        if named.insert(master.clone()) {
                            addresses.insert(0, master);
                        }
                    }
                    Err(found) => obstacle = found,
                }
                continue;
            }
            () = sleep_until(next_at), if left > 0 && !addresses.is_empty() => {
                if let Some(address) = addresses.pop() {
                    left -= 1;
                    attempts.push(attempt(config, address, purpose));
                }
                next_at = Instant::now() + HEAD_START;
                continue;
            }
            else => break,
        };
        let found = match found {
            Ok(reached) => return Ok(reached),
            Err(found) => found,
        };
        if let ConnectError::Redis(error) = &found
            && let Some((other, _)) = error.redirect_node()
            && let Some((host, port)) = other.rsplit_once(':')
            && let Ok(port) = port.parse()
        {
            // An empty host is the server that sent the redirection.
            let host = if host.is_empty() { &address.0 } else { host };
            addresses.push((host.to_owned(), port));
        }
        match found {
            ConnectError::StoreMissing if purpose.creating().is_some() => {
                _ = empty.get_or_insert(address);
            }
            // No further address is tried, but an attempt in progress may still find the store.
            ConnectError::Foreign(_) | ConnectError::Unsuitable(_) | ConnectError::StoreMissing => {
                left = 0;
                unusable.get_or_insert(found);
            }
            found => obstacle = found,
        }
        // An attempt that has ended needs no head start.
        next_at = Instant::now();
    }
    match (unusable, empty, purpose.creating()) {
        (Some(unusable), ..) => Err(unusable),
        (None, Some(address), Some(creating)) => attempt(config, address, creating).await.1,
        (None, ..) => Err(obstacle),
    }
}

async fn attempt(
    config: &RedisConfig,
    address: (String, u16),
    purpose: ConnectPurpose,
) -> ((String, u16), Result<MasterConnection, ConnectError>) {
    let reaching = timeout(ATTEMPT_TIMEOUT, connect_to_store(config, &address, purpose));
    let reached = reaching.await.unwrap_or(Err(ConnectError::TimedOut));
    (address, reached)
}

/// Asks a sentinel for the address of the master.
async fn ask_sentinel(
    config: &RedisConfig,
    address: &(String, u16),
) -> Result<(String, u16), ConnectError> {
    let master = config.master.as_deref().unwrap_or_default();
    let asking = async {
        // Sentinels have users of their own.
        let settings = RedisConnectionInfo::default();
        let mut sentinel = connect_as(config, address, settings).await?;
        let mut ask = ::redis::cmd("SENTINEL");
        let ask = ask.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
        let found: Option<(String, u16)> = ask.query_async(&mut sentinel).await?;
        found.ok_or_else(|| {
            ConnectError::NoMaster(format!("the sentinels know no master {master:?}"))
        })
    };
    let answer = timeout(REQUEST_TIMEOUT, asking).await;
    answer.unwrap_or(Err(ConnectError::TimedOut))
}
