//! Authorization policy, in the form of the deployed broker's `BrokerAuthorization`.
//!
//! ```text
//!   YAML ─▶ document ─▶ Policy: rules, indexed by principal
//!                          │ at CONNECT, and again at a reload
//!                          ▼
//!                       Rights of one session ─▶ asked for each PUBLISH, SUBSCRIBE and request
//! ```
//!
//! Rules only allow. With a policy, everything that no rule allows is refused.
mod document;
mod explanation;
mod keys;
mod rights;
mod template;
mod topics;

pub use document::PolicyDiagnostic;
pub use explanation::PolicyAction;
pub use keys::{KeyPatterns, KeyType};
pub use rights::Rights;

use super::Principal;
use document::{BrokerMethod, Rule};
use keys::KeyRules;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use template::PolicySubject;
use topics::TopicSet;

/// Maximum number of combinations of rules whose shared rights are cached. There are as many combinations as groups of
/// clients with the same rules.
const MAX_CACHED_COMBINATIONS: usize = 1024;

/// Rules that grant rights to principals.
pub struct Policy {
    rules: Vec<Rule>,
    /// The rules that name a user.
    by_user: HashMap<String, Vec<usize>>,
    /// The rules that name a client id.
    by_client: HashMap<String, Vec<usize>>,
    /// The rules that name attributes.
    by_attributes: Vec<usize>,
    /// Whether the log has reported, for each rule, that it allows a client less than it says.
    reported: Vec<AtomicBool>,
    /// Cache of the rights that rules grant independent of the client. It is used at CONNECT and at a reload, not by
    /// requests.
    rights_cache: Mutex<HashMap<Vec<usize>, Arc<GrantedRights>>>,
}

/// Rights that some rules grant.
#[derive(Debug, Default)]
struct GrantedRights {
    publish: TopicSet,
    subscribe: TopicSet,
    read: KeyRules,
    write: KeyRules,
}

