//! Clients that the broker names, and their rights. They are kept as long as something is kept for the client: answers or watches.
use super::super::Hub;
use super::super::audit::{Party, user_name};
use super::super::refusals::Cause;
use super::BEHIND;
use super::identity::{Doubt, sender};
use super::requests::Requester;
use crate::access::{Principal, Rights};
use crate::clock::Now;
use statestore_protocol::mqtt::Publish;
use statestore_protocol::topic;
use std::sync::Arc;

/// A client that the broker has named.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) principal: Principal,
    /// Rights of the client; `None` allows everything.
    pub(super) rights: Option<Arc<Rights>>,
}

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sender<'a> {
    /// Any client: no proof is required.
    Anybody,
    /// The client of its response topic, as a user of this name, if it has one.
    Proven(Option<&'a str>),
}

impl Hub {
    /// Returns the sender of a request.
    ///
    /// # Errors
    /// A proof is required, and the sender is not proven.
    pub(super) fn sender<'a>(
        &self,
        publish: &'a Publish,
        requester: Requester<'_>,
    ) -> Result<Sender<'a>, Doubt> {
        let Some(broker) = &self.broker else {
            return Ok(Sender::Anybody);
        };
        let Some(property) = &broker.terms.identity else {
            return Ok(Sender::Anybody);
        };
        // Without a key, no sender can be proven.
        let key = broker.identity_key.as_ref().ok_or(Doubt::Signature)?;
        sender(publish, property, key, requester).map(Sender::Proven)
    }

    /// Refuses a request whose sender is not proven, and logs the first refusal of its kind.
    pub(super) fn doubt(&mut self, doubt: Doubt, response_topic: &str, now: Now) {
        let party = self.party_behind_broker(response_topic);
        let reasons = (Cause::Login, doubt.to_string().into());
        self.refuse(party, None, reasons, None, now);
        let Some(broker) = &mut self.broker else {
            return;
        };
        broker.figures.unproven += 1;
        // Logged once for each kind and connection: the configuration is wrong, or a client makes many attempts.
        if !broker.doubts.contains(&doubt) {
            broker.doubts.push(doubt);
            tracing::warn!(%doubt, "a request from the broker was not executed; such requests are counted from now on");
        }
    }

    /// Returns the rights of a client that is this sender. If the client id belonged to another user, the watches and answers of that user
    /// end. `told` is the time at which other servers are notified of that, if they do not know it from the log.
    pub(super) fn standing(
        &mut self,
        client: &Arc<str>,
        client_id: &str,
        sender: Sender<'_>,
        told: Option<Now>,
    ) -> Standing {
        let Sender::Proven(user) = sender else {
            return Standing {
                principal: Principal::default(),
                // Rules need a known user.
                rights: self.policy.as_ref().map(|_| Rights::none()),
            };
        };
        let known = self.broker.as_ref().and_then(|it| it.standings.get(client));
        if let Some(known) = known {
            if known.principal.name() == user {
                return known.clone();
            }
            self.service.disconnected(client);
            self.service.session_ended(client);
            if let Some(now) = told {
                self.end_watches(client, Some(user.unwrap_or_default()), u64::MAX, now);
            }
        }
        let principal = user.map_or_else(Principal::default, |user| Principal::user(user.into()));
        let standing = Standing {
            rights: self.rights_behind_broker(&principal, client_id),
            principal,
        };
        if let Some(broker) = &mut self.broker {
            let client = Arc::clone(client);
            broker.standings.insert(client, standing.clone());
        }
        standing
    }

    /// Returns the client that a response topic names, with its user if the broker proved that.
    pub(super) fn party_behind_broker(&self, response_topic: &str) -> Party {
        let Some(client) = topic::requester(response_topic) else {
            return Party::default();
        };
        let known = self.broker.as_ref().and_then(|broker| {
            let name = format!("{BEHIND}{client}");
            broker.standings.get(name.as_str())
        });
        Party {
            user: known.and_then(|known| user_name(&known.principal)),
            client: client.into(),
        }
    }

    fn rights_behind_broker(&self, principal: &Principal, client_id: &str) -> Option<Arc<Rights>> {
        let policy = self.policy.as_ref()?;
        let rights = policy.rights(principal, client_id);
        Some(rights.unwrap_or_else(Rights::none))
    }

    /// Forgets a client that has neither remembered answers nor watches any more.
    pub(super) fn forget_standing(&mut self, client: &str) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        if broker.answers.last_request(client).is_none() && !self.service.is_watching_any(client) {
            broker.standings.remove(client);
        }
    }

    /// Returns the clients that the broker has named.
    pub(in super::super) fn named_behind_broker(&self) -> Vec<Arc<str>> {
        let standings = self
            .broker
            .iter()
            .flat_map(|broker| broker.standings.keys());
        standings.map(Arc::clone).collect()
    }

    /// Applies changed rules to a client: its watches end if it may not read all that it watches any more.
    pub(in super::super) fn judge_behind_broker(&mut self, client: &Arc<str>) {
        let standing = self.broker.as_ref().and_then(|it| it.standings.get(client));
        let Some(standing) = standing else {
            return;
        };
        let client_id = client.strip_prefix(BEHIND).unwrap_or(client);
        let rights = self.rights_behind_broker(&standing.principal, client_id);
        if let Some(rights) = &rights
            && self.service.watches_more_than(rights, client)
        {
            self.service.disconnected(client);
        }
        if let Some(broker) = &mut self.broker
            && let Some(standing) = broker.standings.get_mut(client)
        {
            standing.rights = rights;
        }
    }
}
