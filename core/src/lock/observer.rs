//! Observation of the holder of a lease, or the leader of an election.
use super::election::{Election, Leader};
use super::holder::Holder;
use super::lease::{Holding, Lease};
use crate::error::{Error, ErrorKind};
use crate::{LostReason, Observation, Observer, TryNextError};
use futures_core::Stream;
use std::fmt::{self, Debug};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// An observer of the leader of an election.
pub type LeaderObserver = HolderObserver<Election>;

/// A type whose holder can be observed: [`Lease`] or [`Election`]. The trait is sealed.
pub trait Observable: sealed::Sealed + Clone + Debug + Send + Sync + 'static {
    /// The reported holder.
    type Holding: Clone + Debug + Send + Sync + 'static;

    #[doc(hidden)]
    fn query(&self) -> impl Future<Output = Result<Option<Self::Holding>, Error>> + Send;

    #[doc(hidden)]
    fn holder(holding: &Self::Holding) -> &Holder;

    /// Returns whether `found` must be reported after `known`.
    #[doc(hidden)]
    fn is_change(known: &Self::Holding, found: &Self::Holding) -> bool;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Lease {}
    impl Sealed for super::Election {}
}

impl Observable for Lease {
    type Holding = Holding;

    async fn query(&self) -> Result<Option<Holding>, Error> {
        self.holder().await
    }

    fn holder(holding: &Holding) -> &Holder {
        &holding.holder
    }

    /// Returns whether the holder changed. Renewals are not reported.
    fn is_change(known: &Holding, found: &Holding) -> bool {
        known.holder != found.holder
    }
}

impl Observable for Election {
    type Holding = Leader;

    async fn query(&self) -> Result<Option<Leader>, Error> {
        self.leader().await
    }

    fn holder(leader: &Leader) -> &Holder {
        &leader.holder
    }

    fn is_change(known: &Leader, found: &Leader) -> bool {
        known != found
    }
}

impl Lease {
    /// Observes the holder of the lease, from now on.
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe(&self) -> Result<HolderObserver, Error> {
        let lock = self.client.observe(&self.name).await?;
        Ok(HolderObserver::new(self.clone(), lock, None))
    }
}

impl Election {
    /// Observes the leader, from now on.
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe(&self) -> Result<LeaderObserver, Error> {
        let lock = self.client.observe(&self.name).await?;
        let record = self.client.observe(&self.record).await?;
        Ok(LeaderObserver::new(self.clone(), lock, Some(record)))
    }
}

/// An observer of the holder of a [`Lease`], or of the leader of an [`Election`].
#[derive(Debug)]
pub struct HolderObserver<S: Observable = Lease> {
    target: S,
    lock: Observer,
    /// Observer of the leader's record, for an election.
    record: Option<Observer>,
    /// Last reported holder.
    last_reported: Option<S::Holding>,
    /// Whether a key may have changed since the last read.
    is_due: bool,
    /// The read that is under way.
    query: Option<HolderQuery<S>>,
    /// Whether no holder was reported yet, or an error was reported last.
    must_report: bool,
    /// Whether the client is closed.
    is_closed: bool,
    /// The next report.
    next_report: Option<Result<Option<S::Holding>, Error>>,
    /// Waker of the last poll.
    waker: Option<Waker>,
}

impl<S: Observable> HolderObserver<S> {
    fn new(target: S, lock: Observer, record: Option<Observer>) -> Self {
        Self {
            target,
            lock,
            record,
            last_reported: None,
            is_due: true,
            query: None,
            must_report: true,
            is_closed: false,
            next_report: None,
            waker: None,
        }
    }

    /// Returns the next holder or leader: first the current one, then each change of the holder, of its absence, or of the
    /// leader's value. Returns `None` at the end; [`lost_reason`](Self::lost_reason) gives the reason.
    ///
    /// A holder that has the lease for a very short time may be missed. Renewals are not reported. A new leader is often
    /// reported twice, before and after it publishes its value. Dropping the future loses no report.
    ///
    /// # Errors
    /// Returns an error if the store could not be read, and reads again at the next call. Also returns an error if the key
    /// holds something other than a lease.
    pub async fn next(&mut self) -> Option<Result<Option<S::Holding>, Error>> {
        self.ready().await;
        self.next_report.take()
    }

