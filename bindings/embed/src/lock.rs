//! Leases, locks and elections.
use crate::client::Client;
use crate::error::Error;
use crate::event_stream::EventStream;
use crate::guard::Guard;
use crate::process::ProcessBound;
use bytes::Bytes;
use statestore::{
    Acquisition as CoreAcquisition, Election as CoreElection, HolderObserver, Holding, Leader,
    Lease as CoreLease, LeaseOptions, LockOptions, Observable, Release,
};
use std::sync::Arc;

/// The result of an attempt to take a lease; see [`statestore::Acquisition`].
#[derive(Debug)]
pub enum Acquisition {
    /// The lease was acquired.
    Acquired(Guard),
    /// Another holder has it; `None` if it was released before the holder could be determined.
    Held(Option<Holding>),
}

/// The holder of a lease or the leader, if there is one; or the error of the query.
pub type HolderResult<T> = Result<Option<T>, Error>;

/// A lease by its name; see [`statestore::Lease`]. Clones share it.
#[derive(Debug)]
pub struct Lease {
    core: ProcessBound<Arc<CoreLease>>,
    client: Client,
}

/// An election by its name; see [`statestore::Election`]. Clones share it.
#[derive(Debug)]
pub struct Election {
    core: ProcessBound<Arc<CoreElection>>,
    client: Client,
}

impl Client {
    /// Calls [`statestore::Client::lease_with`].
    ///
    /// # Errors
    /// The errors of that function, and of [`core`](Self::core).
    pub fn lease(&self, name: &[u8], options: &LeaseOptions) -> Result<Lease, Error> {
        let core = self.core()?.lease_with(name, options)?;
        Ok(Lease {
            core: ProcessBound::new(Arc::new(core)),
            client: self.clone(),
        })
    }

    /// Calls [`statestore::Client::lock_with`].
    pub fn lock(
        &self,
        name: Bytes,
        options: LockOptions,
    ) -> impl Future<Output = Result<Guard, Error>> + Send + 'static + use<> {
        let core = self.core().cloned();
        async move { Ok(Guard::from_lock(core?.lock_with(name, &options).await?)) }
    }

    /// Calls [`statestore::Client::election_with`].
    ///
    /// # Errors
    /// The errors of that function, and of [`core`](Self::core).
    pub fn election(&self, name: &[u8], options: &LockOptions) -> Result<Election, Error> {
        let core = self.core()?.election_with(name, options)?;
        Ok(Election {
            core: ProcessBound::new(Arc::new(core)),
            client: self.clone(),
        })
    }
}

impl Lease {
    /// Calls [`statestore::Lease::acquire`].
    pub fn acquire(
        &self,
    ) -> impl Future<Output = Result<Acquisition, Error>> + Send + 'static + use<> {
        let core = self.core();
        async move {
            Ok(match core?.acquire().await? {
                CoreAcquisition::Acquired(guard) => Acquisition::Acquired(Guard::from_lock(guard)),
                CoreAcquisition::Held(holding) => Acquisition::Held(holding),
            })
        }
    }

    /// Calls [`statestore::Lease::release`].
    pub fn release(&self) -> impl Future<Output = Result<Release, Error>> + Send + 'static + use<> {
        let core = self.core();
        async move { Ok(core?.release().await?) }
    }

    /// Calls [`statestore::Lease::holder`].
    pub fn holder(
        &self,
    ) -> impl Future<Output = Result<Option<Holding>, Error>> + Send + 'static + use<> {
        let core = self.core();
        async move { Ok(core?.holder().await?) }
    }

    /// Calls [`statestore::Lease::observe`]; the items of the stream are those of [`statestore::HolderObserver::next`].
    pub fn observe(
        &self,
    ) -> impl Future<Output = Result<EventStream<HolderResult<Holding>>, Error>> + Send + 'static + use<>
    {
        let (core, client) = (self.core(), self.client.downgrade());
        async move {
            let holders = core?.observe().await?;
            observe_holders(&client.upgrade()?, "following a lease", holders)
        }
    }

    fn core(&self) -> Result<Arc<CoreLease>, Error> {
        self.client.core()?;
        self.core.get().cloned()
    }
}

impl Election {
    /// Calls [`statestore::Election::campaign`]; the guard holds the leadership.
    pub fn campaign(
        &self,
        value: Bytes,
    ) -> impl Future<Output = Result<Guard, Error>> + Send + 'static + use<> {
        let core = self.core();
        async move { Ok(Guard::from_leadership(core?.campaign(value).await?)) }
    }

    /// Calls [`statestore::Election::leader`].
    pub fn leader(
        &self,
    ) -> impl Future<Output = Result<Option<Leader>, Error>> + Send + 'static + use<> {
        let core = self.core();
        async move { Ok(core?.leader().await?) }
    }

    /// Calls [`statestore::Election::observe`]; the items of the stream are those of [`statestore::LeaderObserver::next`].
    pub fn observe(
        &self,
    ) -> impl Future<Output = Result<EventStream<HolderResult<Leader>>, Error>> + Send + 'static + use<>
    {
        let (core, client) = (self.core(), self.client.downgrade());
        async move {
            let leaders = core?.observe().await?;
            observe_holders(&client.upgrade()?, "following an election", leaders)
        }
    }

    fn core(&self) -> Result<Arc<CoreElection>, Error> {
        self.client.core()?;
        self.core.get().cloned()
    }
}

/// Creates a stream from an observer.
fn observe_holders<S: Observable>(
    client: &Client,
    action: &'static str,
    mut observer: HolderObserver<S>,
) -> Result<EventStream<HolderResult<S::Holding>>, Error> {
    EventStream::from_task(client, action, async move |sender, end| {
        while let Some(found) = observer.next().await {
            if sender.send(found.map_err(Error::from)).await.is_err() {
                return;
            }
        }
        end.set(observer.lost_reason(), observer.error().map(Error::from));
    })
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        Self {
            core: self.core.share(),
            client: self.client.clone(),
        }
    }
}

impl Clone for Election {
    fn clone(&self) -> Self {
        Self {
            core: self.core.share(),
            client: self.client.clone(),
        }
    }
}
