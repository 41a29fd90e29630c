//! Plays the steps of one scenario.
use crate::options::Options;
use crate::result_json::{
    capabilities, certainty, del, each, entries, entry, holding, kind, observation, release, set,
    transacted, updated, vdel, version,
};
use crate::step::{Step, bytes, text};
use serde_json::{Map, Value, json};
use statestore::{
    Acquisition, Client, Election, Entry, Error, Guard, Hlc, Leadership, Lease, Observer, Settings,
    TransactOptions, Transaction,
};
use std::collections::HashMap;
use std::time::Duration;

/// How long an observation may take that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A result of a call that has calls of its own.
enum SavedObject {
    Observer(Box<Observer>),
    Lease(Lease),
    Guard(Box<Guard>),
    Election(Election),
    Leadership(Box<Leadership>),
    /// Taken by a call that ends it. The language allows no further call.
    Ended,
}

pub(crate) struct Player {
    url: String,
    clients: HashMap<String, Client>,
    objects: HashMap<String, SavedObject>,
    versions: HashMap<String, Hlc>,
}

/// A result as JSON, and what can be saved of it.
type CallResult = (Value, Option<SavedObject>);

impl Player {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            clients: HashMap::new(),
            objects: HashMap::new(),
            versions: HashMap::new(),
        }
    }

    /// Guards give their locks back, and the server need not wait for clients when it stops.
    pub(crate) async fn end(self) {
        drop(self.objects);
        for client in self.clients.values() {
            client.close().await;
        }
    }

    pub(crate) async fn play(&mut self, step: &Step) -> Result<(), String> {
        if let Some(SavedObject::Ended) = step.on.as_ref().and_then(|name| self.objects.get(name)) {
            return Ok(());
        }
        let options = Options {
            given: &step.options,
            versions: &self.versions,
        };
        let answer = if let Some(name) = &step.on {
            let thing = self.objects.get_mut(name).ok_or("nothing has this name")?;
            call_object(thing, step, &options).await
        } else {
            if !self.clients.contains_key(&step.client) {
                let settings = Settings::from_url(&self.url).expect("the server's own URL");
                let client = Client::connect(settings).await.expect("the server runs");
                self.clients.insert(step.client.clone(), client);
            }
            call_client(&self.clients[&step.client], step, &options).await
        };
        match (answer, &step.error) {
            (Ok((result, thing)), None) => {
                if let Some(expected) = &step.result {
                    self.compare(expected, &result)?;
                }
                if let Some(name) = &step.save {
                    let thing = thing.ok_or("the result has no calls of its own")?;
                    self.objects.insert(name.clone(), thing);
                }
                Ok(())
            }
            (Ok((result, _)), Some(_)) => Err(format!("it succeeded: {result}")),
            (Err(error), None) => Err(error.to_string()),
            (Err(error), Some(expected)) => {
                let (kind, outcome) = (kind(&error), certainty(&error));
                let is_expected = kind == expected.kind
                    && expected.outcome.as_deref().is_none_or(|is| is == outcome)
                    && expected
                        .operation
                        .is_none_or(|at| error.operation() == Some(at));
                is_expected
                    .then_some(())
                    .ok_or_else(|| format!("{kind}, {outcome}: {error}"))
            }
        }
    }

    fn compare(&mut self, expected: &Value, found: &Value) -> Result<(), String> {
        let differ = || Err(format!("expected {expected}, found {found}"));
        match (expected, found) {
            (Value::Object(wanted), _) if wanted.len() == 1 => {
                let (word, argument) = wanted.iter().next().expect("there is one");
                match (word.as_str(), argument.as_str(), found.as_str()) {
                    ("save", Some(name), Some(found)) => {
                        let version = found.parse().map_err(|error| format!("{error}"))?;
                        self.versions.insert(name.into(), version);
                        Ok(())
                    }
                    ("same" | "newer", Some(name), Some(found)) => {
                        let version: Hlc = found.parse().map_err(|error| format!("{error}"))?;
                        let known = self.versions.get(name).ok_or("no such version")?;
                        let matches = match word.as_str() {
                            "same" => version == *known,
                            _ => version > *known,
                        };
                        matches.then_some(()).map_or_else(differ, Ok)
                    }
                    ("absent", ..) if found.is_null() => Ok(()),
                    ("at_most", None, None) => {
                        let (most, found) = (argument.as_u64(), found.as_u64());
                        (found > Some(0) && found <= most)
                            .then_some(())
                            .map_or_else(differ, Ok)
                    }
                    _ => self.compare_members(wanted, found),
                }
            }
            (Value::Object(wanted), _) => self.compare_members(wanted, found),
            (Value::Array(wanted), Value::Array(items)) => {
                if wanted.len() != items.len() {
                    return differ();
                }
                wanted
                    .iter()
                    .zip(items)
                    .try_for_each(|(wanted, item)| self.compare(wanted, item))
            }
            _ if expected == found => Ok(()),
            _ => differ(),
        }
    }

    fn compare_members(
        &mut self,
        wanted: &Map<String, Value>,
        found: &Value,
    ) -> Result<(), String> {
        let Value::Object(found) = found else {
            return Err(format!("expected an object with {wanted:?}, found {found}"));
        };
        for (name, wanted) in wanted {
            let member = found.get(name).unwrap_or(&Value::Null);
            self.compare(wanted, member)
                .map_err(|problem| format!("`{name}`: {problem}"))?;
        }
        Ok(())
    }
}

