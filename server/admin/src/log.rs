//! The filter of the log, which can be changed while the server runs.
use super::app_state::AppState;
use super::audit::AuditDetails;
use super::failure::failure;
use super::reply::{self, Reply};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;
use statestored_broker::audit;

/// A request to change the filter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetLogFilterRequest {
    filter: String,
}

impl AppState {
    /// Returns the filter that is in force.
    pub(super) fn log_filter(&self) -> Reply {
        match &self.config.log {
            Some(log) => reply::json(StatusCode::OK, &json!({ "filter": log.filter() })),
            None => log_unavailable(),
        }
    }

    /// Changes the filter until the next change or reload. The change is logged under the former filter as well, since the new one may
    /// hide it.
    pub(super) fn set_log_filter(&self, body: &[u8]) -> Reply {
        let change = match serde_json::from_slice::<SetLogFilterRequest>(body) {
            Ok(change) => change,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let Some(log) = &self.config.log else {
            return log_unavailable();
        };
        let details = AuditDetails {
            filter: Some(change.filter.clone()),
            ..AuditDetails::default()
        };
        tracing::info!(
            target: audit::ADMIN,
            event = "log_filter",
            filter = change.filter,
            former = log.filter(),
            "an administrator changes the filter of the log"
        );
        details.attach_to(match log.set_filter(&change.filter) {
            Ok(()) => reply::json(StatusCode::OK, &json!({ "filter": log.filter() })),
            Err(error) => failure(StatusCode::BAD_REQUEST, &error),
        })
    }
}

/// Returns the response of a server without a log of its own.
fn log_unavailable() -> Reply {
    let why = "the log belongs to the program in which the server runs";
    failure(StatusCode::NOT_FOUND, &why)
}
