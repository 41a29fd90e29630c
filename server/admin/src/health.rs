//! Health of the server: whether it is alive, and whether it is ready for clients.
use super::ServerState;
use super::app_state::AppState;
use super::reply::{self, Reply};
use super::request_authorizer::AccessLevel;
use hyper::StatusCode;
use serde::Serialize;
use statestored_broker::hub::{ClockMetrics, Hub, MetricsSnapshot};
use statestored_store::keyspace::EngineProblem;
use statestored_store::service::ClockSkew;
use std::time::Duration;

/// Time limit for an answer of the thread that serves the clients.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// A problem, as a code for programs and a sentence for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    pub(super) code: &'static str,
    pub(super) text: &'static str,
}

const LOADING: Reason = Reason {
    code: "loading",
    text: "the stored state is being read",
};
const STOPPING: Reason = Reason {
    code: "stopping",
    text: "the server is stopping",
};
const STOPPED: Reason = Reason {
    code: "stopped",
    text: "the server has stopped, or its storage failed: see its log",
};
const STUCK: Reason = Reason {
    code: "stuck",
    text: "the thread that serves the clients has not answered for two seconds",
};
const DRAINING: Reason = Reason {
    code: "draining",
    text: "an operator drains the server: it accepts no clients",
};
const DISK_FULL: Reason = Reason {
    code: "disk_full",
    text: "the disk is full: entries can be read but not changed",
};
const DISK_SLOW: Reason = Reason {
    code: "disk_slow",
    text: "so much waits for the disk that no further writes are taken",
};

const STORAGE_UNAVAILABLE: Reason = Reason {
    code: "storage_away",
    text: "the storage does not answer: requests are refused",
};
const STORAGE_UNREADABLE: Reason = Reason {
    code: "storage_unreadable",
    text: "the storage has data that this program cannot read: see the log",
};
const STORAGE_REPLACED: Reason = Reason {
    code: "storage_replaced",
    text: "the storage was replaced by another one: restart the server",
};
const STORAGE_FULL: Reason = Reason {
    code: "storage_full",
    text: "the storage is full: entries can be read but not changed; compact and defragment etcd and disarm its alarm with etcdctl, or \
           give Redis more memory or disk",
};
const STORAGE_UNREPLICATED: Reason = Reason {
    code: "storage_unreplicated",
    text: "the storage has too few replicas: entries can be read but not changed",
};
const CLOCK_AHEAD: Reason = Reason {
    code: "clock_ahead",
    text: "the clock of this machine is ahead of the others: entries can be read but not changed",
};
const NOT_ATTACHED: Reason = Reason {
    code: "not_attached",
    text: "no requests come from the broker: see the log",
};
const BROKER_STUCK: Reason = Reason {
    code: "broker_stuck",
    text: "the broker answers, but does not deliver messages: see the log",
};
const CATCHING_UP: Reason = Reason {
    code: "catching_up",
    text: "not all changes that others made are known yet",
};

const CLOCK_BEHIND: Reason = Reason {
    code: "clock_behind",
    text: "timestamps of clients are more than a minute ahead of this machine's clock: entries can be read but not set",
};
const CLIENTS_AHEAD: Reason = Reason {
    code: CLOCK_BEHIND.code,
    text: "timestamps of one or two users or addresses are more than a minute ahead of this machine's clock: their SETs are refused",
};
const CLOCK_SUSPECT: Reason = Reason {
    code: "clock_suspect",
    text: "timestamps of clients are more than a minute behind this machine's clock: it may be ahead",
};
const VERSIONS_AHEAD: Reason = Reason {
    code: "versions_ahead",
    text: "versions of entries are ahead of this machine's clock: it was ahead before, or is behind now",
};

const MEMORY_SHORT: Reason = Reason {
    code: "memory_short",
    text: "the process has no memory left: SETs that make the store larger are refused",
};

/// Time before the expiry of a certificate from which on the server reports a warning.
const EXPIRY_WARNING_S: i64 = 14 * 24 * 3600;

const CERTIFICATE_EXPIRED: Reason = Reason {
    code: "certificate_expired",
    text: "a certificate of the listeners or of this port has expired: clients do not trust it",
};
const CERTIFICATE_EXPIRES: Reason = Reason {
    code: "certificate_expires",
    text: "a certificate of the listeners or of this port expires within 14 days: renew it",
};

const PRESENTED_EXPIRED: Reason = Reason {
    code: CERTIFICATE_EXPIRED.code,
    text: "the certificate of this server for its engine or broker has expired: connections to it fail",
};
const PRESENTED_EXPIRES: Reason = Reason {
    code: CERTIFICATE_EXPIRES.code,
    text: "the certificate of this server for its engine or broker expires within 14 days: renew it",
};

/// Returns the warning of a certificate that expires in so many seconds.
fn expiry_warning(left_s: Option<i64>, (expired, soon): (Reason, Reason)) -> Option<Reason> {
    match left_s {
        Some(..=0) => Some(expired),
        Some(..EXPIRY_WARNING_S) => Some(soon),
        _ => None,
    }
}

/// Returns whether several independent clients give the sign that the clock is wrong.
fn is_skew_confirmed(clock: &ClockMetrics) -> bool {
    clock.skew.is_some_and(|sign| sign.is_agreed)
}

