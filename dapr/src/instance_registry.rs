//! The components that one process serves, by the peer that initialised them and the name that it chose.
use crate::instance::{Call, Instance};
use crate::peer::Peer;
use crate::settings::ComponentSpec;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tonic::{Request, Status};

/// Header with the name of a component.
const NAME: &str = "x-component-instance";

/// Maximum number of components: each has a connection of its own.
const MAX_INSTANCES: usize = 100;

/// Identity of a component. The peer chooses the name only, so that no name reaches the component of another peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InstanceId {
    peer: Peer,
    name: String,
}

impl InstanceId {
    /// Returns the component that a request is for. Tools other than daprd may omit the name.
    pub(crate) fn from_request<T>(request: &Request<T>) -> Result<Self, Status> {
        let peer = request.extensions().get().copied();
        let name = request.metadata().get(NAME);
        Ok(Self {
            peer: peer.ok_or_else(|| Status::internal("the peer of the call is not known"))?,
            name: name
                .and_then(|name| name.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
        })
    }
}

/// All components.
#[derive(Debug)]
pub(crate) struct InstanceRegistry {
    default_url: Option<String>,
    instances: RwLock<HashMap<InstanceId, RegisteredInstance>>,
    /// Locks of the components that are being connected.
    connecting: Mutex<HashMap<InstanceId, Arc<tokio::sync::Mutex<()>>>>,
    /// Makes fingerprints of metadata, which may contain secrets.
    hasher: RandomState,
}

/// A component that was initialised.
#[derive(Debug)]
struct RegisteredInstance {
    instance: Arc<Instance>,
    /// Fingerprint of its metadata.
    fingerprint: u64,
}

impl InstanceRegistry {
    /// Creates an empty set. The URL is the store of components whose metadata has no URL.
    ///
    /// # Errors
    /// The reason why the URL is invalid.
    pub(crate) fn new(default_url: Option<&str>) -> Result<Self, String> {
        ComponentSpec::read(&HashMap::new(), default_url)?;
        Ok(Self {
            default_url: default_url.map(str::to_owned),
            instances: RwLock::default(),
            connecting: Mutex::default(),
            hasher: RandomState::new(),
        })
    }

    /// Connects a component to its store, in place of its former connection.
    pub(crate) async fn init(
        self: &Arc<Self>,
        id: InstanceId,
        properties: &HashMap<String, String>,
    ) -> Result<(), Status> {
        let spec = ComponentSpec::read(properties, self.default_url.as_deref())
            .map_err(Status::invalid_argument)?;
        let fingerprint = self
            .hasher
            .hash_one(properties.iter().collect::<BTreeMap<_, _>>());
        let connecting = self.start_connecting(&id)?;
        let _one = connecting.lock.lock().await;
        self.check_owner(&id, fingerprint)?;
        let address = spec.settings.address();
        let instance = match Instance::connect(spec).await {
            Ok(instance) => Arc::new(instance),
            Err(status) => {
                let problem = status.message();
                tracing::warn!(component = id.name, peer = ?id.peer, address, "cannot connect: {problem}");
                return Err(status);
            }
        };
        tracing::info!(component = id.name, peer = ?id.peer, address, "connected");
        let peer = id.peer;
        let (previous, is_first) = {
            let mut known = self
                .instances
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let is_first = known.keys().all(|known| known.peer != peer);
            let component = RegisteredInstance {
                instance,
                fingerprint,
            };
            (known.insert(id, component), is_first)
        };
        if let Some(previous) = previous {
            // The previous instance closes after its last call.
            tokio::spawn(async move { previous.instance.close_when_idle().await });
        }
        if is_first {
            let instances = self.clone();
            tokio::spawn(async move {
                peer.ended().await;
                instances.close_peer(peer).await;
            });
        }
        Ok(())
    }

    /// Refuses other metadata for a component of an unidentified peer: it may be another process than the one that initialised it.
    fn check_owner(&self, id: &InstanceId, fingerprint: u64) -> Result<(), Status> {
        let known = self
            .instances
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let is_other = |known: &RegisteredInstance| known.fingerprint != fingerprint;
        if matches!(id.peer, Peer::Process { .. }) || !known.get(id).is_some_and(is_other) {
            return Ok(());
        }
        tracing::warn!(
            component = id.name,
            peer = ?id.peer,
            "refused to initialise a component with other metadata: its peer cannot be identified"
        );
        Err(Status::failed_precondition(
            "a component of this name has other metadata, and its daprd cannot be identified; use one socket for each daprd, or \
             restart statestore-dapr after you change the metadata",
        ))
    }

    /// Returns the component that is called.
    pub(crate) fn start_call(&self, id: &InstanceId) -> Result<Call, Status> {
        let known = self
            .instances
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        // The call begins under the lock, so that a component gets no further calls after its replacement.
        let call = known.get(id).map(|known| Call::new(known.instance.clone()));
        call.ok_or_else(|| {
            Status::unavailable(
                "the component is not initialised; if statestore-dapr was restarted, restart daprd as well, or send it SIGHUP",
            )
        })
    }

    /// Returns the right to connect a component, or refuses one beyond the maximum: a peer may call with any name.
    fn start_connecting(&self, id: &InstanceId) -> Result<ConnectGuard<'_>, Status> {
        let mut connecting = self.connecting();
        let known = self
            .instances
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let new = connecting.keys().filter(|id| !known.contains_key(*id));
        if known.len() + new.count() >= MAX_INSTANCES
            && !known.contains_key(id)
            && !connecting.contains_key(id)
        {
            return Err(Status::resource_exhausted(format!(
                "there are {MAX_INSTANCES} components already, and more are not served by one process"
            )));
        }
        Ok(ConnectGuard {
            instances: self,
            lock: connecting.entry(id.clone()).or_default().clone(),
            id: id.clone(),
        })
    }

    fn connecting(&self) -> MutexGuard<'_, HashMap<InstanceId, Arc<tokio::sync::Mutex<()>>>> {
        self.connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the components of a peer.
    async fn close_peer(&self, peer: Peer) {
        self.close_if(|id| id.peer == peer).await;
    }

    /// Closes all components.
    pub(crate) async fn close(&self) {
        self.close_if(|_| true).await;
    }

    async fn close_if(&self, is_to_close: impl Fn(&InstanceId) -> bool) {
        let closed: Vec<_> = {
            let mut known = self
                .instances
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            known.extract_if(|id, _| is_to_close(id)).collect()
        };
        futures_util::future::join_all(closed.iter().map(async |(id, known)| {
            known.instance.close().await;
            tracing::info!(component = id.name, peer = ?id.peer, "closed");
        }))
        .await;
    }
}

/// A call that connects a component, or waits for another one that does.
struct ConnectGuard<'a> {
    instances: &'a InstanceRegistry,
    lock: Arc<tokio::sync::Mutex<()>>,
    id: InstanceId,
}

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        let mut connecting = self.instances.connecting();
        // This reference, and the one in the map.
        if Arc::strong_count(&self.lock) == 2 {
            connecting.remove(&self.id);
        }
    }
}