impl Policy {
    /// Parses a text in YAML (or JSON, which is YAML).
    ///
    /// # Errors
    /// Returns the problem and its position.
    pub fn parse(text: &str) -> Result<Self, PolicyDiagnostic> {
        let rules = document::parse_rules(text)?;
        let mut policy = Self {
            by_user: HashMap::new(),
            by_client: HashMap::new(),
            by_attributes: Vec::new(),
            reported: rules.iter().map(|_| AtomicBool::new(false)).collect(),
            rights_cache: Mutex::default(),
            rules: Vec::new(),
        };
        for (index, rule) in rules.iter().enumerate() {
            for user in &rule.principals.usernames {
                policy.by_user.entry(user.clone()).or_default().push(index);
            }
            for client in &rule.principals.client_ids {
                let of_client = policy.by_client.entry(client.clone()).or_default();
                of_client.push(index);
            }
            if !rule.principals.attributes.is_empty() {
                policy.by_attributes.push(index);
            }
        }
        policy.rules = rules;
        Ok(policy)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there are no rules, so that nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the rights of a principal with this client id; `None` if it may not even connect.
    pub fn rights(&self, principal: &Principal, client_id: &str) -> Option<Arc<Rights>> {
        let subject = PolicySubject {
            principal,
            client_id,
        };
        let rules = self.matching_rules(&subject);
        self.log_multi_segment_values(&rules, &subject);
        let may_connect = rules
            .iter()
            .any(|&index| self.rules[index].allows_connect(&subject));
        if !may_connect {
            return None;
        }
        let mut own = GrantedRights::default();
        for &index in &rules {
            self.rules[index].grant(&mut own, &subject, true);
        }
        let shared = self.client_independent_rights(rules, &subject);
        Some(Arc::new(Rights::new(shared, own)))
    }

    /// Logs the rules that allow the subject less than they say, since a token has a value of several segments. A
    /// client can connect under many names, so each rule is logged once.
    fn log_multi_segment_values(&self, rules: &[usize], subject: &PolicySubject<'_>) {
        for &index in rules {
            let rule = &self.rules[index];
            if rule.has_multi_segment_value(subject)
                && !self.reported[index].swap(true, Ordering::Relaxed)
            {
                tracing::warn!(
                    client = subject.client_id,
                    rule = index + 1,
                    "a rule of the policy does not apply to this client, since its id, user name or attribute contains a '/', and the \
                     rule uses it in a key, a topic or a pattern of client ids; further clients are not logged"
                );
            }
        }
    }

    /// Returns the rules about a subject, in their order.
    fn matching_rules(&self, subject: &PolicySubject<'_>) -> Vec<usize> {
        let of_user = subject
            .principal
            .name()
            .and_then(|name| self.by_user.get(name));
        let of_client = self.by_client.get(subject.client_id);
        let by_attributes = self.by_attributes.iter().filter(|&&index| {
            let wanted = &self.rules[index].principals.attributes;
            wanted.iter().any(|set| has_all(subject.principal, set))
        });
        let mut rules: Vec<usize> = [of_user, of_client]
            .into_iter()
            .flatten()
            .flatten()
            .chain(by_attributes)
            .copied()
            .collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// Returns the rights that these rules grant independent of the subject.
    fn client_independent_rights(
        &self,
        rules: Vec<usize>,
        subject: &PolicySubject<'_>,
    ) -> Arc<GrantedRights> {
        let mut shared = self
            .rights_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(allowed) = shared.get(&rules) {
            return Arc::clone(allowed);
        }
        let mut allowed = GrantedRights::default();
        for &index in &rules {
            self.rules[index].grant(&mut allowed, subject, false);
        }
        let allowed = Arc::new(allowed);
        if shared.len() >= MAX_CACHED_COMBINATIONS {
            shared.clear();
        }
        shared.insert(rules, Arc::clone(&allowed));
        allowed
    }
}

fn has_all(principal: &Principal, attributes: &BTreeMap<String, String>) -> bool {
    !attributes.is_empty()
        && attributes
            .iter()
            .all(|(name, value)| principal.attribute(name) == Some(value))
}

impl Rule {
    /// Returns whether a template of the rule allows nothing, since one of its tokens has a value of several segments.
    fn has_multi_segment_value(&self, subject: &PolicySubject<'_>) -> bool {
        let mut of_broker = self.broker_resources.iter();
        of_broker.any(|it| {
            it.topics
                .iter()
                .any(|topic| topic.has_multi_segment_value(subject))
                || it
                    .client_ids
                    .iter()
                    .any(|id| id.lacks_client_id_glob(subject))
        }) || {
            let mut keys = self.state_store_resources.iter().flat_map(|it| &it.keys);
            keys.any(|key| key.has_multi_segment_value(subject))
        }
    }

    fn allows_connect(&self, subject: &PolicySubject<'_>) -> bool {
        let mut connecting = self
            .broker_resources
            .iter()
            .filter(|resource| resource.method == BrokerMethod::Connect);
        connecting.any(|resource| match &resource.client_ids[..] {
            [] => true,
            wanted => wanted.iter().any(|pattern| {
                let pattern = pattern.client_id_glob(subject);
                pattern.is_some_and(|glob| glob.matches(subject.client_id.as_bytes()))
            }),
        })
    }

    /// Adds the rights from templates with tokens if `is_personal`, else from templates without tokens.
    fn grant(&self, allowed: &mut GrantedRights, subject: &PolicySubject<'_>, is_personal: bool) {
        for resource in &self.broker_resources {
            let topics = match resource.method {
                BrokerMethod::Connect => continue,
                BrokerMethod::Publish => &mut allowed.publish,
                BrokerMethod::Subscribe => &mut allowed.subscribe,
            };
            let templates = resource.topics.iter();
            templates
                .filter(|template| template.has_tokens() == is_personal)
                .filter_map(|template| template.topic_filter(subject))
                .for_each(|filter| topics.add(filter));
        }
        for resource in &self.state_store_resources {
            let templates = resource.keys.iter();
            templates
                .filter(|template| template.has_tokens() == is_personal)
                .filter_map(|template| template.pattern(subject))
                .for_each(|pattern| {
                    if resource.method.reads() {
                        allowed.read.add(&pattern);
                    }
                    if resource.method.writes() {
                        allowed.write.add(&pattern);
                    }
                });
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({} rules)", self.rules.len())
    }
}

#[cfg(test)]
mod tests;
