//! Acknowledged writes that are lost when the machine of a master fails and its replica takes over.
use crate::engine::Engine;
use crate::nodes::Nodes;
use crate::redis::Redis;
use crate::{patiently, setting};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use harness::proxy::{AcceptMode, CutKind, Proxy};
use statestore::Client;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How often the master is killed in each case if nothing is said.
const KILLS: u64 = 1;

/// How long is written before that if nothing is said.
const SECONDS: u64 = 2;

/// Writes in a second, as far as they are answered, and most that wait for that.
const RATE: u32 = 400;
const IN_FLIGHT: usize = 32;

/// Bytes per second of a link that is far too slow.
const SLOW: u32 = 16 * 1024;

/// How late everything is on one that is long.
const LATE: Duration = Duration::from_millis(20);

/// Number of further attempts on a busy machine: a case that has to lose writes and never does has tested nothing.
const MORE: u64 = 10;

/// How the replica follows, and what servers and master ask of it.
struct Case {
    what: &'static str,
    /// Whether only the process is killed: the machine goes on, so data that has left the master arrives.
    is_process_only: bool,
    delay: Duration,
    bytes_per_second: Option<u32>,
    /// How many have to confirm what is answered.
    confirming: usize,
    /// The master takes no writes without a replica that was heard of two seconds ago.
    wants_replica: bool,
    has_to_lose: bool,
}

impl Case {
    const USUAL: Self = Self {
        what: "at once",
        is_process_only: false,
        delay: Duration::ZERO,
        bytes_per_second: None,
        confirming: 0,
        wants_replica: false,
        has_to_lose: false,
    };

    const ALL: [Self; 8] = [
        Self {
            what: "at once, only the process is killed",
            is_process_only: true,
            ..Self::USUAL
        },
        Self::USUAL,
        Self {
            what: "20 ms late",
            delay: LATE,
            has_to_lose: true,
            ..Self::USUAL
        },
        Self {
            what: "over a link for 16 KiB in a second",
            bytes_per_second: Some(SLOW),
            has_to_lose: true,
            ..Self::USUAL
        },
        Self {
            what: "the same, with min-replicas-to-write 1 and min-replicas-max-lag 2",
            bytes_per_second: Some(SLOW),
            wants_replica: true,
            has_to_lose: true,
            ..Self::USUAL
        },
        Self {
            what: "at once, and confirms",
            confirming: 1,
            ..Self::USUAL
        },
        Self {
            what: "20 ms late, and confirms",
            delay: LATE,
            confirming: 1,
            ..Self::USUAL
        },
        Self {
            what: "over a link for 16 KiB in a second, and confirms",
            bytes_per_second: Some(SLOW),
            confirming: 1,
            ..Self::USUAL
        },
    ];
}

/// Acknowledged writes and losses among them.
#[derive(Debug)]
struct Loss {
    acknowledged: usize,
    lost: usize,
    /// How long before the kill the first of them was acknowledged.
    window: Duration,
}

/// Prints for each case what was lost.
pub(crate) async fn measured() {
    let kills = setting("CLUSTER_KILLS").unwrap_or(KILLS);
    let lasts = Duration::from_secs(setting("CLUSTER_FAULT_SECONDS").unwrap_or(SECONDS));
    println!(
        "| the replica follows | kills | acknowledged | lost: median, most | of the last: median, most"
    );
    for case in &Case::ALL {
        let mut losses = Vec::new();
        for _ in 0..kills {
            losses.push(lose(case, lasts).await);
        }
        for _ in 0..MORE {
            if !case.has_to_lose || losses.iter().any(|loss| loss.lost > 0) {
                break;
            }
            losses.push(lose(case, lasts).await);
        }
        tell(case, &mut losses);
        let lost: usize = losses.iter().map(|loss| loss.lost).sum();
        assert!(!case.has_to_lose || lost > 0, "nothing is ever lost");
        assert!(case.confirming == 0 || lost == 0, "{losses:?}");
        let acknowledged = losses.iter().all(|loss| loss.acknowledged > 0);
        assert!(acknowledged, "nothing was acknowledged");
    }
}