fn argument(step: &Step, index: usize) -> Vec<u8> {
    bytes_of(&step.args[index])
}

fn bytes_of(value: &Value) -> Vec<u8> {
    bytes(value.as_str().expect("bytes"))
}

/// The items of a list that is the first argument.
fn many<T>(step: &Step, item: impl Fn(&Value) -> T) -> Vec<T> {
    let items = step.args[0].as_array().expect("a list");
    items.iter().map(item).collect()
}

/// A transaction of the operations in the first argument.
fn transaction(step: &Step, versions: &HashMap<String, Hlc>) -> Transaction {
    let operations = step.args[0].as_array().expect("a list");
    operations
        .iter()
        .fold(Transaction::new(), |all, operation| {
            let given = operation.as_array().and_then(|parts| parts.last());
            let options = Options {
                given: given.and_then(Value::as_object).expect("options"),
                versions,
            };
            let key = bytes_of(&operation[1]);
            match operation[0].as_str() {
                Some("set") => all.set(key, bytes_of(&operation[2]), &options.set()),
                Some("del") => all.del(key, &options.del()),
                other => panic!("a transaction has no {other:?}"),
            }
        })
}

async fn call_client(
    client: &Client,
    step: &Step,
    options: &Options<'_>,
) -> Result<CallResult, Error> {
    let key = || argument(step, 0);
    Ok(match step.call.as_str() {
        "get" => {
            let found = client.get_with(key(), &options.get()).await?;
            (entry(found.as_ref()), None)
        }
        "get_many" => {
            let keys = many(step, bytes_of);
            let found = client.get_many_with(&keys, &options.get()).await?;
            (entries(&found), None)
        }
        "set" => {
            let outcome = client
                .set_with(key(), argument(step, 1), &options.set())
                .await?;
            (set(&outcome), None)
        }
        "set_many" => {
            let values = many(step, |pair| (bytes_of(&pair[0]), bytes_of(&pair[1])));
            let outcomes = client.set_many_with(&values, &options.set()).await;
            (each(&outcomes, set), None)
        }
        "del_many" => {
            let keys = many(step, bytes_of);
            let outcomes = client.del_many_with(&keys, &options.del()).await;
            (each(&outcomes, del), None)
        }
        "del" => (del(&client.del_with(key(), &options.del()).await?), None),
        "vdel" => {
            let outcome = client
                .vdel_with(key(), argument(step, 1), &options.del())
                .await?;
            (vdel(&outcome), None)
        }
        "scan" => {
            let mut scan = client.scan(key());
            let mut keys = Vec::new();
            while let Some(key) = scan.next().await? {
                keys.push(key);
            }
            keys.sort();
            (
                keys.iter().map(|key| Value::from(text(key))).collect(),
                None,
            )
        }
        "observe" => {
            let observer = client.observe_with(key(), &options.observe()).await?;
            (Value::Null, Some(SavedObject::Observer(Box::new(observer))))
        }
        "update" => {
            let change = |old: Option<&Entry>| change(step, old);
            let outcome = client.update_with(key(), &options.update(), change).await?;
            (updated(&outcome), None)
        }
        "lease" => {
            let lease = client.lease_with(key(), &options.lease())?;
            (Value::Null, Some(SavedObject::Lease(lease)))
        }
        "lock" => {
            let guard = client.lock_with(key(), &options.lock()).await?;
            (Value::Null, Some(SavedObject::Guard(Box::new(guard))))
        }
        "election" => {
            let election = client.election_with(key(), &options.lock())?;
            (Value::Null, Some(SavedObject::Election(election)))
        }
        "close" => {
            client.close().await;
            (Value::Null, None)
        }
        _ => return call_extension(client, step, options).await,
    })
}

