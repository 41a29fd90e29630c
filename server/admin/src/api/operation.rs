//! The configuration, limits and rights in force, the audit trail, and draining.
use crate::app_state::AppState;
use crate::audit::AuditDetails;
use crate::failure::failure;
use crate::limits::Quotas;
use crate::query::{Query, from_hex};
use crate::reply::{self, Reply};
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use statestored_access::Principal;
use statestored_access::policy::PolicyAction;
use statestored_broker::hub::LimitUsage;
use statestored_broker::hub::inspect::MAX_PAGE_ITEMS;
use statestored_store::keyspace::QuotaUsage;

/// Maximum number of lines on a page of the audit trail.
const MAX_AUDIT_LINES: usize = 200;
/// Time over which a drain disconnects clients if the request gives none, in seconds.
const DEFAULT_DRAIN_S: u64 = 10;
/// Maximum time of a drain, in seconds.
const MAX_DRAIN_S: u64 = 3_600;

/// Body of a question about the policy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyQuestion {
    /// User; `None` is an anonymous client.
    user: Option<String>,
    client: Option<String>,
    action: ActionName,
    key: Option<String>,
    /// Key as hexadecimal digits.
    hex: Option<String>,
    topic: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionName {
    Read,
    Write,
    Publish,
    Subscribe,
}

/// Body of a request to drain the server, or to end that.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainRequest {
    on: bool,
    seconds: Option<u64>,
}

impl AppState {
    /// Returns the last lines of the audit trail, newest first.
    pub(crate) fn audit_lines(&self, query: Query<'_>) -> Reply {
        let Some(log) = &self.config.audit else {
            let why =
                "the audit trail is off: the program in which the server runs does not keep it";
            return failure(StatusCode::NOT_FOUND, &why);
        };
        let before = query.number("cursor").map(|number| number as u64);
        let (event, client) = (query.filter("event"), query.filter("client"));
        let user = query.filter("user");
        let (lines, next) = log.recent(before, MAX_AUDIT_LINES, |line| {
            let field = |name: &str| line.fields.get(name).and_then(Value::as_str);
            let has_client = |part: &str| field("client").is_some_and(|id| id.contains(part));
            event.as_deref().is_none_or(|event| line.event == event)
                && client.as_deref().is_none_or(has_client)
                && user
                    .as_deref()
                    .is_none_or(|user| field("user") == Some(user))
        });
        let items = lines.iter().map(|line| {
            json!({
                "at_ms": line.at_ms,
                "level": line.level,
                "event": line.event,
                "fields": line.fields,
            })
        });
        let items = items.collect::<Value>();
        reply::json(StatusCode::OK, &json!({ "items": items, "next": next }))
    }

    /// Returns the options in force. Secrets are in files, of which only the paths are options.
    pub(crate) fn effective_options(&self) -> Reply {
        let options = self.server_handle().options();
        let options = options.iter().map(|it| {
            json!({
                "name": it.name,
                "value": it.value,
                "source": it.source.name(),
                "needs_restart": it.needs_restart,
            })
        });
        let options = options.collect::<Value>();
        reply::json(StatusCode::OK, &json!({ "options": options }))
    }

    /// Returns the limits of the server, and those of users and prefixes that are nearest to their limits.
    pub(crate) async fn limits(&self) -> Reply {
        let (limits, (of_prefixes, of_users)) = match self.read_limits().await {
            Ok(read) => read,
            Err(failure) => return failure,
        };
        let mut items: Vec<_> = limits
            .iter()
            .map(|it| describe_limit(it.option, (it.used, it.max), it.is_bytes, &Value::Null))
            .collect();
        let prefixes = of_prefixes.into_fullest().into_iter().map(|it| {
            let subject = json!({ "prefix": it.owner });
            (it, subject)
        });
        let users = of_users.into_fullest().into_iter().map(|it| {
            let name = (!it.owner.is_empty()).then_some(&it.owner);
            let subject = json!({ "user": name });
            (it, subject)
        });
        let mut quotas: Vec<(QuotaUsage, Value)> = prefixes.chain(users).collect();
        quotas.sort_by(|(one, _), (other, _)| other.ratio().total_cmp(&one.ratio()));
        items.extend(quotas.into_iter().map(|(it, subject)| {
            describe_limit(it.quota, (it.used, it.max), it.is_bytes(), &subject)
        }));
        items.truncate(MAX_PAGE_ITEMS);
        reply::json(StatusCode::OK, &json!({ "items": items }))
    }

