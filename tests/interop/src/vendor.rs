use crate::{GUARD, Server, within};
use azure_iot_operations_mqtt::{
    aio::connection_settings::MqttConnectionSettingsBuilder,
    session::{Session, SessionExitHandle, SessionMonitor, SessionOptionsBuilder},
};
use azure_iot_operations_protocol::{
    application::ApplicationContextBuilder, common::hybrid_logical_clock::HybridLogicalClock,
};
use azure_iot_operations_services::{
    leased_lock::{lease, lock},
    state_store::{
        Client, ClientOptionsBuilder, Error, KeyNotification, KeyObservation, Response, SetOptions,
    },
};
use std::{sync::Arc, time::SystemTime};
use tokio::task::JoinHandle;

/// A connected client of the vendor.
pub struct Vendor {
    id: String,
    /// The vendor's state store client.
    pub store: Arc<Client>,
    exit: SessionExitHandle,
    monitor: SessionMonitor,
    session: JoinHandle<()>,
}

impl Vendor {
    /// Connects with this client id.
    pub async fn connect(server: &Server, id: &str) -> Self {
        let settings = MqttConnectionSettingsBuilder::default()
            .client_id(id)
            .hostname("127.0.0.1")
            .tcp_port(server.port())
            .use_tls(false)
            .build()
            .expect("settings are complete");
        let options = SessionOptionsBuilder::default()
            .connection_settings(settings)
            .build()
            .expect("options are complete");
        let session = Session::new(options).expect("the settings are valid");
        let store = Client::new(
            ApplicationContextBuilder::default()
                .build()
                .expect("the defaults are valid"),
            session.create_managed_client(),
            session.create_session_monitor(),
            ClientOptionsBuilder::default()
                .build()
                .expect("the defaults are valid"),
        )
        .expect("the session is fresh");
        let exit = session.create_exit_handle();
        let monitor = session.create_session_monitor();
        let session = tokio::spawn(async move {
            // An early end shows as a failed operation in the test.
            let _ = session.run().await;
        });
        within("connecting", monitor.connected()).await;
        Self {
            id: id.to_owned(),
            store: Arc::new(store),
            exit,
            monitor,
            session,
        }
    }

    /// Ends the MQTT session and waits until the connection is closed.
    pub async fn close(mut self) {
        self.exit.try_exit().expect("the session is connected");
        within("closing", self.monitor.disconnected()).await;
        within("the end of the session", &mut self.session)
            .await
            .expect("the session ends without a panic");
    }

    /// SET without condition, expiry or token.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> HybridLogicalClock {
        let response = self.set(key, value, None, SetOptions::default()).await;
        let response = response.expect("SET is carried out");
        assert!(response.response, "SET without a condition is applied");
        response.version.expect("SET answers with a version")
    }

    /// SET.
    ///
    /// # Errors
    /// The vendor's.
    pub async fn set(
        &self,
        key: &[u8],
        value: &[u8],
        fence: Option<&HybridLogicalClock>,
        options: SetOptions,
    ) -> Result<Response<bool>, Error> {
        self.store
            .set(key.to_vec(), value.to_vec(), GUARD, fence.cloned(), options)
            .await
    }

    /// GET.
    pub async fn get(&self, key: &[u8]) -> Response<Option<Vec<u8>>> {
        let response = self.store.get(key.to_vec(), GUARD).await;
        response.expect("GET is carried out")
    }

    /// DEL: how many keys were deleted.
    ///
    /// # Errors
    /// The vendor's.
    pub async fn del(
        &self,
        key: &[u8],
        fence: Option<&HybridLogicalClock>,
    ) -> Result<Response<i64>, Error> {
        self.store.del(key.to_vec(), fence.cloned(), GUARD).await
    }

    /// VDEL: how many keys were deleted, -1 if the value is another.
    ///
    /// # Errors
    /// The vendor's.
    pub async fn vdel(
        &self,
        key: &[u8],
        value: &[u8],
        fence: Option<&HybridLogicalClock>,
    ) -> Result<Response<i64>, Error> {
        self.store
            .vdel(key.to_vec(), value.to_vec(), fence.cloned(), GUARD)
            .await
    }

    /// KEYNOTIFY.
    pub async fn observe(&self, key: &[u8]) -> KeyObservation {
        let response = self.store.observe(key.to_vec(), GUARD).await;
        response.expect("KEYNOTIFY is carried out").response
    }

    /// A client of the lease `name`, with the client id as its holder.
    pub fn lease(&self, name: &[u8]) -> lease::Client {
        lease::Client::new(
            self.store.clone(),
            name.to_vec(),
            self.id.clone().into_bytes(),
        )
        .expect("the names are not empty")
    }

    /// A client of the lock `name`, with the client id as its holder.
    pub fn lock(&self, name: &[u8]) -> lock::Client {
        lock::Client::new(
            self.store.clone(),
            name.to_vec(),
            self.id.clone().into_bytes(),
        )
        .expect("the names are not empty")
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.session.abort();
    }
}

/// The next notification of an observation.
pub async fn next(observation: &mut KeyObservation) -> KeyNotification {
    let notification = within("a notification", observation.recv_notification()).await;
    notification.expect("the observation is still open").0
}

/// Returns the sort key of a hybrid logical clock.
pub fn order(clock: &HybridLogicalClock) -> (SystemTime, u64, &str) {
    (clock.timestamp, clock.counter, &clock.node_id)
}
