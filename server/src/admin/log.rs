//! The filter of the log, which can be changed while the server runs.
use super::api::failure;
use super::audit::Details;
use super::reply::{self, Reply};
use super::routes::Room;
use crate::audit;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

/// A request to change the filter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    filter: String,
}

impl Room {
    /// Returns the filter that is in force.
    pub(super) fn log_filter(&self) -> Reply {
        match &self.log {
            Some(log) => reply::json(StatusCode::OK, &json!({ "filter": log.filter() })),
            None => no_log(),
        }
    }

    /// Changes the filter until the next change or reload. The change is logged under the former filter as well, since the new one may
    /// hide it.
    pub(super) fn set_log_filter(&self, body: &[u8]) -> Reply {
        let change = match serde_json::from_slice::<Change>(body) {
            Ok(change) => change,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        let Some(log) = &self.log else {
            return no_log();
        };
        let details = Details {
            filter: Some(change.filter.clone()),
            ..Details::default()
        };
        tracing::info!(
            target: audit::ADMIN,
            event = "log_filter",
            filter = change.filter,
            former = log.filter(),
            "an administrator changes the filter of the log"
        );
        details.on(match log.set_filter(&change.filter) {
            Ok(()) => reply::json(StatusCode::OK, &json!({ "filter": log.filter() })),
            Err(error) => failure(StatusCode::BAD_REQUEST, &error),
        })
    }
}

fn no_log() -> Reply {
    let why = "the log belongs to the program in which the server runs";
    failure(StatusCode::NOT_FOUND, &why)
}
