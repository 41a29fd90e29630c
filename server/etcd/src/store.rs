//! Identity of the store, and the check that etcd's answers continue its history.
//!
//! A commit compares revisions of records that were read. They mean nothing in another history: a prefix that was removed and created
//! again, another cluster at the same address, a restored backup. Three checks protect against this.
//!
//! - A transaction is made only if the manifest is the one found at the start.
//! - An answer has to come from the same cluster.
//! - An answer must not be older than the latest revision known at the time of its request.
use super::key_names::{KeyNames, encode_floor};
use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, Error, GetOptions, GetResponse, KeyValue,
    ResponseHeader, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use statestored_link::restoring::{EXISTS, UNFINISHED, UNFINISHED_OBJECTION};
use statestored_shared::{BUCKETS, EngineError};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// The beginning of the manifest.
const PROGRAM: &str = "libstatestore";

/// Version of the format; the only one so far.
const FORMAT: u32 = 1;

/// Maximum number of operations in a transaction that creates the floors.
const FLOORS_AT_ONCE: usize = 20;

/// Size of the secret of a store in bytes.
const SECRET_BYTES: usize = 32;

/// The reason why a store cannot be used at the start.
pub(super) enum OpenError {
    Etcd(Error),
    Foreign(String),
    Release(String, String, &'static str),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Etcd(error)
    }
}

/// A store that was found at the start.
#[derive(Debug)]
pub(super) struct Store {
    names: KeyNames,
    /// Random bytes that all servers of the store read from it.
    secret: Vec<u8>,
    /// The revision of the manifest.
    manifest: i64,
    cluster: u64,
    /// The latest revision of any answer.
    latest: AtomicI64,
    /// The evidence that the store was replaced by another one.
    replacement_evidence: OnceLock<String>,
}

fn encode_manifest(format: u32) -> Vec<u8> {
    format!("{PROGRAM} {format}").into_bytes()
}

/// Returns the fault of a manifest, if it has one.
fn manifest_problem(manifest: &[u8]) -> Option<String> {
    if manifest == encode_manifest(FORMAT) {
        return None;
    }
    if manifest == UNFINISHED.as_bytes() {
        return Some(UNFINISHED_OBJECTION.into());
    }
    let text = String::from_utf8_lossy(manifest);
    let format = text
        .strip_prefix(PROGRAM)
        .and_then(|rest| rest.strip_prefix(' '))
        .and_then(|format| format.parse::<u32>().ok());
    Some(match format {
        Some(format) => format!(
            "its format is {format}, and this statestored supports {FORMAT}: use the release that wrote it, or a later one"
        ),
        None => format!("its manifest is {text:?}"),
    })
}

impl Store {
    /// Finds the store below a prefix, or creates it if `may_make`: first all floors, and then the manifest, which shows that they exist.
    pub(super) async fn open_or_create(
        client: &mut Client,
        prefix: &str,
        may_make: bool,
    ) -> Result<Self, OpenError> {
        let names = KeyNames::new(prefix);
        let what = read_prefix(client, &names).await?;
        if let Some(what) = what.foreign {
            return Err(OpenError::Foreign(what));
        }
        if !what.has_manifest {
            if !may_make {
                let what = "the manifest of the store was removed";
                return Err(OpenError::Foreign(what.into()));
            }
            create_store(client, &names).await?;
        }
        let found = client.get(names.manifest(), None).await?;
        let (Some(manifest), Some(header)) = (found.kvs().first(), found.header()) else {
            return Err(OpenError::Foreign(
                "its manifest was removed at once".into(),
            ));
        };
        match manifest_problem(manifest.value()) {
            Some(objection) => Err(OpenError::Foreign(objection)),
            None => Ok(Self {
                secret: read_or_create_secret(client, &names).await?,
                manifest: manifest.mod_revision(),
                cluster: header.cluster_id(),
                latest: AtomicI64::new(header.revision()),
                replacement_evidence: OnceLock::new(),
                names,
            }),
        }
    }