/// Applies the function of an update to an entry.
fn change(step: &Step, old: Option<&Entry>) -> Option<Vec<u8>> {
    let tail = step.args[1]["append"].as_str()?;
    let old = old.map_or(&b""[..], |old| &old.value);
    Some([old, &bytes(tail)].concat())
}

/// Calls for which not every store will do.
async fn call_extension(
    client: &Client,
    step: &Step,
    options: &Options<'_>,
) -> Result<CallResult, Error> {
    Ok(match step.call.as_str() {
        "capabilities" => (capabilities(client.capabilities().await?), None),
        "transact" => {
            let transaction = transaction(step, options.versions);
            let given = TransactOptions::new()
                .persist(options.flag("persist"))
                .timeout(options.time("timeout"))
                .retry(options.retry());
            (
                transacted(&client.transact_with(&transaction, &given).await?),
                None,
            )
        }
        other => panic!("a client has no call `{other}`"),
    })
}

async fn call_object(
    thing: &mut SavedObject,
    step: &Step,
    options: &Options<'_>,
) -> Result<CallResult, Error> {
    let call = step.call.as_str();
    let ends = matches!(
        (&*thing, call),
        (SavedObject::Observer(_), "close")
            | (SavedObject::Guard(_), "release")
            | (SavedObject::Leadership(_), "resign")
    );
    if ends {
        return Ok(match std::mem::replace(thing, SavedObject::Ended) {
            SavedObject::Guard(guard) => (release(guard.release().await?), None),
            SavedObject::Leadership(leadership) => (release(leadership.resign().await?), None),
            _ => (Value::Null, None),
        });
    }
    Ok(match (thing, call) {
        (SavedObject::Observer(observer), "next") => {
            let next = tokio::time::timeout(PATIENCE, observer.next()).await;
            (observation(next.expect("it comes").as_ref()), None)
        }
        (SavedObject::Lease(lease), "acquire") => match lease.acquire().await? {
            Acquisition::Acquired(guard) => (
                json!({"is": "acquired"}),
                Some(SavedObject::Guard(Box::new(guard))),
            ),
            Acquisition::Held(by) => (json!({"is": "held", "holding": holding(by.as_ref())}), None),
        },
        (SavedObject::Lease(lease), "release") => (release(lease.release().await?), None),
        (SavedObject::Lease(lease), "holder") => (holding(lease.holder().await?.as_ref()), None),
        (SavedObject::Guard(guard), "is_valid") => (guard.is_valid().into(), None),
        (SavedObject::Guard(guard), "renew") => (version(Some(&guard.renew().await?)), None),
        (SavedObject::Guard(guard), "set") => {
            let outcome = guard
                .set_with(argument(step, 0), argument(step, 1), &options.set())
                .await?;
            (set(&outcome), None)
        }
        (SavedObject::Guard(guard), "update") => {
            let change = |old: Option<&Entry>| change(step, old);
            let key = argument(step, 0);
            let outcome = guard.update_with(key, &options.update(), change).await?;
            (updated(&outcome), None)
        }
        (SavedObject::Guard(guard), "del") => {
            let outcome = guard.del_with(argument(step, 0), &options.del()).await?;
            (del(&outcome), None)
        }
        (SavedObject::Guard(guard), "vdel") => {
            let outcome = guard
                .vdel_with(argument(step, 0), argument(step, 1), &options.del())
                .await?;
            (vdel(&outcome), None)
        }
        (SavedObject::Election(election), "leader") => {
            let leader = election.leader().await?;
            let leader = leader.map(|leader| {
                json!({
                    "holder": text(leader.holder.name()),
                    "value": leader.value.as_ref().map(|value| text(value)),
                })
            });
            (leader.unwrap_or(Value::Null), None)
        }
        (SavedObject::Election(election), "campaign") => {
            let leadership = election.campaign(argument(step, 0)).await?;
            (
                Value::Null,
                Some(SavedObject::Leadership(Box::new(leadership))),
            )
        }
        (SavedObject::Leadership(leadership), "proclaim") => {
            (set(&leadership.proclaim(argument(step, 0)).await?), None)
        }
        (_, other) => panic!("it has no call `{other}`"),
    })
}
