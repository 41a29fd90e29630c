//! Choice of the master, among the addresses in the configuration or those that sentinels report.
use super::connection::{
    Address, ConnectError, ConnectPurpose, MasterConnection, connect_as, connect_to_store,
    describe_with_advice, location, may_be_transient,
};
use super::{REQUEST_TIMEOUT, RedisConfig, RedisError};
use ::redis::RedisConnectionInfo;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::HashMap;
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

/// Pause between two questions to the sentinels while there is a connection to a master.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Connects, with retries for some time.
pub(super) async fn begin(
    config: &RedisConfig,
    purpose: ConnectPurpose,
) -> Result<MasterConnection, RedisError> {
    let place = location(config);
    let end = Instant::now() + START_TIMEOUT;
    let mut is_told = false;
    loop {
        let obstacle = match connect_to_master(config, purpose, None).await {
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
///
/// A master that was `superseded` is not tried unless most sentinels name it again.
pub(super) async fn connect_to_master(
    config: &RedisConfig,
    purpose: ConnectPurpose,
    superseded: Option<&Address>,
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
    let mut votes = SentinelVotes::new(sentinels.len());
    let mut obstacle = ConnectError::NoMaster(match superseded {
        Some((host, port)) => format!("no sentinel names another master than {host}:{port}"),
        None => "there is no address".into(),
    });
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
                        let needed = if superseded == Some(&master) { votes.majority } else { 1 };
                        if votes.add(&master) == needed {
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

/// Completes when most of the sentinels have named the same other master twice in succession. Never completes without sentinels.
///
/// In a network that is split, a former master may still take writes, and these are lost when it follows the new one. A sentinel alone may
/// be cut off from the others. After a failover, all but one name the former master for some seconds.
pub(super) async fn superseded(config: &RedisConfig, current: &Address) -> Address {
    if config.master.is_none() {
        std::future::pending::<()>().await;
    }
    let mut former = None;
    loop {
        sleep(CHECK_INTERVAL).await;
        let other = ask_majority(config).await.filter(|it| it != current);
        match other {
            Some(other) if former.as_ref() == Some(&other) => return other,
            other => former = other,
        }
    }
}

/// Returns the master that most of the sentinels name, if there is one.
async fn ask_majority(config: &RedisConfig) -> Option<Address> {
    let sentinels = config.addresses.iter();
    let mut answers: FuturesUnordered<_> = sentinels.map(|it| ask_sentinel(config, it)).collect();
    let mut votes = SentinelVotes::new(config.addresses.len());
    while let Some(answer) = answers.next().await {
        if let Ok(master) = answer
            && votes.add(&master) == votes.majority
        {
            return Some(master);
        }
    }
    None
}

/// The number of sentinels that name each address as the master.
struct SentinelVotes {
    counts: HashMap<Address, usize>,
    majority: usize,
}

impl SentinelVotes {
    fn new(sentinels: usize) -> Self {
        Self {
            counts: HashMap::new(),
            majority: sentinels / 2 + 1,
        }
    }

    /// Counts a vote. Returns the number of votes for this address.
    fn add(&mut self, master: &Address) -> usize {
        let count = self.counts.entry(master.clone()).or_default();
        *count += 1;
        *count
    }
}

async fn attempt(
    config: &RedisConfig,
    address: Address,
    purpose: ConnectPurpose,
) -> (Address, Result<MasterConnection, ConnectError>) {
    let reaching = timeout(ATTEMPT_TIMEOUT, connect_to_store(config, &address, purpose));
    let reached = reaching.await.unwrap_or(Err(ConnectError::TimedOut));
    (address, reached)
}

/// Asks a sentinel for the address of the master.
async fn ask_sentinel(config: &RedisConfig, address: &Address) -> Result<Address, ConnectError> {
    let master = config.master.as_deref().unwrap_or_default();
    let asking = async {
        // Sentinels have users of their own.
        let settings = RedisConnectionInfo::default();
        let mut sentinel = connect_as(config, address, settings).await?;
        let mut ask = ::redis::cmd("SENTINEL");
        let ask = ask.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
        let found: Option<Address> = ask.query_async(&mut sentinel).await?;
        found.ok_or_else(|| {
            ConnectError::NoMaster(format!("the sentinels know no master {master:?}"))
        })
    };
    let answer = timeout(REQUEST_TIMEOUT, asking).await;
    answer.unwrap_or(Err(ConnectError::TimedOut))
}
