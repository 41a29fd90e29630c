//! A held lease: a lock, or the leadership of an election.
use crate::error::{Error, ErrorKind};
use crate::process::ProcessBound;
use crate::work_outcome::WorkOutcome;
use bytes::Bytes;
use statestore::{
    DelOptions, DelOutcome, Entry, Guard as CoreGuard, Hlc, Holder, Leadership as CoreLeadership,
    LostReason, Outcome, Release, SetOptions, SetOutcome, UpdateOptions, UpdateOutcome,
    VdelOutcome,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::time::{Instant, timeout_at};

/// A held lease that reports its loss; see [`statestore::Guard`]. Clones share it.
///
/// Dropping the last one gives the lease back in the background.
#[derive(Debug)]
pub struct Guard {
    inner: ProcessBound<Arc<Inner>>,
}

#[derive(Debug)]
struct Inner {
    name: Bytes,
    holder: Holder,
    token: Hlc,
    /// `None` after the release. Writes take the read lock and a release the write lock, so that the lease stays until they are
    /// done.
    lease: Arc<RwLock<Option<HeldLease>>>,
    /// Number of release calls under way.
    releases: AtomicUsize,
    /// Set as soon as a release begins: the lease cannot be used afterwards, even if the release is given up. Contains the
    /// reason of an earlier loss, or that it was released.
    end_reason: OnceLock<LostReason>,
}

impl Inner {
    /// Calls `read` with the held lease; `None` if it is released or being released.
    fn with_guard<T>(&self, read: impl FnOnce(&CoreGuard) -> T) -> Option<T> {
        if self.end_reason.get().is_some() {
            return None;
        }
        let lease = self.lease.try_read().ok()?;
        Some(read(lease.as_ref()?.guard()))
    }

    /// Locks the lease for an action. The action begins with this call, so a later release waits for it.
    fn use_lease(self: &Arc<Self>, action: &str) -> Result<LeaseUse, Error> {
        // Only a release takes the write lock.
        let lease = Arc::clone(&self.lease).try_read_owned();
        let lease = lease.map_err(|_| released(action))?;
        let is_over = self.end_reason.get().is_some();
        let settles = SettleOnDrop(Arc::clone(self));
        let lease =
            OwnedRwLockReadGuard::try_map(lease, |lease| lease.as_ref().filter(|_| !is_over));
        Ok(LeaseUse {
            lease: lease.map_err(|_| released(action))?,
            _settle_on_drop: settles,
        })
    }

    /// Releases the lease in the background if a release began and was given up, unless the lease is in use.
    fn finish_release(&self) {
        if self.end_reason.get().is_some()
            && self.releases.load(Ordering::SeqCst) == 0
            && let Ok(mut lease) = self.lease.try_write()
        {
            drop(lease.take());
        }
    }

    /// Returns the error for work under a lease that was lost before its release.
    fn earlier_loss(&self) -> Option<Error> {
        let lost_reason = *self.end_reason.get()?;
        (lost_reason != LostReason::Released).then(|| {
            let reason = format!("the lease was lost before it was given back: {lost_reason}");
            Error::new(ErrorKind::LockLost, Outcome::Unknown, WORKING, reason)
        })
    }

    /// Takes the held lease as soon as no write uses it, and the time that is left of the time-out and the lease. From this call on the
    /// guard is over: dropping the future, even an unpolled one, releases the lease in the background.
    fn take_lease(
        self: &Arc<Self>,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<(Option<HeldLease>, Duration), Error>> + Send + 'static + use<>
    {
        let until = self.with_guard(CoreGuard::valid_until);
        let requested = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = until.into_iter().chain(requested).min();
        let lost_reason = self.with_guard(CoreGuard::lost_reason).flatten();
        self.end_reason
            .get_or_init(|| lost_reason.unwrap_or(LostReason::Released));
        let release_call = ReleaseCall::begin(self);
        async move {
            let writing = release_call.0.lease.write();
            let Some(deadline) = deadline else {
                return Ok((writing.await.take(), Duration::MAX));
            };
            match timeout_at(deadline, writing).await {
                Ok(mut lease) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    Ok((lease.take(), left))
                }
                Err(_) => Err(Error::new(
                    ErrorKind::TimedOut,
                    Outcome::Unknown,
                    "giving a lease back",
                    "a write under the lease did not end in time; the lease is given back when it does",
                )),
            }
        }
    }
}

/// A use of the held lease.
struct LeaseUse {
    lease: OwnedRwLockReadGuard<Option<HeldLease>, HeldLease>,
    // Dropped after the read lock, so that a release in it finds the lock free.
    _settle_on_drop: SettleOnDrop,
}

/// Releases the lease in the background after the last use, if a release began and was given up meanwhile.
struct SettleOnDrop(Arc<Inner>);

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        self.0.finish_release();
    }
}

