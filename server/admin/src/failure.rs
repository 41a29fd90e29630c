//! Responses to failed operations.
use super::audit::AuditDetails;
use super::reply::{self, Reply};
use hyper::StatusCode;
use serde_json::json;

/// Returns the response to a failed operation, as JSON.
pub(super) fn failure(status: StatusCode, error: &dyn std::fmt::Display) -> Reply {
    let error = error.to_string();
    let reply = reply::json(status, &json!({ "error": error }));
    let details = AuditDetails {
        error: Some(error),
        ..AuditDetails::default()
    };
    details.attach_to(reply)
}
