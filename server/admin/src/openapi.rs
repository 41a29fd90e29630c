//! The description of the HTTP interface, in the form of OpenAPI.
use super::reply::{self, Reply};
use super::response_body::ResponseBody;
use bytes::Bytes;
use hyper::StatusCode;

/// The description.
pub(super) const DESCRIPTION: &str = include_str!("openapi.json");

/// Returns the description.
pub(super) fn description() -> Reply {
    let whole = ResponseBody::Full(Bytes::from_static(DESCRIPTION.as_bytes()));
    reply::content(StatusCode::OK, "application/json", whole)
}
