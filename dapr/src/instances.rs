//! The components that one process serves, by the names that daprd gives them.
use crate::instance::Instance;
use crate::settings::Spec;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// With which name every call comes.
const NAME: &str = "x-component-instance";

/// The most components: each has a connection of its own.
const MOST: usize = 100;

/// How often it is looked whether calls still run.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// All components.
#[derive(Debug)]
pub(crate) struct Instances {
    default_url: Option<String>,
    known: RwLock<HashMap<String, Arc<Instance>>>,
    /// One that is not known yet is made only once.
    making: tokio::sync::Mutex<()>,
}

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
            making: tokio::sync::Mutex::default(),
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
        let _one = self.making.lock().await;
        self.connect(&name, spec).await.map(drop)
    }

    /// The component that is called.
    pub(crate) async fn called(&self, calling: &MetadataMap) -> Result<Arc<Instance>, Status> {
        let name = name(calling);
        if let Some(instance) = self.known(&name) {
            return Ok(instance);
        }
        let Some(url) = self.default_url.as_deref() else {
            return Err(Status::unavailable(
                "the component is not initialized; if statestore-dapr was started anew, start daprd anew as well, or \
                 name the store with --url",
            ));
        };
        let _one = self.making.lock().await;
        if let Some(instance) = self.known(&name) {
            return Ok(instance);
        }
        let spec = Spec::read(&HashMap::new(), Some(url)).map_err(Status::internal)?;
        self.connect(&name, spec).await
    }

    async fn connect(&self, name: &str, spec: Spec) -> Result<Arc<Instance>, Status> {
        self.check_room(name)?;
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
        let former = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(name.to_owned(), instance.clone())
        };
        if let Some(former) = former {
            // Calls that it still has are to end.
            tokio::spawn(async move { former.close_when_idle().await });
        }
        Ok(instance)
    }

    /// Refuses a component that would be one too many: whoever may use the socket may call with any name.
    fn check_room(&self, name: &str) -> Result<(), Status> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST || known.contains_key(name) {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "there are {MOST} components already, and more are not served by one process"
        )))
    }

    fn known(&self, name: &str) -> Option<Arc<Instance>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(name).cloned()
    }

    /// Waits until no calls run.
    pub(crate) async fn idle(&self) {
        while self.is_busy() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Each call has its component as long as it runs.
    fn is_busy(&self) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .values()
            .any(|instance| Arc::strong_count(instance) > 1)
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

/// Which component is called. Without a name there is one as well, for tools other than daprd.
fn name(calling: &MetadataMap) -> String {
    let name = calling.get(NAME).and_then(|name| name.to_str().ok());
    name.unwrap_or_default().to_owned()
}
