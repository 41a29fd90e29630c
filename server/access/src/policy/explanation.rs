//! Answers to the question which rule allows an action.
use super::template::PolicySubject;
use super::{GrantedRights, Policy};
use crate::Principal;
use statestore_protocol::topic;

/// An action that a policy may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyAction<'a> {
    /// Reading a key and watching its changes.
    Read(&'a [u8]),
    /// Setting and deleting a key.
    Write(&'a [u8]),
    /// Publishing to a topic.
    Publish(&'a str),
    /// Subscribing to a topic filter.
    Subscribe(&'a str),
}

impl Policy {
    /// Returns the number of the first rule that allows an action, counted from 1; `None` if no rule does. A client id also has to be
    /// allowed to connect. Without one, only rules that do not depend on it apply.
    pub fn allowing_rule(
        &self,
        principal: &Principal,
        client_id: Option<&str>,
        action: PolicyAction<'_>,
    ) -> Option<usize> {
        let subject = PolicySubject {
            principal,
            client_id: client_id.unwrap_or_default(),
        };
        let rules = self.matching_rules(&subject);
        let mut connecting = rules.iter();
        let may_connect = client_id.is_none()
            || connecting.any(|&index| self.rules[index].allows_connect(&subject));
        if !may_connect {
            return None;
        }
        let allowing = rules.into_iter().find(|&index| {
            let mut granted = GrantedRights::default();
            for is_personal in [false, true] {
                self.rules[index].grant(&mut granted, &subject, is_personal);
            }
            action.is_in(&granted)
        });
        allowing.map(|index| index + 1)
    }
}

impl PolicyAction<'_> {
    fn is_in(self, granted: &GrantedRights) -> bool {
        let may_use_store = !granted.read.is_empty() || !granted.write.is_empty();
        match self {
            Self::Read(key) => granted.read.contains(key),
            Self::Write(key) => granted.write.contains(key),
            Self::Publish(topic) if topic == topic::REQUEST => may_use_store,
            Self::Publish(topic) => !topic::is_from_store(topic) && granted.publish.contains(topic),
            Self::Subscribe(filter) if topic::is_from_store(filter) => {
                may_use_store || granted.subscribe.contains(filter)
            }
            Self::Subscribe(filter) => granted.subscribe.contains(filter),
        }
    }
}