    /// Begins an unfinished store below a prefix that is empty, or has an unfinished one, which is removed.
    pub(super) async fn begin_unfinished(
        client: &mut Client,
        prefix: &str,
    ) -> Result<Self, OpenError> {
        let names = KeyNames::new(prefix);
        if let Some(what) = read_prefix(client, &names).await?.foreign {
            return Err(OpenError::Foreign(what));
        }
        let manifest = names.manifest();
        let is_at = |revision| Compare::mod_revision(manifest.clone(), CompareOp::Equal, revision);
        let found = client.get(names.manifest(), None).await?;
        if let Some(found) = found.kvs().first() {
            if found.value() != UNFINISHED.as_bytes() {
                return Err(OpenError::Foreign(EXISTS.into()));
            }
            let all = DeleteOptions::new().with_prefix();
            let remove = TxnOp::delete(names.all(), Some(all));
            let removal = Txn::new().when([is_at(found.mod_revision())]);
            client.txn(removal.and_then([remove])).await?;
        }
        let one = GetOptions::new().with_prefix().with_limit(1);
        let left = client.get(names.all(), Some(one.with_keys_only())).await?;
        if let Some(left) = left.kvs().first() {
            let name = String::from_utf8_lossy(left.key());
            return Err(OpenError::Foreign(format!(
                "there is {name:?}: name another prefix, or remove all its keys while no server runs"
            )));
        }
        let put = TxnOp::put(names.manifest(), UNFINISHED, None);
        let begun = client
            .txn(Txn::new().when([is_at(0)]).and_then([put]))
            .await?;
        let (true, Some(header)) = (begun.succeeded(), begun.header()) else {
            return Err(OpenError::Foreign(EXISTS.into()));
        };
        Ok(Self {
            secret: read_or_create_secret(client, &names).await?,
            manifest: header.revision(),
            cluster: header.cluster_id(),
            latest: AtomicI64::new(header.revision()),
            replacement_evidence: OnceLock::new(),
            names,
        })
    }

    /// Returns the transaction that completes the unfinished store.
    pub(super) fn completion(&self) -> Txn {
        let put = TxnOp::put(self.names.manifest(), encode_manifest(FORMAT), None);
        self.guarded_read(vec![put])
    }

    /// Returns whether this transaction, or a former copy of it, has completed the store.
    pub(super) fn is_complete(&self, response: &TxnResponse) -> bool {
        let is_manifest = |found: &KeyValue| {
            found.key() == self.names.manifest() && found.value() == encode_manifest(FORMAT)
        };
        let has_manifest = |answer: &TxnOpResponse| match answer {
            TxnOpResponse::Get(found) => found.kvs().first().is_some_and(is_manifest),
            _ => false,
        };
        response.succeeded() || response.op_responses().first().is_some_and(has_manifest)
    }

    /// Returns the random bytes that all servers of the store read from it.
    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    pub(super) fn names(&self) -> &KeyNames {
        &self.names
    }

    /// Returns the latest revision so far. No answer to a later request may be older.
    pub(super) fn latest(&self) -> i64 {
        self.latest.load(Ordering::Relaxed)
    }