/// A call that releases the lease. If it is dropped early, the release continues in the background.
struct ReleaseCall(Arc<Inner>);

impl ReleaseCall {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.releases.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(inner))
    }
}

impl Drop for ReleaseCall {
    fn drop(&mut self) {
        self.0.releases.fetch_sub(1, Ordering::SeqCst);
        self.0.finish_release();
    }
}

#[derive(Debug)]
enum HeldLease {
    Lock(CoreGuard),
    Leadership(CoreLeadership),
}

impl HeldLease {
    fn guard(&self) -> &CoreGuard {
        match self {
            Self::Lock(guard) => guard,
            Self::Leadership(leadership) => leadership.guard(),
        }
    }
}

impl Guard {
    pub(crate) fn from_lock(guard: CoreGuard) -> Self {
        Self::new(HeldLease::Lock(guard))
    }

    pub(crate) fn from_leadership(leadership: CoreLeadership) -> Self {
        Self::new(HeldLease::Leadership(leadership))
    }

    fn new(lease: HeldLease) -> Self {
        let guard = lease.guard();
        Self {
            inner: ProcessBound::new(Arc::new(Inner {
                name: Bytes::copy_from_slice(guard.name()),
                holder: guard.holder().clone(),
                token: guard.token().clone(),
                lease: Arc::new(RwLock::new(Some(lease))),
                releases: AtomicUsize::new(0),
                end_reason: OnceLock::new(),
            })),
        }
    }

    /// The key of the lease.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`], as for all that follows.
    pub fn name(&self) -> Result<&Bytes, Error> {
        Ok(&self.inner.get()?.name)
    }

