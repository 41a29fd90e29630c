//! Health of the server: whether it is alive, and whether it is ready for clients.
use super::Stage;
use super::gate::Rights;
use super::reply::{self, Reply};
use super::routes::Room;
use crate::hub::{ClockFigures, Figures, Hub};
use crate::keyspace::remote::Trouble;
use crate::service::Skew;
use hyper::StatusCode;
use serde::Serialize;
use std::time::Duration;

/// Time limit for an answer of the thread that serves the clients.
const PATIENCE: Duration = Duration::from_secs(2);

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
const GONE: Reason = Reason {
    code: "stopped",
    text: "the server has stopped, or its storage failed: see its log",
};
const STUCK: Reason = Reason {
    code: "stuck",
    text: "the thread that serves the clients has not answered for two seconds",
};
const DISK_FULL: Reason = Reason {
    code: "disk_full",
    text: "the disk is full: entries can be read but not changed",
};
const DISK_SLOW: Reason = Reason {
    code: "disk_slow",
    text: "so much waits for the disk that no further writes are taken",
};

const AWAY: Reason = Reason {
    code: "storage_away",
    text: "the storage does not answer: requests are refused",
};
const UNREADABLE: Reason = Reason {
    code: "storage_unreadable",
    text: "the storage holds what this program cannot read: see the log",
};
const REPLACED: Reason = Reason {
    code: "storage_replaced",
    text: "the storage is not the one that the server began with: start it anew",
};
const FULL: Reason = Reason {
    code: "storage_full",
    text: "the storage is full: entries can be read but not changed",
};
const UNREPLICATED: Reason = Reason {
    code: "storage_unreplicated",
    text: "too few replicas of the storage follow it: entries can be read but not changed",
};
const CLOCK: Reason = Reason {
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
const UNWATCHED: Reason = Reason {
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

/// Returns whether several independent clients give the sign that the clock is wrong.
fn are_agreed(clock: &ClockFigures) -> bool {
    clock.skew.is_some_and(|sign| sign.is_agreed)
}

impl Reason {
    /// Returns the warnings of a server that is ready for clients.
    pub(super) fn warnings(figures: &Figures) -> Vec<Self> {
        let clock = &figures.clock;
        let is_behind = clock.suspected() == Some(Skew::Behind);
        let warnings = [
            (is_behind && !are_agreed(clock), CLIENTS_AHEAD),
            (clock.suspected() == Some(Skew::Ahead), CLOCK_SUSPECT),
            (clock.are_versions_ahead(), VERSIONS_AHEAD),
            (figures.shortages.memory, MEMORY_SHORT),
        ];
        let warnings = warnings.into_iter().filter(|(is_so, _)| *is_so);
        warnings.map(|(_, warning)| warning).collect()
    }

    /// Returns the reasons why a server that answers is not ready for clients.
    pub(super) fn of(figures: &Figures) -> Vec<Self> {
        let is_behind = figures.clock.suspected() == Some(Skew::Behind);
        let reasons = [
            (figures.shortages.disk_full, DISK_FULL),
            (figures.shortages.disk_slow, DISK_SLOW),
            (is_behind && are_agreed(&figures.clock), CLOCK_BEHIND),
            (
                figures.broker.is_some_and(|broker| !broker.is_attached),
                NOT_ATTACHED,
            ),
            (
                figures.broker.is_some_and(|broker| broker.is_failing),
                BROKER_STUCK,
            ),
        ];
        let reasons = reasons.into_iter().filter(|(is_so, _)| *is_so);
        let trouble = figures.engine.and_then(|engine| engine.trouble);
        let trouble = trouble.map(|trouble| match trouble {
            Trouble::Away => AWAY,
            Trouble::Unreadable => UNREADABLE,
            Trouble::Replaced => REPLACED,
            Trouble::Full => FULL,
            Trouble::Unreplicated => UNREPLICATED,
            Trouble::Clock => CLOCK,
            Trouble::Unwatched => UNWATCHED,
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

impl Room {
    /// Returns all metrics, or the reason why there are none.
    pub(super) async fn figures(&self) -> Result<Figures, Reason> {
        match self.stage() {
            Stage::Loading => return Err(LOADING),
            Stage::Stopping => return Err(STOPPING),
            Stage::Serving(_) => {}
        }
        let asked = self.control().inspect(Hub::figures);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(figures)) => Ok(figures),
            Ok(Err(_)) if matches!(self.stage(), Stage::Stopping) => Err(STOPPING),
            Ok(Err(_)) => Err(GONE),
            Err(_) => Err(STUCK),
        }
    }

    /// Reports whether the server is alive: it answers, or is starting or stopping. Otherwise it should be restarted.
    pub(super) async fn health(&self, rights: Rights, wants_json: bool) -> Reply {
        let ill = self.figures().await.err();
        let ill = ill.filter(|reason| ![LOADING, STOPPING].contains(reason));
        let words = ["alive", "not alive"];
        report(words, ill.as_slice(), &[], rights, wants_json)
    }

    /// Reports whether clients can do everything.
    pub(super) async fn readiness(&self, rights: Rights, wants_json: bool) -> Reply {
        let (reasons, warnings) = match self.figures().await {
            Err(reason) => (vec![reason], Vec::new()),
            Ok(figures) => (Reason::of(&figures), Reason::warnings(&figures)),
        };
        let words = ["ready", "not ready"];
        report(words, &reasons, &warnings, rights, wants_json)
    }
}

fn report(
    words: [&'static str; 2],
    reasons: &[Reason],
    warnings: &[Reason],
    rights: Rights,
    wants_json: bool,
) -> Reply {
    let is_well = reasons.is_empty();
    let status = words[usize::from(!is_well)];
    let code = if is_well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let (reasons, warnings) = if rights >= Rights::Look {
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
