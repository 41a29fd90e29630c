//! Lines of the [audit trail](statestored_broker::audit) about requests to the HTTP port.
use super::reply::Reply;
use super::request_authorizer::{AccessLevel, RequestRefusal};
use hyper::StatusCode;
use statestored_broker::audit::{self, LineKind, LineLimiter, OmittedLines};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Maximum number of lines per second about refused requests.
const MAX_LINES_PER_SECOND: u32 = 20;
/// Interval at which omitted lines are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Object and outcome of a change, passed from the response to the log.
#[derive(Debug, Clone, Default)]
pub(super) struct AuditDetails {
    pub(super) client: Option<String>,
    pub(super) user: Option<String>,
    /// Key, if keys are logged.
    pub(super) key: Option<String>,
    pub(super) filter: Option<String>,
    /// Number of deleted keys.
    pub(super) deleted: Option<u64>,
    /// Number of disconnected clients.
    pub(super) disconnected: Option<usize>,
    /// Whether the server is being drained from now on.
    pub(super) draining: Option<bool>,
    /// Options that a reload did not apply.
    pub(super) needs_restart: Option<String>,
    pub(super) error: Option<String>,
}

impl AuditDetails {
    /// Adds the details to a response.
    pub(super) fn attach_to(self, mut reply: Reply) -> Reply {
        let error = reply
            .extensions_mut()
            .remove::<Self>()
            .and_then(|it| it.error);
        let error = self.error.clone().or(error);
        reply.extensions_mut().insert(Self { error, ..self });
        reply
    }
}

/// A logger of requests.
#[derive(Debug)]
pub(super) struct AuditTrail {
    lines: RefCell<LineLimiter>,
    started: Instant,
}

impl AuditTrail {
    pub(super) fn new() -> Self {
        Self {
            lines: RefCell::default(),
            started: Instant::now(),
        }
    }

    /// Logs an answered request: changes and refusals, and all others at the debug level.
    pub(super) fn log_request(
        &self,
        peer: SocketAddr,
        path: &str,
        changes: bool,
        authorization: Result<AccessLevel, RequestRefusal>,
        reply: &Reply,
    ) {
        let status = reply.status();
        let is_denied = authorization.is_err()
            || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_denied {
            return self.log_denied(peer, path, authorization, status);
        }
        if !changes {
            return tracing::debug!(
                target: audit::ADMIN,
                event = "request",
                path,
                %peer,
                status = status.as_u16(),
                "a request to the HTTP port"
            );
        }
        let none = AuditDetails::default();
        let details = reply.extensions().get::<AuditDetails>().unwrap_or(&none);
        tracing::info!(
            target: audit::ADMIN,
            event = "action",
            action = path.strip_prefix("/api/").unwrap_or(path),
            origin = "http",
            %peer,
            status = status.as_u16(),
            client = details.client.as_deref(),
            user = details.user.as_deref(),
            key = details.key.as_deref(),
            filter = details.filter.as_deref(),
            deleted = details.deleted,
            disconnected = details.disconnected,
            draining = details.draining,
            needs_restart = details.needs_restart.as_deref(),
            error = details.error.as_deref(),
            "an administrator changed something, or tried to"
        );
    }

    fn log_denied(
        &self,
        peer: SocketAddr,
        path: &str,
        authorization: Result<AccessLevel, RequestRefusal>,
        status: StatusCode,
    ) {
        if !self.admits_line_about(peer) {
            return;
        }
        let why = match authorization {
            Err(refusal) => refusal.reason().trim_end(),
            Ok(rights) if rights.is_of_token() => "the token does not allow this",
            Ok(_) => "no token was given",
        };
        tracing::warn!(
            target: audit::ADMIN,
            event = "denied",
            path,
            %peer,
            status = status.as_u16(),
            why,
            "a request to the HTTP port was denied"
        );
    }

    /// Logs a TLS handshake that failed. Clients that only close the connection, such as port scans, are logged at the debug level.
    pub(super) fn log_failed_handshake(&self, peer: SocketAddr, error: &io::Error) {
        let is_probe = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
        );
        if is_probe || !self.admits_line_about(peer) {
            return tracing::debug!(%peer, "a TLS handshake of the HTTP port failed: {error}");
        }
        tracing::warn!(
            target: audit::ADMIN,
            event = "denied",
            %peer,
            why = %error,
            "a TLS handshake of the HTTP port failed"
        );
    }

    /// Returns whether another line about a refusal of this peer is within the limit.
    fn admits_line_about(&self, peer: SocketAddr) -> bool {
        self.lines.borrow_mut().admits(
            LineKind::Admin,
            "",
            Some(peer.ip()),
            MAX_LINES_PER_SECOND,
            self.now_ms(),
        )
    }

    /// Logs the numbers of omitted lines, as long as it is polled.
    pub(super) async fn report_omitted_lines(&self) {
        loop {
            sleep(REPORT_INTERVAL).await;
            let report = self.lines.borrow_mut().take_report(self.now_ms());
            for OmittedLines { source, lines, .. } in report {
                tracing::warn!(
                    target: audit::ADMIN,
                    event = "left_out",
                    source,
                    lines,
                    "lines of the audit trail were left out"
                );
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
