//! Responses that are backups.
use super::app_state::AppState;
use super::connection_limiter::ResponseGuard;
use super::failure::failure;
use super::reply::{self, Reply};
use super::response_body::ResponseBody;
use crate::server_control::{Backup, SnapshotError};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_DISPOSITION;
use hyper::http::HeaderValue;
use statestored_broker::audit;
use statestored_storage::StorageError;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// Interval at which the connection is marked as active while the store is read.
const TOUCH_INTERVAL: Duration = Duration::from_secs(1);

impl AppState {
    /// Answers `peer` with a backup as soon as its first piece arrives. Until then, an error still gets a response of
    /// its own.
    pub(super) async fn backup(&self, peer: SocketAddr, answering: &ResponseGuard) -> Reply {
        let started = Instant::now();
        let mut backup = match self.server_handle().backup().await {
            Ok(backup) => backup,
            Err(error) => return refused(&error),
        };
        let first = match first_chunk(&mut backup, answering).await {
            Ok(first) => first,
            Err(error) => return refused(&error.into()),
        };
        let (to, parts) = mpsc::channel(1);
        spawn_local(async move {
            let mut next = Some(Ok(first));
            let mut bytes = 0;
            while let Some(piece) = next {
                let length = piece.as_ref().map_or(0, Bytes::len);
                let failure = piece.as_ref().err().map(ToString::to_string);
                let is_sent = to.send(piece.map_err(io::Error::other)).await.is_ok();
                if failure.is_some() {
                    return log_end(peer, bytes, started, failure.as_deref());
                }
                if !is_sent {
                    let failure = "the client closed the connection before the end";
                    return log_end(peer, bytes, started, Some(failure));
                }
                bytes += length;
                next = backup.next().await;
            }
            log_end(peer, bytes, started, None);
        });
        let parts = ResponseBody::Stream(parts);
        let mut reply = reply::content(StatusCode::OK, "application/octet-stream", parts);
        let name = HeaderValue::from_static("attachment; filename=\"statestored.backup\"");
        reply.headers_mut().insert(CONTENT_DISPOSITION, name);
        reply
    }
}

/// Logs the end of a backup. Its beginning is logged as an action.
fn log_end(peer: SocketAddr, bytes: usize, started: Instant, error: Option<&str>) {
    let seconds = started.elapsed().as_secs_f64();
    if let Some(error) = error {
        tracing::warn!(
            target: audit::ADMIN, event = "backup_ended", origin = "http", %peer, bytes, seconds, error,
            "a backup over HTTP has failed"
        );
    } else {
        tracing::info!(
            target: audit::ADMIN, event = "backup_ended", origin = "http", %peer, bytes, seconds,
            "a backup over HTTP was handed out"
        );
    }
}

/// Waits for the first piece, and marks the connection as active while the store is read for it.
async fn first_chunk(
    backup: &mut Backup,
    answering: &ResponseGuard,
) -> Result<Bytes, StorageError> {
    let mut steps = 0;
    loop {
        match timeout(TOUCH_INTERVAL, backup.next()).await {
            Ok(Some(piece)) => return piece,
            Ok(None) => return Ok(Bytes::new()),
            Err(_) => {
                let now = backup.progress();
                if now != steps {
                    answering.touch();
                }
                steps = now;
            }
        }
    }
}

fn refused(error: &SnapshotError) -> Reply {
    let status = match error {
        SnapshotError::Stopped(_) | SnapshotError::Storage(StorageError::Engine(_)) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        SnapshotError::Storage(StorageError::Full { .. }) => StatusCode::INSUFFICIENT_STORAGE,
        SnapshotError::Storage(_) => StatusCode::CONFLICT,
    };
    failure(status, error)
}