    /// Checks that the store was not replaced.
    ///
    /// # Errors
    /// The store was replaced by another one.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let replaced = self.replacement_evidence.get();
        replaced.map_or(Ok(()), |why| Err(EngineError::Replaced(why.clone())))
    }

    fn replaced_error(&self, why: impl FnOnce() -> String) -> EngineError {
        EngineError::Replaced(self.replacement_evidence.get_or_init(why).clone())
    }

    /// Checks an answer to a request that was sent when `latest` was the latest revision.
    ///
    /// # Errors
    /// The answer comes from another history.
    pub(super) fn check_header(
        &self,
        header: Option<&ResponseHeader>,
        latest: i64,
    ) -> Result<(), EngineError> {
        self.check()?;
        let Some(header) = header else { return Ok(()) };
        let (cluster, revision) = (header.cluster_id(), header.revision());
        if cluster != self.cluster {
            let former = self.cluster;
            return Err(
                self.replaced_error(|| format!("its cluster is {cluster:x} and was {former:x}"))
            );
        }
        if revision < latest {
            return Err(self.replaced_error(|| {
                format!("its revision is {revision} and was {latest}: a backup was restored")
            }));
        }
        self.latest.fetch_max(revision, Ordering::Relaxed);
        Ok(())
    }

    /// Returns a transaction that is made in this store only.
    pub(super) fn guarded_read(&self, operations: Vec<TxnOp>) -> Txn {
        self.guarded_or(operations, Vec::new())
    }

    /// Returns a transaction with writes that is made in this store only.
    pub(super) fn guarded_write(&self, operations: Vec<TxnOp>) -> Txn {
        // Before etcd 3.4 reports that it is full, it looks for puts on the first level only. The branch of the put does not matter. This
        // one is taken at most once, by a server whose store was removed.
        let mark = TxnOp::put(self.names.mark(), "", None);
        self.guarded_or(operations, vec![mark])
    }

    fn guarded_or(&self, operations: Vec<TxnOp>, fallback: Vec<TxnOp>) -> Txn {
        let name = self.names.manifest();
        let is_here = Compare::mod_revision(name.clone(), CompareOp::Equal, self.manifest);
        let mut otherwise = vec![TxnOp::get(name, None)];
        otherwise.extend(fallback);
        Txn::new()
            .when([is_here])
            .and_then(operations)
            .or_else(otherwise)
    }

    /// Returns the answers to such a transaction, which was sent when `latest` was the latest revision.
    ///
    /// # Errors
    /// The store was replaced by another one.
    pub(super) fn check_responses(
        &self,
        response: &TxnResponse,
        latest: i64,
    ) -> Result<Vec<TxnOpResponse>, EngineError> {
        self.check_header(response.header(), latest)?;
        let answers = response.op_responses();
        if response.succeeded() {
            return Ok(answers);
        }
        let found = match answers.first() {
            Some(TxnOpResponse::Get(found)) => found.kvs().first(),
            _ => None,
        };
        Err(self.other_store_error(found))
    }

    /// Checks that this manifest is the one found at the start.
    ///
    /// # Errors
    /// The store was replaced by another one.
    pub(super) fn check_manifest(&self, found: &GetResponse) -> Result<(), EngineError> {
        let found = found.kvs().first();
        if found.is_some_and(|found| found.mod_revision() == self.manifest) {
            return Ok(());
        }
        Err(self.other_store_error(found))
    }

    /// Returns the error of a manifest other than the one found at the start.
    pub(super) fn other_store_error(&self, manifest: Option<&KeyValue>) -> EngineError {
        self.replaced_error(|| match manifest {
            None => "its manifest was removed".into(),
            Some(found) => manifest_problem(found.value())
                .unwrap_or_else(|| "its manifest was removed and created again".into()),
        })
    }
}

/// The data below a prefix before the start.
struct PrefixContents {
    has_manifest: bool,
    /// A key that no server has written, or data without a manifest.
    foreign: Option<String>,
}