impl Reason {
    /// Returns the warnings that metrics give.
    fn warnings(metrics: &MetricsSnapshot) -> Vec<Self> {
        let clock = &metrics.clock;
        let is_behind = clock.suspected_skew() == Some(ClockSkew::Behind);
        let warnings = [
            (is_behind && !is_skew_confirmed(clock), CLIENTS_AHEAD),
            (
                clock.suspected_skew() == Some(ClockSkew::Ahead),
                CLOCK_SUSPECT,
            ),
            (clock.are_versions_ahead(), VERSIONS_AHEAD),
            (metrics.shortages.memory, MEMORY_SHORT),
        ];
        let warnings = warnings.into_iter().filter(|(is_so, _)| *is_so);
        warnings.map(|(_, warning)| warning).collect()
    }

    /// Returns the reasons why a server that answers is not ready for clients.
    pub(super) fn unready_reasons(metrics: &MetricsSnapshot) -> Vec<Self> {
        let is_behind = metrics.clock.suspected_skew() == Some(ClockSkew::Behind);
        let reasons = [
            (metrics.is_draining, DRAINING),
            (metrics.shortages.disk_full, DISK_FULL),
            (metrics.shortages.disk_slow, DISK_SLOW),
            (is_behind && is_skew_confirmed(&metrics.clock), CLOCK_BEHIND),
            (
                metrics.broker.is_some_and(|broker| !broker.is_attached),
                NOT_ATTACHED,
            ),
            (
                metrics.broker.is_some_and(|broker| broker.is_failing),
                BROKER_STUCK,
            ),
        ];
        let reasons = reasons.into_iter().filter(|(is_so, _)| *is_so);
        let trouble = metrics.engine.and_then(|engine| engine.problem);
        let trouble = trouble.map(|trouble| match trouble {
            EngineProblem::Unavailable => STORAGE_UNAVAILABLE,
            EngineProblem::Unreadable => STORAGE_UNREADABLE,
            EngineProblem::Replaced => STORAGE_REPLACED,
            EngineProblem::Full => STORAGE_FULL,
            EngineProblem::Unreplicated => STORAGE_UNREPLICATED,
            EngineProblem::ClockAhead => CLOCK_AHEAD,
            EngineProblem::ChangesMissed => CATCHING_UP,
        });
        reasons.map(|(_, reason)| reason).chain(trouble).collect()
    }
}

#[derive(Serialize)]
struct Report<'a> {
    status: &'static str,
    reasons: &'a [Reason],
    #[serde(skip_serializing_if = "<[Reason]>::is_empty")]
    warnings: &'a [Reason],
}

impl AppState {
    /// Returns all metrics, or the reason why there are none.
    pub(super) async fn read_metrics(&self) -> Result<MetricsSnapshot, Reason> {
        match self.server_state() {
            ServerState::Loading => return Err(LOADING),
            ServerState::Stopping => return Err(STOPPING),
            ServerState::Serving(_) => {}
        }
        let snapshot = self.server_handle().inspect(Hub::metrics_snapshot);
        match tokio::time::timeout(REPLY_TIMEOUT, snapshot).await {
            Ok(Ok(metrics)) => Ok(metrics),
            Ok(Err(_)) if matches!(self.server_state(), ServerState::Stopping) => Err(STOPPING),
            Ok(Err(_)) => Err(STOPPED),
            Err(_) => Err(STUCK),
        }
    }

    /// Returns the warnings of a server that is ready for clients.
    pub(super) fn warnings(&self, metrics: &MetricsSnapshot) -> Vec<Reason> {
        let mut warnings = Reason::warnings(metrics);
        let status = &self.tls_status;
        let of_server = (CERTIFICATE_EXPIRED, CERTIFICATE_EXPIRES);
        let of_client = (PRESENTED_EXPIRED, PRESENTED_EXPIRES);
        warnings.extend(expiry_warning(status.seconds_left(), of_server));
        warnings.extend(expiry_warning(status.presented_seconds_left(), of_client));
        warnings
    }

    /// Reports whether the server is alive: it answers, or is starting or stopping. Otherwise it should be restarted.
    pub(super) async fn health(&self, rights: AccessLevel, wants_json: bool) -> Reply {
        let ill = self.read_metrics().await.err();
        let ill = ill.filter(|reason| ![LOADING, STOPPING].contains(reason));
        let words = ["alive", "not alive"];
        report(words, ill.as_slice(), &[], rights, wants_json)
    }

    /// Reports whether clients can do everything.
    pub(super) async fn readiness(&self, rights: AccessLevel, wants_json: bool) -> Reply {
        let (reasons, warnings) = match self.read_metrics().await {
            Err(reason) => (vec![reason], Vec::new()),
            Ok(metrics) => (Reason::unready_reasons(&metrics), self.warnings(&metrics)),
        };
        let words = ["ready", "not ready"];
        report(words, &reasons, &warnings, rights, wants_json)
    }
}

fn report(
    words: [&'static str; 2],
    reasons: &[Reason],
    warnings: &[Reason],
    rights: AccessLevel,
    wants_json: bool,
) -> Reply {
    let is_well = reasons.is_empty();
    let status = words[usize::from(!is_well)];
    let code = if is_well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let (reasons, warnings) = if rights >= AccessLevel::Metrics {
        (reasons, warnings)
    } else {
        (&[][..], &[][..])
    };
    if wants_json {
        let report = Report {
            status,
            reasons,
            warnings,
        };
        return reply::json(code, &report);
    }
    let mut text = format!("{status}\n");
    for reason in reasons.iter().chain(warnings) {
        text.push_str(reason.code);
        text.push_str(": ");
        text.push_str(reason.text);
        text.push('\n');
    }
    reply::text(code, text)
}