    /// Calls [`statestore::Guard::holder`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn holder(&self) -> Result<&Holder, Error> {
        Ok(&self.inner.get()?.holder)
    }

    /// Calls [`statestore::Guard::token`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn token(&self) -> Result<&Hlc, Error> {
        Ok(&self.inner.get()?.token)
    }

    /// Calls [`statestore::Guard::is_valid`]; `false` as soon as a release begins.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn is_valid(&self) -> Result<bool, Error> {
        let is_valid = self.inner.get()?.with_guard(CoreGuard::is_valid);
        Ok(is_valid.unwrap_or(false))
    }

    /// Calls [`statestore::Guard::check`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`], [`ErrorKind::LockLost`].
    pub fn check(&self) -> Result<(), Error> {
        let checked = self.inner.get()?.with_guard(CoreGuard::check);
        checked.map_or_else(
            || Err(released("holding the lease")),
            |checked| Ok(checked?),
        )
    }

    /// Calls [`statestore::Guard::reason`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn reason(&self) -> Result<Option<Error>, Error> {
        let reason = self.inner.get()?.with_guard(CoreGuard::reason);
        Ok(reason.flatten().map(Error::from))
    }

    /// Calls [`statestore::Guard::lost_reason`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn lost_reason(&self) -> Result<Option<LostReason>, Error> {
        let inner = self.inner.get()?;
        let lost_reason = inner.with_guard(CoreGuard::lost_reason);
        Ok(lost_reason.unwrap_or_else(|| inner.end_reason.get().copied()))
    }

    /// Waits until the lease is no longer certainly held; returns the reason. Keeps nothing alive.
    pub fn lost(&self) -> impl Future<Output = Result<LostReason, Error>> + Send + 'static + use<> {
        let lost = self.inner.get().map(|inner| {
            let over = inner.end_reason.get().copied();
            (inner.with_guard(CoreGuard::lost), over)
        });
        async move {
            let (lost, over) = lost?;
            match (lost, over) {
                (Some(lost), _) => Ok(lost.await),
                (None, over) => Ok(over.unwrap_or(LostReason::Released)),
            }
        }
    }

    /// Calls [`statestore::Guard::renew`].
    pub fn renew(&self) -> impl Future<Output = Result<Hlc, Error>> + Send + 'static + use<> {
        let used = self
            .inner
            .get()
            .and_then(|inner| inner.use_lease("renewing the lease"));
        async move {
            let used = used?;
            Ok(used.lease.guard().renew().await?)
        }
    }

    /// Calls [`statestore::Guard::set_with`].
    pub fn set(
        &self,
        key: Bytes,
        value: Bytes,
        options: SetOptions,
    ) -> impl Future<Output = Result<SetOutcome, Error>> + Send + 'static + use<> {
        let used = self.inner.get().and_then(|inner| inner.use_lease(WRITING));
        async move {
            let used = used?;
            Ok(used.lease.guard().set_with(key, value, &options).await?)
        }
    }

    /// Calls [`statestore::Guard::del_with`].
    pub fn del(
        &self,
        key: Bytes,
        options: DelOptions,
    ) -> impl Future<Output = Result<DelOutcome, Error>> + Send + 'static + use<> {
        let used = self.inner.get().and_then(|inner| inner.use_lease(WRITING));
        async move {
            let used = used?;
            Ok(used.lease.guard().del_with(key, &options).await?)
        }
    }

    /// Calls [`statestore::Guard::vdel_with`].
    pub fn vdel(
        &self,
        key: Bytes,
        value: Bytes,
        options: DelOptions,
    ) -> impl Future<Output = Result<VdelOutcome, Error>> + Send + 'static + use<> {
        let used = self.inner.get().and_then(|inner| inner.use_lease(WRITING));
        async move {
            let used = used?;
            Ok(used.lease.guard().vdel_with(key, value, &options).await?)
        }
    }

    /// Calls [`statestore::Guard::update_async`].
    pub fn update<F, C>(
        &self,
        key: Bytes,
        options: UpdateOptions,
        change: C,
    ) -> impl Future<Output = Result<UpdateOutcome, Error>> + Send + 'static + use<F, C>
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
        C: FnMut(Option<Entry>) -> F + Send + 'static,
    {
        let used = self.inner.get().and_then(|inner| inner.use_lease(WRITING));
        async move {
            let used = used?;
            let guard = used.lease.guard();
            Ok(guard.update_async(key, &options, change).await?)
        }
    }

    /// Calls [`statestore::Leadership::proclaim`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if this is the guard of a plain lock.
    pub fn proclaim(
        &self,
        value: Bytes,
    ) -> impl Future<Output = Result<SetOutcome, Error>> + Send + 'static + use<> {
        let used = self
            .inner
            .get()
            .and_then(|inner| inner.use_lease("proclaiming"));
        async move {
            let used = used?;
            match &*used.lease {
                HeldLease::Leadership(leadership) => Ok(leadership.proclaim(value).await?),
                HeldLease::Lock(_) => Err(Error::new(
                    ErrorKind::InvalidArgument,
                    Outcome::NotDone,
                    "proclaiming",
                    "this is the guard of a lock, not of an election",
                )),
            }
        }
    }

    /// Releases the lease like [`statestore::Guard::release`], or resigns like [`statestore::Leadership::resign`]. Waits for
    /// writes under way.
    ///
    /// It takes at most the time-out, and no longer than the lease is certain. Then the release continues in the background.
    /// The guard is over from this call on, as by [`finish`](Self::finish) and [`leave`](Self::leave): dropping the future also
    /// releases the lease.
    pub fn release(
        &self,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<Release, Error>> + Send + 'static + use<> {
        let taken = self.inner.get().map(|inner| inner.take_lease(timeout));
        async move {
            let (lease, left) = taken?.await?;
            match lease {
                Some(HeldLease::Lock(guard)) => Ok(guard.release_within(left).await?),
                Some(HeldLease::Leadership(leadership)) => {
                    Ok(leadership.resign_within(left).await?)
                }
                None => Ok(Release::NotHeld),
            }
        }
    }

    /// Calls [`statestore::Guard::loss`]; `None` if it was released before it was lost.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn loss(&self) -> Result<Option<Error>, Error> {
        let inner = self.inner.get()?;
        Ok(match inner.with_guard(CoreGuard::loss) {
            Some(loss) => loss.map(Error::from),
            None => inner.earlier_loss(),
        })
    }

    /// Releases the lease at the end of work under it, like [`statestore::Guard::finish`] or [`statestore::Leadership::finish`].
    /// An earlier loss is an error, a failed release is not.
    ///
    /// # Errors
    /// [`ErrorKind::LockLost`] with an unknown outcome if the lease was lost, or released early although the work needed it for
    /// its whole duration. No error if the work failed.
    pub fn finish(
        &self,
        work: WorkOutcome,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let inner = self.inner.get().cloned();
        let taken = inner.as_ref().map(|inner| inner.take_lease(timeout));
        let taken = taken.map_err(Error::clone);
        async move {
            let (inner, taken) = (inner?, taken?);
            let (lease, left) = match taken.await {
                Ok(taken) => taken,
                // The lease expires by itself.
                Err(error) => {
                    tracing::warn!(kind = ?error.kind(), "a lock could not be given back yet");
                    return Ok(());
                }
            };
            let finished = match lease {
                Some(HeldLease::Lock(guard)) => {
                    guard.finish_within(left).await.map_err(Error::from)
                }
                Some(HeldLease::Leadership(leadership)) => {
                    leadership.finish_within(left).await.map_err(Error::from)
                }
                None => match inner.earlier_loss() {
                    Some(loss) => Err(loss),
                    None if work == WorkOutcome::SucceededUnderLease => Err(Error::new(
                        ErrorKind::LockLost,
                        Outcome::Unknown,
                        WORKING,
                        "it was given back before the work was done",
                    )),
                    None => Ok(()),
                },
            };
            match finished {
                Err(error) if work == WorkOutcome::Failed => {
                    tracing::warn!(kind = ?error.kind(), "the work under a lock failed, and its lock was lost");
                    Ok(())
                }
                finished => finished,
            }
        }
    }

    /// Calls [`statestore::Guard::leave`]; for the leadership of an election, acts like [`release`](Self::release).
    pub fn leave(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let taken = self.inner.get().map(|inner| inner.take_lease(None));
        async move {
            let (lease, left) = taken?.await?;
            match lease {
                Some(HeldLease::Lock(guard)) => guard.leave().await,
                Some(HeldLease::Leadership(leadership)) => {
                    leadership.resign_within(left).await?;
                }
                None => {}
            }
            Ok(())
        }
    }
}

const WORKING: &str = "working under the lock";
const WRITING: &str = "writing under the lease";

fn released(action: &str) -> Error {
    Error::new(
        ErrorKind::LockLost,
        Outcome::NotDone,
        action,
        "the lease was given back",
    )
}

impl Clone for Guard {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.share(),
        }
    }
}
