//! Elections: a lock whose holder publishes a value.
use super::guard::{Guard, Release};
use super::holder::Holder;
use super::lease::{self, Holding};
use super::lock_waiter;
use super::options::LockOptions;
use crate::AsBytes;
use crate::client::Deadline;
use crate::error::{Error, ErrorKind};
use crate::{Client, DelOptions, SetOutcome};
use bytes::{BufMut, Bytes, BytesMut};
use std::time::Duration;

/// Suffix of the election's name that forms the key of the leader's record.
const RECORD: &[u8] = b"/leader";

/// An election, identified by its name.
///
/// The name is the key of a lock, and the holder of the lock is the leader. The key `{name}/leader` holds the leader's record:
/// the name of the holder, a line feed, and the value. The record is written under the fence of the lock. A reader compares the
/// holder's name with that in the lock, and so ignores the record of a former leader.
#[derive(Debug, Clone)]
pub struct Election {
    pub(super) client: Client,
    pub(super) name: Bytes,
    pub(super) record: Bytes,
    options: LockOptions,
}

/// The leader of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The holder of the lock.
    pub holder: Holder,
    /// Value published by the leader; `None` if it has not published one yet.
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

    /// Waits until this client is elected, and publishes a value.
    ///
    /// Dropping the future ends the candidacy.
    ///
    /// # Errors
    /// Returns the errors of [`Client::lock_with`]. If the value cannot be published, the leadership is released.
    pub async fn campaign(&self, value: impl AsBytes) -> Result<Leadership, Error> {
        let guard = lock_waiter::lock(&self.client, &self.name, &self.options).await?;
        let leadership = Leadership {
            guard,
            record: self.record.clone(),
        };
        leadership.proclaim(value).await?;
        Ok(leadership)
    }

    /// Returns the current leader.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let lease = &self.options.lease;
        let Some(holding) = lease::read_holding(&self.client, &self.name, lease).await? else {
            return Ok(None);
        };
        let Holding { holder, .. } = holding;
        let record = self.client.get(&self.record).await?;
        let value = record.and_then(|entry| proclaimed(&entry.value, &holder));
        Ok(Some(Leader { holder, value }))
    }
}

/// Returns the value of a record, if this holder wrote it.
fn proclaimed(record: &Bytes, holder: &Holder) -> Option<Bytes> {
    let end = record.iter().position(|&byte| byte == b'\n')?;
    (record[..end] == holder.name()[..]).then(|| record.slice(end + 1..))
}

/// The leadership of an election, for as long as its guard is valid.
///
/// Dropping it releases the leadership in the background, as dropping a [`Guard`] does.
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
    record: Bytes,
}

impl Leadership {
    /// Returns the guard of the lock, with its token, for writes on behalf of the leader.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Replaces the published value.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    ///
    /// # Errors
    /// Returns the errors of [`Guard::set`].
    pub async fn proclaim(&self, value: impl AsBytes) -> Result<SetOutcome, Error> {
        let (holder, value) = (self.guard.holder().name(), value.as_ref());
        let mut record = BytesMut::with_capacity(holder.len() + 1 + value.len());
        record.put_slice(holder);
        record.put_u8(b'\n');
        record.put_slice(value);
        self.guard.set(&self.record, record).await
    }

    /// Withdraws the published value and releases the leadership.
    ///
    /// Returns at the latest when the leadership is no longer certain. Dropping the future releases the leadership in the
    /// background.
    ///
    /// # Errors
    /// Returns an error if the leadership could not be released: it ends when its lease expires. A value that could not be
    /// withdrawn is ignored without its holder, and the next leader replaces it.
    pub async fn resign(self) -> Result<Release, Error> {
        self.resign_within(Duration::MAX).await
    }

    /// Resigns as [`resign`](Self::resign) does, and waits for `timeout` at most. The release then continues in the background.
    ///
    /// # Errors
    /// Returns the errors of [`resign`](Self::resign), or [`ErrorKind::TimedOut`] with an unknown outcome at the time-out.
    pub async fn resign_within(self, timeout: Duration) -> Result<Release, Error> {
        let deadline = Deadline::after(timeout);
        self.withdraw(&deadline).await;
        self.guard.release_within(deadline.remaining()).await
    }

    /// Resigns at the end of work that succeeded, as [`Guard::finish`] releases a lease.
    ///
    /// Dropping the future releases the leadership in the background.
    ///
    /// # Errors
    /// Returns the errors of [`Guard::finish`].
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_within(Duration::MAX).await
    }

    /// Resigns as [`finish`](Self::finish) does, and waits for `timeout` at most. The release then continues in the background.
    ///
    /// # Errors
    /// Returns the errors of [`Guard::finish`].
    pub async fn finish_within(self, timeout: Duration) -> Result<(), Error> {
        if let Some(loss) = self.guard.loss() {
            return Err(loss);
        }
        let deadline = Deadline::after(timeout);
        self.withdraw(&deadline).await;
        if self.guard.is_valid() {
            return self.guard.finish_within(deadline.remaining()).await;
        }
        // The leadership lasted until the work had ended.
        tracing::warn!("a lead could not be given back in its time");
        Ok(())
    }

    async fn withdraw(&self, deadline: &Deadline) {
        let limit = self.guard.client().shared().request_timeout();
        let options = DelOptions::new().timeout(deadline.remaining().min(limit));
        match self.guard.del_with(&self.record, &options).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::LockLost => {}
            Err(error) => {
                tracing::debug!(kind = ?error.kind(), "the record of an election stays");
            }
        }
    }
}
