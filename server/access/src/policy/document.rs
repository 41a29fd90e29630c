//! The text of a policy.
//!
//! Several forms are accepted: the resource of Kubernetes (`apiVersion`, `kind: BrokerAuthorization`, `spec`), the
//! resource of Azure's resource manager (`properties`), their inner part (`authorizationPolicies`), and the `rules`
//! alone. Unknown fields are rejected, as a rule that is not understood could be one that matters.
use super::keys::{KeyTemplate, KeyType};
use super::template::Template;
use crate::topic_filter;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A problem in a document, and its position.
#[derive(Debug, thiserror::Error)]
#[error("{line}:{column}: {text}")]
pub struct PolicyDiagnostic {
    /// Line, counted from 1; 1 if it is not known.
    pub line: u64,
    /// Column, counted from 1; 1 if it is not known.
    pub column: u64,
    /// Description of the problem.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PolicyDocument {
    kind: Option<String>,
    spec: Option<PolicySpec>,
    properties: Option<PolicySpec>,
    authorization_policies: Option<AuthorizationPolicies>,
    rules: Option<Vec<Rule>>,
    // Fields that say nothing about rights.
    #[serde(rename = "apiVersion")]
    _api_version: Option<IgnoredAny>,
    #[serde(rename = "metadata")]
    _metadata: Option<IgnoredAny>,
    #[serde(rename = "status")]
    _status: Option<IgnoredAny>,
    #[serde(rename = "extendedLocation")]
    _extended_location: Option<IgnoredAny>,
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(rename = "type")]
    _type: Option<IgnoredAny>,
    #[serde(rename = "systemData")]
    _system_data: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PolicySpec {
    authorization_policies: AuthorizationPolicies,
    #[serde(rename = "provisioningState")]
    _provisioning_state: Option<IgnoredAny>,
    #[serde(rename = "healthState")]
    _health_state: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AuthorizationPolicies {
    rules: Vec<Rule>,
    #[serde(rename = "cache")]
    _cache: Option<IgnoredAny>,
}

/// A rule, which grants rights to principals.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Rule {
    pub(super) principals: Principals,
    #[serde(default)]
    pub(super) broker_resources: Vec<BrokerResource>,
    #[serde(default)]
    pub(super) state_store_resources: Vec<StateStoreResource>,
}

/// Principals of a rule: those named by client id or user name, and those that have all attributes of one of the sets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Principals {
    #[serde(default)]
    pub(super) client_ids: Vec<String>,
    #[serde(default)]
    pub(super) usernames: Vec<String>,
    #[serde(default)]
    pub(super) attributes: Vec<BTreeMap<String, String>>,
}

/// Operations that a rule allows at the broker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct BrokerResource {
    pub(super) method: BrokerMethod,
    /// Client ids for [`BrokerMethod::Connect`]; any client id if empty.
    #[serde(default)]
    pub(super) client_ids: Vec<Template>,
    /// Topic filters for the other methods.
    #[serde(default, deserialize_with = "filters")]
    pub(super) topics: Vec<Template>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum BrokerMethod {
    #[serde(alias = "connect")]
    Connect,
    #[serde(alias = "publish")]
    Publish,
    #[serde(alias = "subscribe")]
    Subscribe,
}

/// Operations on keys that a rule allows.
#[derive(Debug)]
pub(super) struct StateStoreResource {
    pub(super) method: StoreMethod,
    pub(super) keys: Vec<KeyTemplate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum StoreMethod {
    #[serde(alias = "read")]
    Read,
    #[serde(alias = "write")]
    Write,
    #[serde(alias = "readWrite", alias = "readwrite")]
    ReadWrite,
}

impl StoreMethod {
    pub(super) fn reads(self) -> bool {
        self != Self::Write
    }

    pub(super) fn writes(self) -> bool {
        self != Self::Read
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Deserializes templates of topic filters.
fn filters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Template>, D::Error> {
    struct Filter(Template);
    impl<'de> Deserialize<'de> for Filter {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let template = Template::deserialize(deserializer)?;
            let text = template.with_placeholders();
            if topic_filter::is_valid_filter(&text) {
                Ok(Self(template))
            } else {
                Err(D::Error::custom(
                    "this is not a topic filter: `+` and `#` fill a whole level, and `#` the last one",
                ))
            }
        }
    }
    let filters = Vec::<Filter>::deserialize(deserializer)?;
    Ok(filters.into_iter().map(|filter| filter.0).collect())
}

impl<'de> Deserialize<'de> for StateStoreResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Plain {
            method: StoreMethod,
            #[serde(default)]
            key_type: KeyType,
            keys: Vec<String>,
        }
        let plain = Plain::deserialize(deserializer)?;
        let keys = plain.keys.iter();
        Ok(Self {
            method: plain.method,
            keys: keys
                .map(|key| KeyTemplate::parse(plain.key_type, key))
                .collect::<Result<_, _>>()
                .map_err(D::Error::custom)?,
        })
    }
}

/// Returns an error text without the position, which is reported separately.
fn without_position(text: &str) -> String {
    let text = text.split_once(" at line ").map_or(text, |(what, _)| what);
    text.lines().next().unwrap_or(text).into()
}

/// Returns the rules of a document.
pub(super) fn parse_rules(text: &str) -> Result<Vec<Rule>, PolicyDiagnostic> {
    let document: PolicyDocument = serde_saphyr::from_str(text).map_err(|error| {
        let location = error.location();
        PolicyDiagnostic {
            line: location.as_ref().map_or(1, serde_saphyr::Location::line),
            column: location.as_ref().map_or(1, serde_saphyr::Location::column),
            text: without_position(&error.without_snippet().to_string()),
        }
    })?;
    let PolicyDocument {
        kind,
        spec,
        properties,
        authorization_policies,
        rules,
        ..
    } = document;
    let wrong = |problem: &str| PolicyDiagnostic {
        line: 1,
        column: 1,
        text: problem.into(),
    };
    if kind.is_some_and(|kind| kind != "BrokerAuthorization") {
        return Err(wrong("expected the kind BrokerAuthorization"));
    }
    let bodies = [spec, properties].into_iter().flatten();
    let policies = bodies.map(|body| body.authorization_policies);
    let all: Vec<Vec<Rule>> = policies
        .chain(authorization_policies)
        .map(|policies| policies.rules)
        .chain(rules)
        .collect();
    let [rules] = <[_; 1]>::try_from(all).map_err(|_| {
        wrong("expected one list of rules: in spec.authorizationPolicies, properties.authorizationPolicies, authorizationPolicies, or rules alone")
    })?;
    for (index, rule) in rules.iter().enumerate() {
        if let Some(problem) = rule.problem() {
            return Err(wrong(&format!("rule {}: {problem}", index + 1)));
        }
    }
    Ok(rules)
}

impl Rule {
    /// Returns why the rule cannot be meant as it is written, if so.
    fn problem(&self) -> Option<&'static str> {
        let Principals {
            client_ids,
            usernames,
            attributes,
        } = &self.principals;
        if client_ids.is_empty() && usernames.is_empty() && attributes.is_empty() {
            return Some("its principals are empty: give clientIds, usernames or attributes");
        }
        if attributes.iter().any(BTreeMap::is_empty) {
            return Some("a set of attributes is empty");
        }
        let without_topics = |resource: &BrokerResource| {
            resource.method != BrokerMethod::Connect && resource.topics.is_empty()
        };
        if self.broker_resources.iter().any(without_topics) {
            return Some("Publish and Subscribe need topics");
        }
        None
    }
}