    /// Returns the next holder without waiting. A change is available once the store was read, which each call continues.
    ///
    /// # Errors
    /// The outer error is [`TryNextError::Empty`] if there is no report yet, or [`TryNextError::Ended`] after the last one. The
    /// inner error is one of [`next`](Self::next).
    pub fn try_next(&mut self) -> Result<Result<Option<S::Holding>, Error>, TryNextError> {
        // A caller that polled before is still woken.
        let waker = self.waker.clone();
        let mut context = Context::from_waker(waker.as_ref().unwrap_or(Waker::noop()));
        match self.poll_inner(&mut context) {
            Poll::Ready(()) => self.next_report.take().ok_or(TryNextError::Ended),
            Poll::Pending => Err(TryNextError::Empty),
        }
    }

    /// Waits until [`try_next`](Self::try_next) has a report, or the observer has ended; see [`Observer::ready`].
    ///
    /// Dropping the future loses no report.
    pub async fn ready(&mut self) {
        poll_fn(|context| self.poll_ready(context)).await;
    }

    /// Polls [`ready`](Self::ready), for futures and streams that are written by hand.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let polled = self.poll_inner(context);
        self.waker = polled.is_pending().then(|| context.waker().clone());
        polled
    }

    /// Waits for a report or the end.
    fn poll_inner(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.next_report.is_none() {
            if !self.is_due && self.query.is_none() {
                match ready!(self.poll_changed(context)) {
                    Some(is_due) => self.is_due = is_due,
                    None => return Poll::Ready(()),
                }
                continue;
            }
            if self.is_closed {
                return poll_ended(&mut self.lock, context);
            }
            self.is_due = false;
            let target = &self.target;
            let query = self.query.get_or_insert_with(|| HolderQuery::new(target));
            let result = ready!(query.poll(context));
            self.query = None;
            match result {
                Ok(found) => {
                    let is_change = match (&self.last_reported, &found) {
                        (Some(known), Some(found)) => S::is_change(known, found),
                        (known, found) => known.is_some() != found.is_some(),
                    };
                    self.last_reported.clone_from(&found);
                    if std::mem::take(&mut self.must_report) || is_change {
                        self.next_report = Some(Ok(found));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Closed => {
                    self.is_closed = true;
                    self.is_due = true;
                }
                Err(error) => {
                    self.must_report = true;
                    self.is_due = true;
                    self.next_report = Some(Err(error));
                }
            }
        }
        Poll::Ready(())
    }

    /// Waits for a change of a key. Returns whether the holder or the leader's value may have changed since, or `None` at the
    /// end.
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
        let Ok(change) = change else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(match change {
            Observation::Set { value, .. } if is_of_lock => {
                let known = self
                    .last_reported
                    .as_ref()
                    .map(|known| S::holder(known).name());
                known != Some(&value)
            }
            Observation::Deleted { .. } => self.last_reported.is_some(),
            _ => true,
        }))
    }

    /// Returns the reason why the observer ended, as [`Observer::lost_reason`] does.
    pub fn lost_reason(&self) -> Option<LostReason> {
        let record = self.record.as_ref().and_then(Observer::lost_reason);
        self.lock.lost_reason().or(record)
    }

    /// Returns the error that ended the observer, as [`Observer::error`] does.
    pub fn error(&self) -> Option<Error> {
        let record = self.record.as_ref().and_then(Observer::error);
        self.lock.error().or(record)
    }
}

/// Yields the holders of [`next`](HolderObserver::next), and ends with them.
impl<S: Observable> Stream for HolderObserver<S> {
    type Item = Result<Option<S::Holding>, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.poll_ready(context).map(|()| this.next_report.take())
    }
}

/// No field is pinned.
impl<S: Observable> Unpin for HolderObserver<S> {}

type QueryResult<S> = Result<Option<<S as Observable>::Holding>, Error>;

/// A read of the keys. It continues when its caller stops waiting, and its result is reported later.
struct HolderQuery<S: Observable>(
    // The lock is never contended: it makes the observer `Sync`.
    Mutex<Pin<Box<dyn Future<Output = QueryResult<S>> + Send>>>,
);

impl<S: Observable> HolderQuery<S> {
    fn new(target: &S) -> Self {
        let target = target.clone();
        Self(Mutex::new(Box::pin(async move { target.query().await })))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<QueryResult<S>> {
        let future = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        future.as_mut().poll(context)
    }
}

impl<S: Observable> Debug for HolderQuery<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HolderQuery")
    }
}

/// Waits until an observer of a closed client has ended.
fn poll_ended(changes: &mut Observer, context: &mut Context<'_>) -> Poll<()> {
    loop {
        ready!(changes.poll_ready(context));
        if changes.try_next().is_err() {
            return Poll::Ready(());
        }
    }
}