    /// Returns the limits of the server, and the quotas of prefixes and users.
    async fn read_limits(&self) -> Result<(Vec<LimitUsage>, (Quotas, Quotas)), Reply> {
        let limits = self.inspect(|hub, _| hub.limit_usages()).await?;
        Ok((limits, self.quotas().await?))
    }

    /// Returns whether the policy allows an action, and by which rule.
    pub(crate) async fn check_policy(&self, body: &[u8]) -> Reply {
        let question = match serde_json::from_slice::<PolicyQuestion>(body) {
            Ok(question) => question,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let key = match (question.key, question.hex) {
            (Some(key), None) => Some(Bytes::from(key)),
            (None, Some(digits)) => from_hex(&digits),
            _ => None,
        };
        let action = match (question.action, &key, &question.topic) {
            (ActionName::Read, Some(key), None) => PolicyAction::Read(key),
            (ActionName::Write, Some(key), None) => PolicyAction::Write(key),
            (ActionName::Publish, None, Some(topic)) => PolicyAction::Publish(topic),
            (ActionName::Subscribe, None, Some(topic)) => PolicyAction::Subscribe(topic),
            _ => {
                let why = "read and write need {\"key\": TEXT} or {\"hex\": DIGITS}, publish and subscribe need {\"topic\": TEXT}";
                return failure(StatusCode::BAD_REQUEST, &why);
            }
        };
        let policy = match self.inspect(|hub, _| hub.policy().cloned()).await {
            Ok(policy) => policy,
            Err(failure) => return failure,
        };
        let principal = question
            .user
            .map_or_else(Principal::default, |name| Principal::user(name.into()));
        let client = question.client.as_deref();
        let (allowed, rule) = match policy {
            None => (true, None),
            Some(policy) => {
                let rule = policy.allowing_rule(&principal, client, action);
                (rule.is_some(), rule.map(|number| format!("rule {number}")))
            }
        };
        let document = json!({ "allowed": allowed, "rule": rule });
        reply::json(StatusCode::OK, &document)
    }

    /// Begins or ends a drain.
    pub(crate) async fn drain(&self, body: &[u8]) -> Reply {
        let request = match serde_json::from_slice::<DrainRequest>(body) {
            Ok(request) => request,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let seconds = request.seconds.unwrap_or(DEFAULT_DRAIN_S);
        if seconds > MAX_DRAIN_S {
            let why = "a drain takes at most 3600 seconds";
            return failure(StatusCode::BAD_REQUEST, &why);
        }
        let details = AuditDetails {
            draining: Some(request.on),
            ..AuditDetails::default()
        };
        let connections = self.inspect(move |hub, now| {
            if request.on {
                hub.begin_drain(seconds * 1_000, now);
            } else {
                hub.end_drain();
            }
            hub.connected_clients()
        });
        details.attach_to(match connections.await {
            Ok(connections) => {
                let document = json!({ "draining": request.on, "connections": connections });
                reply::json(StatusCode::OK, &document)
            }
            Err(failure) => failure,
        })
    }
}

fn describe_limit(name: &str, (used, limit): (u64, u64), is_bytes: bool, subject: &Value) -> Value {
    json!({
        "name": name,
        "limit": limit,
        "used": used,
        "unit": if is_bytes { "bytes" } else { "count" },
        "subject": subject,
    })
}