/// Reads all of this at one moment: another server may be creating the store.
async fn read_prefix(client: &mut Client, names: &KeyNames) -> Result<PrefixContents, Error> {
    let one = |(from, to): (Vec<u8>, Vec<u8>)| {
        let options = GetOptions::new().with_range(to).with_limit(1);
        TxnOp::get(from, Some(options.with_keys_only()))
    };
    let mut looks = vec![
        TxnOp::get(names.manifest(), None),
        one(names.entries_range()),
    ];
    looks.extend(names.unused_ranges().into_iter().map(one));
    let found = first_of_each(client, looks).await?;
    let outer = names.manifests_above().into_iter();
    let outer = outer.map(|name| TxnOp::get(name, None)).collect();
    // A user without rights to the outer manifests gets no answer.
    let outer = first_of_each(client, outer).await.unwrap_or_default();
    let name_of = |found: &KeyValue| String::from_utf8_lossy(found.key()).into_owned();
    let is_there = |index: usize| found.get(index).and_then(Option::as_ref);
    let has_manifest = is_there(0).is_some();
    let mut outer = outer.iter().flatten();
    let outer = outer.find(|it| it.value().starts_with(PROGRAM.as_bytes()));
    let foreign = if let Some(other) = found.iter().skip(2).flatten().next() {
        let name = name_of(other);
        Some(format!(
            "{name:?} is not this program's: it needs a prefix of its own"
        ))
    } else if let Some(other) = outer {
        let name = name_of(other);
        Some(format!(
            "the prefix is within that of the store of {name:?}: it needs a prefix of its own"
        ))
    } else {
        let entry = is_there(1).filter(|_| !has_manifest);
        entry.map(|entry| {
            let (name, manifest) = (name_of(entry), names.manifest());
            let manifest = String::from_utf8_lossy(&manifest);
            format!("there is {name:?}, but no {manifest:?}: remove what is left of a former store, or restore it")
        })
    };
    Ok(PrefixContents {
        has_manifest,
        foreign,
    })
}

/// Returns the first key that each of these operations finds.
async fn first_of_each(
    client: &mut Client,
    gets: Vec<TxnOp>,
) -> Result<Vec<Option<KeyValue>>, Error> {
    let response = client.txn(Txn::new().and_then(gets)).await?;
    let found = response.op_responses().into_iter().map(|it| match it {
        TxnOpResponse::Get(found) => found.kvs().first().cloned(),
        _ => None,
    });
    Ok(found.collect())
}

async fn create_store(client: &mut Client, names: &KeyNames) -> Result<(), Error> {
    tracing::info!("making the store in etcd");
    let create = |name: Vec<u8>, value: Vec<u8>| {
        let absent = Compare::mod_revision(name.clone(), CompareOp::Equal, 0);
        Txn::new()
            .when([absent])
            .and_then([TxnOp::put(name, value, None)])
    };
    let buckets: Vec<_> = (0..BUCKETS).collect();
    for some in buckets.chunks(FLOORS_AT_ONCE) {
        let floor = |bucket: &u16| TxnOp::txn(create(names.floor(*bucket), encode_floor((0, 0))));
        let floors: Vec<_> = some.iter().map(floor).collect();
        client.txn(Txn::new().and_then(floors)).await?;
    }
    let manifest = create(names.manifest(), encode_manifest(FORMAT));
    client.txn(manifest).await?;
    Ok(())
}

/// Reads the secret of the store. The first server creates it.
async fn read_or_create_secret(
    client: &mut Client,
    names: &KeyNames,
) -> Result<Vec<u8>, OpenError> {
    let name = names.secret();
    let value_of = |found: &GetResponse| found.kvs().first().map(|found| found.value().to_vec());
    // The read has no put, which an etcd without space would refuse even if it is not carried out.
    if let Some(secret) = value_of(&client.get(name.clone(), None).await?) {
        return Ok(secret);
    }
    let mut secret = vec![0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| Error::IoError(std::io::Error::other(error)))?;
    let absent = Compare::mod_revision(name.clone(), CompareOp::Equal, 0);
    let make = Txn::new()
        .when([absent])
        .and_then([TxnOp::put(name.clone(), secret.clone(), None)])
        .or_else([TxnOp::get(name, None)]);
    let response = client.txn(make).await?;
    let made_before = match response.op_responses().first() {
        Some(TxnOpResponse::Get(found)) => value_of(found),
        _ => None,
    };
    Ok(made_before.unwrap_or(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_manifest_is_reported() {
        assert_eq!(manifest_problem(b"libstatestore 1"), None);
        let newer = manifest_problem(b"libstatestore 2").unwrap_or_default();
        assert!(
            newer.starts_with("its format is 2, and this statestored supports 1"),
            "{newer}"
        );
        for foreign in [&b""[..], b"libstatestore", b"libstatestore x", b"\xff"] {
            let objection = manifest_problem(foreign).unwrap_or_default();
            assert!(objection.starts_with("its manifest is \""), "{objection}");
        }
    }
}
