//! Following who holds a lease, or who leads.
use super::election::{Election, Leader};
use super::holder::Holder;
use super::lease::{Holding, Lease};
use crate::error::{Error, ErrorKind};
use crate::{LostReason, Observation, Observer};
use futures_core::Stream;
use std::fmt::{self, Debug};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

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
    /// The keys are being read.
    asking: Option<Asking<S>>,
    /// Nothing was told yet, or an error.
    is_new: bool,
    /// The client is closed.
    is_over: bool,
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
            asking: None,
            is_new: true,
            is_over: false,
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
        poll_fn(|context| self.poll_ready(context)).await;
    }

    /// [`ready`](Self::ready), for futures and streams that are written by hand.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.told.is_none() {
            if !self.is_due && self.asking.is_none() {
                match ready!(self.poll_changed(context)) {
                    Some(is_due) => self.is_due = is_due,
                    None => return Poll::Ready(()),
                }
                continue;
            }
            if self.is_over {
                return poll_ended(&mut self.lock, context);
            }
            self.is_due = false;
            let of = &self.of;
            let asking = self.asking.get_or_insert_with(|| Asking::of(of));
            let answer = ready!(asking.poll(context));
            self.asking = None;
            match answer {
                Ok(found) => {
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
                    self.is_over = true;
                    self.is_due = true;
                }
                Err(error) => {
                    self.is_new = true;
                    self.is_due = true;
                    self.told = Some(Err(error));
                }
            }
        }
        Poll::Ready(())
    }

    /// Waits for a change of a key; whether somebody else may hold the lease since, or the leader proclaim something else.
    /// `None` at the end.
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Option<bool>> {
        let is_of_lock = self.lock.poll_ready(context).is_ready();
        let change = match &mut self.record {
            _ if is_of_lock => self.lock.try_next(),
            Some(record) => {
                ready!(record.poll_ready(context));
                record.try_next()
            }
            None => return Poll::Pending,
        };
        let Some(change) = change else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(match change {
            Observation::Set { value, .. } if is_of_lock => {
                let known = self.known.as_ref().map(|known| S::holder(known).name());
                known != Some(&value)
            }
            Observation::Deleted { .. } => self.known.is_some(),
            _ => true,
        }))
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

/// The holders of [`next`](HolderObserver::next), and its end.
impl<S: Followed> Stream for HolderObserver<S> {
    type Item = Result<Option<S::Holding>, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.poll_ready(context).map(|()| this.try_next())
    }
}

/// Nothing in it is pinned.
impl<S: Followed> Unpin for HolderObserver<S> {}

type Answer<S> = Result<Option<<S as Followed>::Holding>, Error>;

/// The keys are being read. It goes on when nobody waits for it any more: what it brings is still to come then.
struct Asking<S: Followed>(
    // Which is never locked: it makes the observer one that threads may share.
    Mutex<Pin<Box<dyn Future<Output = Answer<S>> + Send>>>,
);

impl<S: Followed> Asking<S> {
    fn of(of: &S) -> Self {
        let of = of.clone();
        Self(Mutex::new(Box::pin(async move { of.ask().await })))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer<S>> {
        let future = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        future.as_mut().poll(context)
    }
}

impl<S: Followed> Debug for Asking<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}

/// Ready when an observer of a client that is closed has ended.
fn poll_ended(changes: &mut Observer, context: &mut Context<'_>) -> Poll<()> {
    loop {
        ready!(changes.poll_ready(context));
        if changes.try_next().is_none() {
            return Poll::Ready(());
        }
    }
}
