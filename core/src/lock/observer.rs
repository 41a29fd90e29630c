//! Following who holds a lease, or who leads.
use super::election::{Election, Leader};
use super::holder::Holder;
use super::lease::{Holding, Lease};
use crate::error::{Error, ErrorKind};
use crate::{LostReason, Observation, Observer};
use std::fmt::Debug;

/// Follows who leads.
pub type LeaderObserver = HolderObserver<Election>;

/// What has a holder that can be followed: a [`Lease`], an [`Election`], and nothing else.
pub trait Followed: sealed::Sealed + Clone + Debug + Send + Sync + 'static {
    /// What is told of the holder.
    type Holding: Clone + Debug + Send + Sync + 'static;

    #[doc(hidden)]
    fn ask(&self) -> impl Future<Output = Result<Option<Self::Holding>, Error>> + Send;

    #[doc(hidden)]
    fn holder(holding: &Self::Holding) -> &Holder;

    /// Whether somebody who knows the one is to be told the other.
    #[doc(hidden)]
    fn is_news(known: &Self::Holding, found: &Self::Holding) -> bool;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Lease {}
    impl Sealed for super::Election {}
}

impl Followed for Lease {
    type Holding = Holding;

    async fn ask(&self) -> Result<Option<Holding>, Error> {
        self.holder().await
    }

    fn holder(holding: &Holding) -> &Holder {
        &holding.holder
    }

    /// Renewals are none.
    fn is_news(known: &Holding, found: &Holding) -> bool {
        known.holder != found.holder
    }
}

impl Followed for Election {
    type Holding = Leader;

    async fn ask(&self) -> Result<Option<Leader>, Error> {
        self.leader().await
    }

    fn holder(leader: &Leader) -> &Holder {
        &leader.holder
    }

    fn is_news(known: &Leader, found: &Leader) -> bool {
        known != found
    }
}

impl Lease {
    /// Follows who holds the lease, from now on.
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe(&self) -> Result<HolderObserver, Error> {
        let lock = self.client.observe(&self.name).await?;
        Ok(HolderObserver::new(self.clone(), lock, None))
    }
}

impl Election {
    /// Follows who leads, from now on.
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe(&self) -> Result<LeaderObserver, Error> {
        let lock = self.client.observe(&self.name).await?;
        let record = self.client.observe(&self.record).await?;
        Ok(LeaderObserver::new(self.clone(), lock, Some(record)))
    }
}

/// Follows who holds a [`Lease`], or who leads in an [`Election`].
#[derive(Debug)]
pub struct HolderObserver<S: Followed = Lease> {
    of: S,
    lock: Observer,
    /// What the leader of an election proclaims.
    record: Option<Observer>,
    /// What was told last.
    known: Option<S::Holding>,
    /// One of the keys may have changed since they were read.
    is_due: bool,
    /// Nothing was told yet, or an error.
    is_new: bool,
    /// What is to be told next.
    told: Option<Result<Option<S::Holding>, Error>>,
}

impl<S: Followed> HolderObserver<S> {
    fn new(of: S, lock: Observer, record: Option<Observer>) -> Self {
        Self {
            of,
            lock,
            record,
            known: None,
            is_due: true,
            is_new: true,
            told: None,
        }
    }

    /// Who holds the lease or leads: at first who does now, then each time when it is somebody else, or nobody, or when the
    /// leader proclaims another value. `None` when it is over: [`lost_reason`](Self::lost_reason) says why.
    ///
    /// A holder that has the lease for a very short time may not be seen. Renewals are not told. A new leader is often told
    /// twice, before and after it proclaims its value. Dropping the future loses nothing: what it did not return is still to
    /// come.
    ///
    /// # Errors
    /// The store could not be asked; the next call asks again. Or the key holds something else than a lease.
    pub async fn next(&mut self) -> Option<Result<Option<S::Holding>, Error>> {
        self.ready().await;
        self.try_next()
    }

    /// The next holder, if it is known already. `None` is the end if [`lost_reason`](Self::lost_reason) says so.
    pub fn try_next(&mut self) -> Option<Result<Option<S::Holding>, Error>> {
        self.told.take()
    }

    /// Waits until [`try_next`](Self::try_next) has something to give, or nothing will come any more; see
    /// [`Observer::ready`].
    ///
    /// Dropping the future loses nothing.
    pub async fn ready(&mut self) {
        while self.told.is_none() {
            if !self.is_due {
                match self.changed().await {
                    Some(is_due) => self.is_due = is_due,
                    None => return,
                }
                continue;
            }
            // Until there is an answer, it stays due.
            match self.of.ask().await {
                Ok(found) => {
                    self.is_due = false;
                    let is_news = match (&self.known, &found) {
                        (Some(known), Some(found)) => S::is_news(known, found),
                        (known, found) => known.is_some() != found.is_some(),
                    };
                    self.known.clone_from(&found);
                    if std::mem::take(&mut self.is_new) || is_news {
                        self.told = Some(Ok(found));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Closed => {
                    return ended(&mut self.lock).await;
                }
                Err(error) => {
                    self.is_new = true;
                    self.told = Some(Err(error));
                }
            }
        }
    }

    /// Waits for a change of a key; whether somebody else may hold the lease since, or the leader proclaim something else.
    /// `None` at the end.
    async fn changed(&mut self) -> Option<bool> {
        let (is_of_lock, change) = match &mut self.record {
            None => {
                self.lock.ready().await;
                (true, self.lock.try_next())
            }
            Some(record) => tokio::select! {
                biased;
                () = self.lock.ready() => (true, self.lock.try_next()),
                () = record.ready() => (false, record.try_next()),
            },
        };
        Some(match change? {
            Observation::Set { value, .. } if is_of_lock => {
                let known = self.known.as_ref().map(|known| S::holder(known).name());
                known != Some(&value)
            }
            Observation::Deleted { .. } => self.known.is_some(),
            _ => true,
        })
    }

    /// Why there will be no further holder, as [`Observer::lost_reason`].
    pub fn lost_reason(&self) -> Option<LostReason> {
        let record = self.record.as_ref().and_then(Observer::lost_reason);
        self.lock.lost_reason().or(record)
    }

    /// What ended it, in detail, as [`Observer::error`].
    pub fn error(&self) -> Option<Error> {
        let record = self.record.as_ref().and_then(Observer::error);
        self.lock.error().or(record)
    }
}

/// Ready when an observer of a client that is closed has ended.
async fn ended(changes: &mut Observer) {
    loop {
        changes.ready().await;
        if changes.try_next().is_none() {
            return;
        }
    }
}
