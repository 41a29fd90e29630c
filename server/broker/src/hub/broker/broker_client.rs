//! Clients that the broker names, and their rights. They are kept as long as something is kept for the client: answers or watches.
use super::super::Hub;
use super::super::audit::{ClientIdentity, user_name};
use super::super::refusal_log::RefusalCause;
use super::BROKER_CLIENT_PREFIX;
use super::identity::{IdentityError, RequestOrigin, sender};
use statestore_protocol::mqtt::Publish;
use statestore_protocol::topic;
use statestored_access::{Principal, Rights};
use statestored_common::ClockReading;
use std::sync::Arc;

/// A client that the broker has named.
#[derive(Debug, Clone)]
pub(super) struct BrokerClient {
    pub(super) principal: Principal,
    /// Rights of the client; `None` allows everything.
    pub(super) rights: Option<Arc<Rights>>,
}

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sender<'a> {
    /// Any client: no proof is required.
    Unverified,
    /// The client of its response topic, as a user of this name, if it has one.
    Verified(Option<&'a str>),
}

impl Hub {
    /// Returns the sender of a request.
    ///
    /// # Errors
    /// A proof is required, and the sender is not proven.
    pub(super) fn sender<'a>(
        &self,
        publish: &'a Publish,
        requester: RequestOrigin<'_>,
    ) -> Result<Sender<'a>, IdentityError> {
        let Some(broker) = &self.broker else {
            return Ok(Sender::Unverified);
        };
        let Some(property) = &broker.config.identity else {
            return Ok(Sender::Unverified);
        };
        // Without a key, no sender can be proven.
        let key = broker
            .identity_key
            .as_ref()
            .ok_or(IdentityError::InvalidSignature)?;
        sender(publish, property, key, requester).map(Sender::Verified)
    }

    /// Refuses a request whose sender is not proven, and logs the first refusal of its kind.
    pub(super) fn refuse_unverified(
        &mut self,
        error: IdentityError,
        response_topic: &str,
        now: ClockReading,
    ) {
        let identity = self.broker_client_identity(response_topic);
        let reasons = (RefusalCause::Login, error.to_string().into());
        self.record_refusal(identity, None, reasons, None, now);
        let Some(broker) = &mut self.broker else {
            return;
        };
        broker.metrics.unverified_requests += 1;
        // Logged once for each kind and connection: the configuration is wrong, or a client makes many attempts.
        if !broker.logged_identity_errors.contains(&error) {
            broker.logged_identity_errors.push(error);
            tracing::warn!(%error, "a request from the broker was not executed; such requests are counted from now on");
        }
    }

    /// Returns the rights of a client that is this sender. If the client id belonged to another user, the watches and answers of that user
    /// end. `notify_at` is the time at which other servers are notified of that, if they do not know it from the log.
    pub(super) fn broker_client(
        &mut self,
        client: &Arc<str>,
        client_id: &str,
        sender: Sender<'_>,
        notify_at: Option<ClockReading>,
    ) -> BrokerClient {
        let Sender::Verified(user) = sender else {
            return BrokerClient {
                principal: Principal::default(),
                // Rules need a known user.
                rights: self.policy.as_ref().map(|_| Rights::none()),
            };
        };
        let known = self
            .broker
            .as_ref()
            .and_then(|it| it.named_clients.get(client));
        if let Some(known) = known {
            if known.principal.name() == user {
                return known.clone();
            }
            self.service.end_watches(client);
            self.service.forget_replies(client);
            if let Some(now) = notify_at {
                self.end_watches(client, Some(user.unwrap_or_default()), u64::MAX, now);
            }
        }
        let principal = user.map_or_else(Principal::default, |user| Principal::user(user.into()));
        let broker_client = BrokerClient {
            rights: self.broker_client_rights(&principal, client_id),
            principal,
        };
        if let Some(broker) = &mut self.broker {
            let client = Arc::clone(client);
            broker.named_clients.insert(client, broker_client.clone());
        }
        broker_client
    }

    /// Returns the client that a response topic names, with its user if the broker proved that.
    pub(super) fn broker_client_identity(&self, response_topic: &str) -> ClientIdentity {
        let Some(client) = topic::requester(response_topic) else {
            return ClientIdentity::default();
        };
        let known = self.broker.as_ref().and_then(|broker| {
            let name = format!("{BROKER_CLIENT_PREFIX}{client}");
            broker.named_clients.get(name.as_str())
        });
        ClientIdentity {
            user: known.and_then(|known| user_name(&known.principal)),
            client: client.into(),
        }
    }

    fn broker_client_rights(&self, principal: &Principal, client_id: &str) -> Option<Arc<Rights>> {
        let policy = self.policy.as_ref()?;
        let rights = policy.rights(principal, client_id);
        Some(rights.unwrap_or_else(Rights::none))
    }

    /// Returns whether a client that watches something may read this key.
    pub(super) fn broker_client_may_read(&self, client: &str, key: &[u8]) -> bool {
        let named_clients = self.broker.as_ref().map(|broker| &broker.named_clients);
        match named_clients.and_then(|named_clients| named_clients.get(client)) {
            Some(known) => known.rights.as_ref().is_none_or(|it| it.may_read(key)),
            // Rules need a known user.
            None => self.policy.is_none(),
        }
    }

    /// Forgets a client that has neither remembered answers nor watches any more.
    pub(super) fn forget_broker_client(&mut self, client: &str) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        if broker.replay_clients.last_request(client).is_none()
            && !self.service.is_watching_any(client)
        {
            broker.named_clients.remove(client);
        }
    }

    /// Returns the clients that the broker has named.
    pub(in super::super) fn broker_clients(&self) -> Vec<Arc<str>> {
        let clients = self
            .broker
            .iter()
            .flat_map(|broker| broker.named_clients.keys());
        clients.map(Arc::clone).collect()
    }

    /// Applies changed rules to a client: its watches end if it may not read all keys that it watches any more. Otherwise its watches of
    /// patterns concern other keys than before.
    pub(in super::super) fn review_broker_client(&mut self, client: &Arc<str>, now: ClockReading) {
        let broker_client = self
            .broker
            .as_ref()
            .and_then(|it| it.named_clients.get(client));
        let Some(broker_client) = broker_client else {
            return;
        };
        let client_id = client.strip_prefix(BROKER_CLIENT_PREFIX).unwrap_or(client);
        let rights = self.broker_client_rights(&broker_client.principal, client_id);
        if let Some(rights) = &rights
            && self.service.watches_more_than(rights, client)
        {
            self.service.end_watches(client);
        }
        if let Some(broker) = &mut self.broker
            && let Some(broker_client) = broker.named_clients.get_mut(client)
        {
            broker_client.rights = rights;
        }
        self.service.resync(client);
        self.notify_watchers(None, now);
    }
}
