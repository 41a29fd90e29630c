//! Elections: a lock whose holder proclaims a value.
use super::guard::{Guard, Release};
use super::holder::Holder;
use super::lease::{self, Holding};
use super::lock;
use super::options::LockOptions;
use crate::AsBytes;
use crate::client::Deadline;
use crate::error::{Error, ErrorKind};
use crate::{Client, DelOptions, SetOutcome};
use bytes::{BufMut, Bytes, BytesMut};
use std::time::Duration;

/// What follows the name of an election in the key of its leader's record.
const RECORD: &[u8] = b"/leader";

/// An election by its name.
///
/// The name is the key of a lock, and whoever holds the lock is the leader. The key `{name}/leader` holds what the leader
/// proclaims: the name of the holder, a line feed, and the value. It is written under the fence of the lock, and whoever
/// reads it compares the holder's name with the one in the lock, so that the record of a former leader counts for nothing.
#[derive(Debug, Clone)]
pub struct Election {
    pub(super) client: Client,
    pub(super) name: Bytes,
    pub(super) record: Bytes,
    options: LockOptions,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    pub async fn campaign(&self, value: impl AsBytes) -> Result<Leadership, Error> {
        let guard = lock::lock(&self.client, &self.name, &self.options).await?;
        let leadership = Leadership {
            guard,
            record: self.record.clone(),
        };
        leadership.proclaim(value).await?;
        Ok(leadership)
    }

    /// Who leads now.
    ///
    /// Dropping the future takes the request back; nothing is changed by it.
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
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub async fn proclaim(&self, value: impl AsBytes) -> Result<SetOutcome, Error> {
        let (holder, value) = (self.guard.holder().name(), value.as_ref());
        let mut record = BytesMut::with_capacity(holder.len() + 1 + value.len());
        record.put_slice(holder);
        record.put_u8(b'\n');
        record.put_slice(value);
        self.guard.set(&self.record, record).await
    }

    /// Withdraws the proclaimed value and gives the lead back.
    ///
    /// Returns at the latest when the lead is not certain any more. Dropping the future gives the lead back in the background.
    ///
    /// # Errors
    /// The lead could not be given back: it ends when its lease is over. A value that could not be withdrawn does not
    /// count any more without its holder, and the next leader replaces it.
    pub async fn resign(self) -> Result<Release, Error> {
        self.resign_within(Duration::MAX).await
    }

    /// As [`resign`](Self::resign), and waits at most so long. Giving the lead back goes on in the background then.
    ///
    /// # Errors
    /// As [`resign`](Self::resign); [`ErrorKind::TimedOut`] with an unknown outcome if the time is over.
    pub async fn resign_within(self, timeout: Duration) -> Result<Release, Error> {
        let deadline = Deadline::after(timeout);
        self.withdraw(&deadline).await;
        self.guard.release_within(deadline.left()).await
    }

    /// Resigns at the end of work that succeeded, as [`Guard::finish`] gives a lease back.
    ///
    /// Dropping the future gives the lead back in the background.
    ///
    /// # Errors
    /// As there.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_within(Duration::MAX).await
    }

    /// As [`finish`](Self::finish), and waits at most so long. Giving the lead back goes on in the background then.
    ///
    /// # Errors
    /// As there.
    pub async fn finish_within(self, timeout: Duration) -> Result<(), Error> {
        if let Some(loss) = self.guard.loss() {
            return Err(loss);
        }
        let deadline = Deadline::after(timeout);
        self.withdraw(&deadline).await;
        if self.guard.is_valid() {
            return self.guard.finish_within(deadline.left()).await;
        }
        // It was led until the work was over.
        tracing::warn!("a lead could not be given back in its time");
        Ok(())
    }

    async fn withdraw(&self, deadline: &Deadline) {
        let most = self.guard.client().shared().request_timeout();
        let options = DelOptions::new().timeout(deadline.left().min(most));
        match self.guard.del_with(&self.record, &options).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::LockLost => {}
            Err(error) => {
                tracing::debug!(kind = ?error.kind(), "the record of an election stays");
            }
        }
    }
}
