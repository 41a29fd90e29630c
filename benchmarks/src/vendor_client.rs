//! The vendor's Rust client as a peer.

use crate::load::Target;
use azure_iot_operations_mqtt::{
    aio::connection_settings::MqttConnectionSettingsBuilder,
    session::{Session, SessionOptionsBuilder},
};
use azure_iot_operations_protocol::application::ApplicationContextBuilder;
use azure_iot_operations_services::state_store::{self, SetOptions};
use std::{sync::Arc, time::Duration};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A connected vendor client.
pub struct VendorClient(state_store::Client);

impl VendorClient {
    /// Connects; its session runs on the current runtime.
    pub fn connect(port: u16, client_id: &str) -> Arc<Self> {
        let settings = MqttConnectionSettingsBuilder::default()
            .client_id(client_id)
            .hostname("127.0.0.1")
            .tcp_port(port)
            .use_tls(false)
            .build()
            .expect("settings");
        let session = Session::new(
            SessionOptionsBuilder::default()
                .connection_settings(settings)
                .build()
                .expect("options"),
        )
        .expect("session");
        let client = state_store::Client::new(
            ApplicationContextBuilder::default()
                .build()
                .expect("context"),
            session.create_managed_client(),
            session.create_session_monitor(),
            state_store::ClientOptionsBuilder::default()
                .build()
                .expect("options"),
        )
        .expect("client");
        tokio::spawn(session.run());
        Arc::new(Self(client))
    }
}

impl Target for VendorClient {
    async fn set(&self, key: &[u8], value: &[u8]) {
        self.0
            .set(
                key.to_vec(),
                value.to_vec(),
                TIMEOUT,
                None,
                SetOptions::default(),
            )
            .await
            .expect("set");
    }

    async fn get(&self, key: &[u8]) {
        self.0.get(key.to_vec(), TIMEOUT).await.expect("get");
    }
}
