//! Elections: a lock whose holder proclaims a value.
use super::guard::{Guard, Release};
use super::holder::Holder;
use super::lease::{self, Holding};
use super::lock;
use super::options::LockOptions;
use crate::error::{Error, ErrorKind};
use crate::{Client, LostReason, Observation, Observer, SetOutcome};
use bytes::{BufMut, Bytes, BytesMut};

/// What follows the name of an election in the key of its leader's record.
const RECORD: &[u8] = b"/leader";

/// An election by its name.
///
/// The name is the key of a lock, and whoever holds the lock is the leader. The key `{name}/leader` holds what the leader
/// proclaims: the name of the holder, a line feed, and the value. It is written under the fence of the lock, and whoever
/// reads it compares the holder's name with the one in the lock, so that the record of a former leader counts for nothing.
#[derive(Debug, Clone)]
pub struct Election {
    client: Client,
    name: Bytes,
    record: Bytes,
    options: LockOptions,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The holder of the lock.
    pub holder: Holder,
    /// What it proclaims; `None` if it did not do so yet.
    pub value: Option<Bytes>,
}

impl Election {
    pub(super) fn new(client: Client, name: &[u8], options: &LockOptions) -> Result<Self, Error> {
        options.lease.check("the election", name)?;
        Ok(Self {
            client,
            name: Bytes::copy_from_slice(name),
            record: [name, RECORD].concat().into(),
            options: options.clone(),
        })
    }

    /// Waits until it is elected, and proclaims a value.
    ///
    /// Dropping the future gives up.
    ///
    /// # Errors
    /// As [`Client::lock_with`]. If the value cannot be proclaimed, the lead is given back.
    pub async fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, Error> {
        let guard = lock::lock(&self.client, &self.name, &self.options).await?;
        let leadership = Leadership {
            guard,
            record: self.record.clone(),
        };
        leadership.proclaim(value).await?;
        Ok(leadership)
    }

    /// Who leads now.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let lease = &self.options.lease;
        let Some(holding) = lease::holding(&self.client, &self.name, lease).await? else {
            return Ok(None);
        };
        let Holding { holder, .. } = holding;
        let record = self.client.get(&self.record).await?;
        let value = record.and_then(|entry| proclaimed(&entry.value, &holder));
        Ok(Some(Leader { holder, value }))
    }

    /// Follows who leads, from now on.
    pub async fn observe(&self) -> Result<LeaderObserver, Error> {
        Ok(LeaderObserver {
            lock: self.client.observe(&self.name).await?,
            record: self.client.observe(&self.record).await?,
            election: self.clone(),
            known: None,
            is_due: true,
            is_new: true,
            told: None,
        })
    }
}

/// What a record proclaims, if it is of this holder.
fn proclaimed(record: &Bytes, holder: &Holder) -> Option<Bytes> {
    let end = record.iter().position(|&byte| byte == b'\n')?;
    (record[..end] == holder.name()[..]).then(|| record.slice(end + 1..))
}

/// Leads, for as long as its guard is valid.
///
/// Dropping it gives the lead back in the background, as dropping a [`Guard`] does.
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
    record: Bytes,
}

impl Leadership {
    /// The guard of the lock, with its token, for writing in the name of the leader.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Replaces the proclaimed value.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<SetOutcome, Error> {
        let (holder, value) = (self.guard.holder().name(), value.as_ref());
        let mut record = BytesMut::with_capacity(holder.len() + 1 + value.len());
        record.put_slice(holder);
        record.put_u8(b'\n');
        record.put_slice(value);
        self.guard.set(&self.record, record).await
    }

    /// Withdraws the proclaimed value and gives the lead back.
    ///
    /// # Errors
    /// The lead could not be given back: it ends when its lease is over. A value that could not be withdrawn does not
    /// count any more without its holder, and the next leader replaces it.
    pub async fn resign(self) -> Result<Release, Error> {
        self.withdraw().await;
        self.guard.release().await
    }

    /// Resigns at the end of work that succeeded, as [`Guard::finish`] gives a lease back.
    ///
    /// # Errors
    /// As there.
    pub async fn finish(self) -> Result<(), Error> {
        if let Some(loss) = self.guard.loss() {
            return Err(loss);
        }
        self.withdraw().await;
        if self.guard.is_valid() {
            return self.guard.finish().await;
        }
        // It was led until the work was over.
        tracing::warn!("a lead could not be given back in its time");
        Ok(())
    }

    async fn withdraw(&self) {
        match self.guard.del(&self.record).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::LockLost => {}
            Err(error) => {
                tracing::debug!(kind = ?error.kind(), "the record of an election stays");
            }
        }
    }
}

/// Follows who leads.
#[derive(Debug)]
pub struct LeaderObserver {
    election: Election,
    lock: Observer,
    record: Observer,
    /// What was told last.
    known: Option<Leader>,
    /// One of the keys may have changed since they were read.
    is_due: bool,
    /// Nothing was told yet, or an error.
    is_new: bool,
    /// What is to be told next.
    told: Option<Result<Option<Leader>, Error>>,
}

impl LeaderObserver {
    /// Who leads: at first who does now, then each time when somebody else does, or nobody, or when the leader proclaims
    /// another value. `None` when it is over: [`lost_reason`](Self::lost_reason) says why.
    ///
    /// A new leader is often told twice, before and after it proclaims its value. Dropping the future loses nothing: what it
    /// did not return is still to come.
    ///
    /// # Errors
    /// The store could not be asked; the next call asks again. Or the key holds something else than a lease.
    pub async fn next(&mut self) -> Option<Result<Option<Leader>, Error>> {
        self.ready().await;
        self.try_next()
    }

    /// The next leader, if it is known already. `None` is the end if [`lost_reason`](Self::lost_reason) says so.
    pub fn try_next(&mut self) -> Option<Result<Option<Leader>, Error>> {
        self.told.take()
    }

    /// Waits until [`try_next`](Self::try_next) has something to give, or nothing will come any more; see
    /// [`Observer::ready`].
    pub async fn ready(&mut self) {
        while self.told.is_none() {
            if !self.is_due {
                let is_of_lock = tokio::select! {
                    biased;
                    () = self.lock.ready() => true,
                    () = self.record.ready() => false,
                };
                let changes = if is_of_lock {
                    &mut self.lock
                } else {
                    &mut self.record
                };
                self.is_due = match changes.try_next() {
                    Some(Observation::Set { value, .. }) => !(is_of_lock && self.is_leader(&value)),
                    Some(_) => true,
                    None => return,
                };
                continue;
            }
            // Until there is an answer, it stays due.
            match self.election.leader().await {
                Ok(leader) => {
                    self.is_due = false;
                    if std::mem::take(&mut self.is_new) || self.known != leader {
                        self.known.clone_from(&leader);
                        self.told = Some(Ok(leader));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Closed => {
                    return lease::ended(&mut self.lock).await;
                }
                Err(error) => {
                    self.is_new = true;
                    self.told = Some(Err(error));
                }
            }
        }
    }

    /// Why there will be no further leader, as [`Observer::lost_reason`].
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.lock.lost_reason().or(self.record.lost_reason())
    }

    /// What ended it, in detail, as [`Observer::error`].
    pub fn error(&self) -> Option<Error> {
        self.lock.error().or(self.record.error())
    }

    fn is_leader(&self, holder: &Bytes) -> bool {
        matches!(&self.known, Some(leader) if leader.holder.name() == holder)
    }
}
