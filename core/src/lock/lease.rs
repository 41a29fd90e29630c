//! Leases: single attempts to take one, and queries of the holder.
use super::guard::Guard;
use super::holder::{self, Holder};
use super::options::LeaseOptions;
use super::renewal_task;
use super::{action, invalid, not_a_lock};
use crate::client::Client;
use crate::error::Error;
use crate::{DelOptions, Entry, Hlc};
use bytes::Bytes;
use std::time::Duration;

/// A lease, identified by its name, which is a key of the store.
#[derive(Debug, Clone)]
pub struct Lease {
    pub(super) client: Client,
    pub(super) name: Bytes,
    options: LeaseOptions,
}

/// The current holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holding {
    /// The holder.
    pub holder: Holder,
    /// Version of the lease, from when it was taken or last renewed.
    pub version: Hlc,
}

/// Result of an attempt to take a lease.
#[derive(Debug)]
pub enum Acquisition {
    /// This client holds the lease.
    Acquired(Guard),
    /// Another client holds the lease; `None` if it released the lease before its name could be read.
    Held(Option<Holding>),
}

impl Acquisition {
    /// Returns the guard, if the lease was taken.
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

    /// Returns the name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Makes one attempt to take the lease (SET NEX PX).
    ///
    /// Dropping the future releases a lease that may have been taken, in the background. The same happens if the outcome is
    /// unknown.
    ///
    /// # Errors
    /// Returns the error of the request, or [`NotALock`](crate::ErrorKind::NotALock) if the key holds something other than a
    /// lease. That key is not changed.
    pub async fn acquire(&self) -> Result<Acquisition, Error> {
        self.client
            .shared()
            .check_fail_fast(|| action("taking the lease", &self.name))?;
        match renewal_task::acquire(&self.client, &self.name, &self.options).await? {
            Some(guard) => Ok(Acquisition::Acquired(guard)),
            None => self.holder().await.map(Acquisition::Held),
        }
    }

    /// Releases a lease held under the [resumed](LeaseOptions::resume) holder's name (VDEL), regardless of the program that
    /// took it. Use it for leases that were left with [`Guard::leave`]; a guard releases its own lease. The time limit is that
    /// of an attempt to take the lease.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    ///
    /// # Errors
    /// Returns the error of the request, or an error if the options do not [resume](LeaseOptions::resume) a holder.
    pub async fn release(&self) -> Result<super::Release, Error> {
        let resumed = self.options.holder.as_ref().filter(|_| self.options.resume);
        let Some(holder) = resumed else {
            let reason = "only a lease that resumes a named holder is released this way; a guard releases its own";
            return Err(invalid("releasing the lease", &self.name, reason));
        };
        let options = DelOptions::new().timeout(self.options.attempt_timeout(&self.client));
        let deleted = self.client.vdel_with(&self.name, holder, &options).await;
        Ok(match deleted? {
            crate::VdelOutcome::Deleted { .. } => super::Release::Released,
            _ => super::Release::NotHeld,
        })
    }

    /// Returns the holder of the lease (GET).
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    ///
    /// # Errors
    /// Returns the error of the request, or [`NotALock`](crate::ErrorKind::NotALock) if the key holds something other than a
    /// lease.
    pub async fn holder(&self) -> Result<Option<Holding>, Error> {
        read_holding(&self.client, &self.name, &self.options).await
    }
}

/// Reads the holder of a lease from the store.
pub(super) async fn read_holding(
    client: &Client,
    name: &Bytes,
    options: &LeaseOptions,
) -> Result<Option<Holding>, Error> {
    match client.get(name).await? {
        None => Ok(None),
        Some(entry) => parse_holding(client, name, options, entry).map(Some),
    }
}

/// Distinguishes a lease from ordinary data; see `docs/locks.md`, "What a lock key may hold".
pub(super) fn parse_holding(
    client: &Client,
    name: &Bytes,
    options: &LeaseOptions,
    entry: Entry,
) -> Result<Holding, Error> {
    let Entry { value, version, .. } = entry;
    if !holder::is_valid_name(&value, true) {
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
