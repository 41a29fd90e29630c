//! The components that one process serves, by the names that daprd gives them.
use crate::instance::{Call, Instance};
use crate::settings::Spec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// With which name every call comes.
const NAME: &str = "x-component-instance";

/// The most components: each has a connection of its own.
const MOST: usize = 100;

/// All components.
#[derive(Debug)]
pub(crate) struct Instances {
    default_url: Option<String>,
    known: RwLock<HashMap<String, Arc<Instance>>>,
    /// Those that are being connected, by the call that does so. Others on the same component wait for it.
    making: Mutex<HashMap<String, Arc<Attempts>>>,
}

/// The way to one store, which one call at a time takes; what the last call that failed was told, and when.
type Attempts = tokio::sync::Mutex<Option<(Instant, Status)>>;

impl Instances {
    /// None so far. The URL is the store of components whose metadata names none.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the URL.
    pub(crate) fn new(default_url: Option<&str>) -> Result<Self, String> {
        Spec::read(&HashMap::new(), default_url)?;
        Ok(Self {
            default_url: default_url.map(str::to_owned),
            known: RwLock::default(),
            making: Mutex::default(),
        })
    }

    /// Connects a component to its store, in place of what it was connected to before.
    pub(crate) async fn begin(
        &self,
        calling: &MetadataMap,
        properties: &HashMap<String, String>,
    ) -> Result<(), Status> {
        let name = name(calling);
        let spec = Spec::read(properties, self.default_url.as_deref())
            .map_err(Status::invalid_argument)?;
        let place = self.enter(&name)?;
        let _one = place.attempts.lock().await;
        self.connect(&name, spec).await.map(drop)
    }

    /// The component that is called.
    pub(crate) async fn called(&self, calling: &MetadataMap) -> Result<Call, Status> {
        let name = name(calling);
        if let Some(call) = self.known(&name) {
            return Ok(call);
        }
        let Some(url) = self.default_url.as_deref() else {
            return Err(Status::unavailable(
                "the component is not initialized; if statestore-dapr was started anew, start daprd anew as well, or \
                 name the store with --url",
            ));
        };
        let place = self.enter(&name)?;
        let came = Instant::now();
        let mut last = place.attempts.lock().await;
        if let Some(call) = self.known(&name) {
            return Ok(call);
        }
        // What another call was told in the meantime is true for all that waited for it.
        if let Some((_, status)) = last.as_ref().filter(|(at, _)| *at >= came) {
            return Err(status.clone());
        }
        let spec = Spec::read(&HashMap::new(), Some(url)).map_err(Status::internal)?;
        let connected = self.connect(&name, spec).await;
        if let Err(status) = &connected {
            *last = Some((Instant::now(), status.clone()));
        }
        connected
    }

    async fn connect(&self, name: &str, spec: Spec) -> Result<Call, Status> {
        let address = spec.settings.address();
        let instance = match Instance::connect(spec).await {
            Ok(instance) => Arc::new(instance),
            Err(status) => {
                tracing::warn!(
                    component = name,
                    address,
                    "cannot connect: {}",
                    status.message()
                );
                return Err(status);
            }
        };
        tracing::info!(component = name, address, "connected");
        let call = Call::of(instance.clone());
        let former = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(name.to_owned(), instance)
        };
        if let Some(former) = former {
            // Calls that it still has are to end.
            tokio::spawn(async move { former.close_when_idle().await });
        }
        Ok(call)
    }

    /// A place for connecting a component. Refuses one that would be one too many: whoever may use the socket may call with any name.
    fn enter(&self, name: &str) -> Result<Place<'_>, Status> {
        let mut making = self.making();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let new = making.keys().filter(|name| !known.contains_key(*name));
        if known.len() + new.count() >= MOST
            && !known.contains_key(name)
            && !making.contains_key(name)
        {
            return Err(Status::resource_exhausted(format!(
                "there are {MOST} components already, and more are not served by one process"
            )));
        }
        Ok(Place {
            instances: self,
            attempts: making.entry(name.to_owned()).or_default().clone(),
            name: name.to_owned(),
        })
    }

    fn making(&self) -> MutexGuard<'_, HashMap<String, Arc<Attempts>>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call on a component that is connected. Begun under the lock, so that one which is replaced has no further one.
    fn known(&self, name: &str) -> Option<Call> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(name).cloned().map(Call::of)
    }

    /// Takes leave of all stores.
    pub(crate) async fn close(&self) {
        let known: Vec<_> = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.drain().map(|(_, instance)| instance).collect()
        };
        futures_util::future::join_all(known.iter().map(|instance| instance.close())).await;
    }
}

/// The place of a call among those that connect one component.
struct Place<'a> {
    instances: &'a Instances,
    attempts: Arc<Attempts>,
    name: String,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut making = self.instances.making();
        // This one, and the one in the list.
        if Arc::strong_count(&self.attempts) == 2 {
            making.remove(&self.name);
        }
    }
}

/// Which component is called. Without a name there is one as well, for tools other than daprd.
fn name(calling: &MetadataMap) -> String {
    let name = calling.get(NAME).and_then(|name| name.to_str().ok());
    name.unwrap_or_default().to_owned()
}