fn tell(case: &Case, losses: &mut [Loss]) {
    let (times, middle) = (losses.len(), losses.len() / 2);
    let acknowledged: usize = losses.iter().map(|loss| loss.acknowledged).sum();
    losses.sort_by_key(|loss| loss.window);
    let (window, longest) = (losses[middle].window, losses[times - 1].window);
    losses.sort_by_key(|loss| loss.lost);
    let (lost, most) = (losses[middle].lost, losses[times - 1].lost);
    println!(
        "| {} | {times} | {acknowledged} | {lost}, {most} | {:.3} s, {:.3} s",
        case.what,
        window.as_secs_f32(),
        longest.as_secs_f32(),
    );
}

/// Writes for this time, kills the master, and lets its replica take over.
async fn lose(case: &Case, lasts: Duration) -> Loss {
    let (redis, link) = Redis::start_linked(case.confirming).await;
    let mut engine = Engine::Redis(redis, Vec::new());
    let nodes = Nodes::start(&engine).await;
    let client = Client::connect(nodes.settings(0)).await.unwrap();
    patiently(async || client.set("before", "").await).await;
    let Engine::Redis(redis, _) = &mut engine else {
        panic!("it is a Redis")
    };
    // A slow link would hold back even the manifest, and a replica without it can take nothing over.
    redis.have_followed().await;
    demand(case, redis, &link).await;
    let is_over = Rc::new(Cell::new(false));
    let writing = tokio::task::spawn_local(write(client.clone(), Rc::clone(&is_over)));
    sleep(lasts).await;
    if !case.is_process_only {
        link.set_accept_mode(AcceptMode::Reset);
        link.cut(CutKind::Reset);
    }
    redis.kill(0);
    let killed = Instant::now();
    redis.is_missed().await;
    redis.go_on_without(0).await;
    // Otherwise no replica would confirm.
    redis.begin(0);
    is_over.set(true);
    let acknowledged = writing.await.unwrap();
    patiently(async || client.set("after", "").await).await;
    let mut lost = Vec::new();
    for some in acknowledged.chunks(250) {
        let keys: Vec<_> = some.iter().map(|(_, key)| key).collect();
        let entries = patiently(async || client.get_many(&keys).await).await;
        let missing = some.iter().zip(entries).filter(|(_, it)| it.is_none());
        lost.extend(missing.map(|((at, _), _)| *at));
    }
    let first = lost.iter().min().copied().unwrap_or(killed);
    Loss {
        acknowledged: acknowledged.len(),
        lost: lost.len(),
        window: killed.saturating_duration_since(first),
    }
}

/// From now on the replica follows as this case has it.
async fn demand(case: &Case, redis: &Redis, link: &Proxy) {
    link.set_delay(case.delay);
    if let Some(rate) = case.bytes_per_second {
        link.set_rate(rate);
    }
    if case.wants_replica {
        let demands = ["min-replicas-to-write", "1", "min-replicas-max-lag", "2"];
        let arguments: Vec<_> = ["SET"].into_iter().chain(demands).collect();
        let done = redis.ask(0, "CONFIG", &arguments).await;
        assert_eq!(done.as_deref(), Some("OK"));
    }
}

/// Writes one key after the other until the test is over. Returns the acknowledged keys, with their times.
async fn write(client: Client, is_over: Rc<Cell<bool>>) -> Vec<(Instant, String)> {
    let mut acknowledged = Vec::new();
    let mut sets = FuturesUnordered::new();
    let mut ticks = interval(Duration::from_secs(1) / RATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = 0;
    while !is_over.get() || !sets.is_empty() {
        tokio::select! {
            _ = ticks.tick(), if !is_over.get() && sets.len() < IN_FLIGHT => {
                let (client, key) = (client.clone(), format!("k{next}"));
                next += 1;
                sets.push(async move {
                    let done = client.set(key.clone(), vec![b'.'; 100]).await;
                    done.is_ok().then(|| (Instant::now(), key))
                });
            }
            Some(set) = sets.next() => acknowledged.extend(set),
            else => break,
        }
    }
    acknowledged
}
