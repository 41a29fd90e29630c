//! Leases: one attempt to take, and who has it.
use super::guard::Guard;
use super::holder::{self, Holder};
use super::keeper;
use super::options::LeaseOptions;
use super::{invalid, not_a_lock};
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::{Entry, Hlc, LostReason, Observation, Observer};
use bytes::Bytes;
use std::time::Duration;

/// A lease by its name, which is a key of the store.
#[derive(Debug, Clone)]
pub struct Lease {
    client: Client,
    name: Bytes,
    options: LeaseOptions,
}

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The request failed; or the key holds something else than a lease ([`ErrorKind::NotALock`]), which is left alone.
    pub async fn acquire(&self) -> Result<Acquisition, Error> {
        match keeper::acquire(&self.client, &self.name, &self.options).await? {
            Some(guard) => Ok(Acquisition::Acquired(guard)),
            None => self.holder().await.map(Acquisition::Held),
        }
    }

    /// Gives back what is held under this holder's name (VDEL), whoever took it; for those who left a lease with
    /// [`Guard::leave`]. A guard gives its lease back by itself.
    ///
    /// # Errors
    /// The request failed, or the options have no [holder](LeaseOptions::holder).
    pub async fn release(&self) -> Result<super::Release, Error> {
        let Some(holder) = &self.options.holder else {
            let reason = "only a lease whose holder is named in its options is released this way";
            return Err(invalid("releasing the lease", &self.name, reason));
        };
        Ok(match self.client.vdel(&self.name, holder).await? {
            crate::VdelOutcome::Deleted { .. } => super::Release::Released,
            _ => super::Release::NotHeld,
        })
    }

    /// Who holds the lease (GET).
    ///
    /// # Errors
    /// The request failed; or the key holds something else than a lease ([`ErrorKind::NotALock`]).
    pub async fn holder(&self) -> Result<Option<Holding>, Error> {
        holding(&self.client, &self.name, &self.options).await
    }

    /// Follows who holds the lease, from now on.
    pub async fn observe(&self) -> Result<HolderObserver, Error> {
        let changes = self.client.observe(&self.name).await?;
        Ok(HolderObserver {
            lease: self.clone(),
            changes,
            known: None,
            is_due: true,
            is_new: true,
            told: None,
        })
    }
}

/// Ready when an observer of a client that is closed has ended.
pub(super) async fn ended(changes: &mut Observer) {
    loop {
        changes.ready().await;
        if changes.try_next().is_none() {
            return;
        }
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
    let Entry { value, version } = entry;
    if !holder::is_possible(&value) {
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

/// Follows who holds a lease.
#[derive(Debug)]
pub struct HolderObserver {
    lease: Lease,
    changes: Observer,
    /// What was told last.
    known: Option<Holding>,
    /// The key may have changed since it was read.
    is_due: bool,
    /// Nothing was told yet, or an error.
    is_new: bool,
    /// What is to be told next.
    told: Option<Result<Option<Holding>, Error>>,
}

impl HolderObserver {
    /// Who holds the lease: at first who does now, then each time when it is somebody else, or nobody. `None` when it
    /// is over: [`lost_reason`](Self::lost_reason) says why.
    ///
    /// A holder that has the lease for a very short time may not be seen. Renewals are not told. Dropping the future loses
    /// nothing: what it did not return is still to come.
    ///
    /// # Errors
    /// The store could not be asked; the next call asks again. Or the key holds something else than a lease.
    pub async fn next(&mut self) -> Option<Result<Option<Holding>, Error>> {
        self.ready().await;
        self.try_next()
    }

    /// The next holder, if it is known already. `None` is the end if [`lost_reason`](Self::lost_reason) says so.
    pub fn try_next(&mut self) -> Option<Result<Option<Holding>, Error>> {
        self.told.take()
    }

    /// Waits until [`try_next`](Self::try_next) has something to give, or nothing will come any more; see
    /// [`Observer::ready`].
    pub async fn ready(&mut self) {
        while self.told.is_none() {
            if !self.is_due {
                self.changes.ready().await;
                self.is_due = match self.changes.try_next() {
                    Some(Observation::Set { value, .. }) => !self.is_known(&value),
                    Some(Observation::Deleted { .. }) => self.known.is_some(),
                    Some(_) => true,
                    None => return,
                };
                continue;
            }
            // Until there is an answer, it stays due.
            match self.lease.holder().await {
                Ok(holding) => {
                    let is_known = match (&self.known, &holding) {
                        (Some(known), Some(holding)) => known.holder == holding.holder,
                        (known, holding) => known.is_some() == holding.is_some(),
                    };
                    self.is_due = false;
                    self.known.clone_from(&holding);
                    if std::mem::take(&mut self.is_new) || !is_known {
                        self.told = Some(Ok(holding));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Closed => {
                    return ended(&mut self.changes).await;
                }
                Err(error) => {
                    self.is_new = true;
                    self.told = Some(Err(error));
                }
            }
        }
    }

    /// Why there will be no further holder, as [`Observer::lost_reason`].
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.changes.lost_reason()
    }

    /// What ended it, in detail, as [`Observer::error`].
    pub fn error(&self) -> Option<Error> {
        self.changes.error()
    }

    fn is_known(&self, value: &Bytes) -> bool {
        matches!(&self.known, Some(holding) if holding.holder.name() == value)
    }
}
