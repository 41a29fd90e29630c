//! The client in Rust: does what lines on standard input tell it (`tests/chaos/src/peer_line.rs`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use statestore::{
    Client, Condition, DelOutcome, Error, Hlc, LeaseOptions, LockOptions, Observation, Outcome,
    SetOptions, SetOutcome, Settings, UpdateOutcome, VdelOutcome,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::task::{AbortHandle, LocalSet, spawn_local};
use tokio::time::sleep;

/// What there is.
#[derive(Default)]
struct ClientRegistry {
    clients: RefCell<HashMap<String, Client>>,
    observers: RefCell<HashMap<String, AbortHandle>>,
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

fn print_line(line: &Value) {
    let mut out = std::io::stdout().lock();
    // Nobody may listen any more.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let held = Rc::new(ClientRegistry::default());
        // Standard input is read on a thread of tokio's.
        let mut lines = BufReader::new(stdin()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            spawn_local(handle_line(Rc::clone(&held), line));
        }
        let clients: Vec<_> = held.clients.borrow_mut().drain().collect();
        for (_, client) in clients {
            client.close().await;
        }
    });
}

async fn handle_line(held: Rc<ClientRegistry>, line: String) {
    let words: Vec<_> = line.split(' ').collect();
    let from = now();
    let mut told = match execute(&held, &words).await {
        Ok(told) => told,
        Err(error) => {
            let outcome = match error.outcome() {
                Outcome::NotDone => "not_done",
                Outcome::Unknown => "unknown",
            };
            let (kind, text) = (format!("{:?}", error.kind()), error.to_string());
            json!({"told": "error", "kind": kind, "outcome": outcome, "text": text})
        }
    };
    let to = now();
    told["id"] = words[0].parse::<u64>().unwrap().into();
    told["from"] = from.into();
    told["to"] = to.into();
    print_line(&told);
}

async fn execute(held: &Rc<ClientRegistry>, words: &[&str]) -> Result<Value, Error> {
    let (id, verb, name) = (words[0], words[1], words[2]);
    if verb == "connect" {
        return connect(held, name, words[3], words[4]).await;
    }
    let client = held.clients.borrow()[name].clone();
    let number = |index: usize| Duration::from_millis(words[index].parse().unwrap());
    Ok(match (verb, &words[3..]) {
        ("close", []) => {
            held.clients.borrow_mut().remove(name);
            client.close().await;
            json!({"told": "closed"})
        }
        ("get", [key]) => match client.get(key).await? {
            None => json!({"told": "none"}),
            Some(entry) => json!({
                "told": "entry", "value": text(&entry.value), "version": entry.version.to_string()
            }),
        },
        ("set", [key, value, condition]) => {
            let condition = match *condition {
                "always" => Condition::Always,
                "if_absent" => Condition::IfAbsent,
                "if_absent_or_equal" => Condition::IfAbsentOrEqual,
                version => {
                    Condition::IfVersion((&Hlc::parse(&version.as_bytes()[1..]).unwrap()).into())
                }
            };
            let options = SetOptions::new().condition(condition);
            match client.set_with(key, value, &options).await? {
                SetOutcome::Applied { version } => {
                    json!({"told": "applied", "version": version.to_string()})
                }
                SetOutcome::NotApplied { version } => {
                    json!({"told": "not_applied", "version": version.map(|version| version.to_string())})
                }
            }
        }
        ("del", [key]) => match client.del(key).await? {
            DelOutcome::Deleted { version } => deleted(version.as_ref()),
            DelOutcome::Absent => json!({"told": "absent"}),
            DelOutcome::Mismatch { .. } => json!({"told": "mismatch"}),
        },
        ("vdel", [key, value]) => match client.vdel(key, value).await? {
            VdelOutcome::Deleted { version } => deleted(version.as_ref()),
            VdelOutcome::Absent => json!({"told": "absent"}),
            VdelOutcome::Mismatch { .. } => json!({"told": "mismatch"}),
        },
        ("count", [key]) => {
            let change = |old: Option<&statestore::Entry>| {
                let old = old.map_or(0, |old| text(&old.value).parse::<u64>().unwrap());
                Some((old + 1).to_string())
            };
            match client.update(key, change).await? {
                UpdateOutcome::Applied { version } => {
                    json!({"told": "applied", "version": version.to_string()})
                }
                other @ UpdateOutcome::Unchanged => panic!("{other:?} of a change"),
            }
        }
        ("hold", [name, ..]) => hold(&client, name, number(4), number(5), number(6)).await?,
        ("observe", [key]) => {
            observe(held, &client, id, key).await?;
            json!({"told": "observing"})
        }
        ("forget", [observer]) => {
            held.observers
                .borrow_mut()
                .remove(*observer)
                .unwrap()
                .abort();
            json!({"told": "closed"})
        }
        other => panic!("nobody can {other:?}"),
    })
}

async fn connect(
    held: &ClientRegistry,
    name: &str,
    url: &str,
    authority: &str,
) -> Result<Value, Error> {
    let mut settings = Settings::from_url(url)?
        .keep_alive(Duration::from_secs(1))
        .ping_timeout(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(2))
        .request_timeout(Duration::from_secs(5))
        .session_expiry(Duration::from_secs(60))
        .reconnect_delay(Duration::from_millis(10), Duration::from_millis(200));
    if authority != "-" {
        settings = settings.ca_file(authority);
    }
    let client = Client::connect(settings).await?;
    held.clients.borrow_mut().insert(name.to_owned(), client);
    Ok(json!({"told": "connected"}))
}

fn text(value: &[u8]) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

fn deleted(version: Option<&Hlc>) -> Value {
    json!({"told": "deleted", "version": version.map(Hlc::to_string)})
}

/// The time is read before the guard is asked: when it said yes, it held the lock at least since then.
async fn hold(
    client: &Client,
    name: &str,
    lease: Duration,
    wait: Duration,
    hold: Duration,
) -> Result<Value, Error> {
    let options = LockOptions::new()
        .lease(LeaseOptions::new().duration(lease))
        .wait(wait);
    let guard = client.lock_with(name, &options).await?;
    let from = now();
    let mut until = from;
    let end = from + u64::try_from(hold.as_nanos()).unwrap();
    loop {
        let asked = now();
        if !guard.is_valid() || asked > end {
            break;
        }
        until = asked;
        sleep(Duration::from_millis(2)).await;
    }
    let token = guard.token().to_string();
    // If it cannot be released, its lease ends.
    let _ = guard.release().await;
    Ok(json!({"told": "held", "token": token, "held_from": from, "held_until": until}))
}

async fn observe(held: &ClientRegistry, client: &Client, id: &str, key: &str) -> Result<(), Error> {
    let mut observer = client.observe(key).await?;
    let number = id.parse::<u64>().unwrap();
    let following = spawn_local(async move {
        while let Some(observation) = observer.next().await {
            print_line(&match observation {
                Observation::Set { value, version } => json!({
                    "observes": number, "told": "set", "value": text(&value), "version": version.to_string()
                }),
                Observation::Deleted { version } => json!({
                    "observes": number, "told": "deleted", "version": version.map(|version| version.to_string())
                }),
                Observation::Resync => json!({"observes": number, "told": "resync"}),
                other => {
                    json!({"observes": number, "told": "lagged", "text": format!("{other:?}")})
                }
            });
        }
        let reason = format!("{:?}", observer.lost_reason());
        print_line(&json!({"observes": number, "told": "ended", "text": reason}));
    });
    held.observers
        .borrow_mut()
        .insert(id.to_owned(), following.abort_handle());
    Ok(())
}
