//! Leases: one attempt to take, and who has it.
use super::guard::Guard;
use super::holder::{self, Holder};
use super::keeper;
use super::options::LeaseOptions;
use super::{action, invalid, not_a_lock};
use crate::client::Client;
use crate::error::Error;
use crate::{DelOptions, Entry, Hlc};
use bytes::Bytes;
use std::time::Duration;

/// A lease by its name, which is a key of the store.
#[derive(Debug, Clone)]
pub struct Lease {
    pub(super) client: Client,
    pub(super) name: Bytes,
    options: LeaseOptions,
}

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holding {
    /// The holder.
    pub holder: Holder,
    /// The version of the lease, from when it was taken or last renewed.
    pub version: Hlc,
}

/// What an attempt to take a lease brought.
#[derive(Debug)]
pub enum Acquisition {
    /// It is ours.
    Acquired(Guard),
    /// Somebody else has it; `None` if he gave it back before he could be named.
    Held(Option<Holding>),
}

impl Acquisition {
    /// The guard, if the lease was taken.
    pub fn guard(self) -> Option<Guard> {
        match self {
            Self::Acquired(guard) => Some(guard),
            Self::Held(_) => None,
        }
    }
}

impl Lease {
    pub(super) fn new(client: Client, name: &[u8], options: &LeaseOptions) -> Result<Self, Error> {
        options.check("the lease", name)?;
        Ok(Self {
            client,
            name: Bytes::copy_from_slice(name),
            options: options.clone(),
        })
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Makes one attempt to take the lease (SET NEX PX).
    ///
    /// Dropping the future, or an unknown outcome, gives back in the background what may have been taken.
    ///
    /// # Errors
    /// The request failed; or the key holds something else than a lease ([`NotALock`](crate::ErrorKind::NotALock)), which is left alone.
    pub async fn acquire(&self) -> Result<Acquisition, Error> {
        self.client
            .shared()
            .check_fail_fast(|| action("taking the lease", &self.name))?;
        match keeper::acquire(&self.client, &self.name, &self.options).await? {
            Some(guard) => Ok(Acquisition::Acquired(guard)),
            None => self.holder().await.map(Acquisition::Held),
        }
    }

    /// Gives back what is held under the [resumed](LeaseOptions::resume) holder's name (VDEL), whichever program took it; for leases that
    /// were left with [`Guard::leave`]. A guard gives its lease back by itself. Takes no longer than an attempt to take the lease may.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    ///
    /// # Errors
    /// The request failed, or the options do not [resume](LeaseOptions::resume) a holder.
    pub async fn release(&self) -> Result<super::Release, Error> {
        let resumed = self.options.holder.as_ref().filter(|_| self.options.resume);
        let Some(holder) = resumed else {
            let reason = "only a lease that resumes a named holder is released this way; a guard releases its own";
            return Err(invalid("releasing the lease", &self.name, reason));
        };
        let options = DelOptions::new().timeout(self.options.attempt(&self.client));
        let deleted = self.client.vdel_with(&self.name, holder, &options).await;
        Ok(match deleted? {
            crate::VdelOutcome::Deleted { .. } => super::Release::Released,
            _ => super::Release::NotHeld,
        })
    }

    /// Who holds the lease (GET).
    ///
    /// Dropping the future takes the request back; nothing is changed by it.
    ///
    /// # Errors
    /// The request failed; or the key holds something else than a lease ([`NotALock`](crate::ErrorKind::NotALock)).
    pub async fn holder(&self) -> Result<Option<Holding>, Error> {
        holding(&self.client, &self.name, &self.options).await
    }
}

/// Who holds a lease, read from the store.
pub(super) async fn holding(
    client: &Client,
    name: &Bytes,
    options: &LeaseOptions,
) -> Result<Option<Holding>, Error> {
    match client.get(name).await? {
        None => Ok(None),
        Some(entry) => understand(client, name, options, entry).map(Some),
    }
}

/// Tells a lease from ordinary data: see `docs/locks.md`, "What a lock key may hold".
pub(super) fn understand(
    client: &Client,
    name: &Bytes,
    options: &LeaseOptions,
    entry: Entry,
) -> Result<Holding, Error> {
    let Entry { value, version, .. } = entry;
    if !holder::is_possible(&value, true) {
        let bytes = value.len();
        return Err(not_a_lock(
            name,
            format!(
                "its key holds {bytes} bytes of data that are not the name of a holder; they are left alone"
            ),
        ));
    }
    let holder = Holder::new(value);
    let age = client
        .shared()
        .platform()
        .wall_ms()
        .saturating_sub(version.wall_ms());
    let age = Duration::from_secs(age / 1000);
    if holder.lease().is_none() && age > options.foreign_lease_max {
        return Err(not_a_lock(
            name,
            format!(
                "its key holds data that was last written {age:?} ago, which no lease lasts without being renewed; \
                 it is left alone"
            ),
        ));
    }
    Ok(Holding { holder, version })
}
