//! The audit trail: which client connected, why connections ended, what was refused, and what an administrator did.
//!
//! Each line is a `tracing` event with one of the targets below and the field `event`. Names of targets, events and fields are stable;
//! `docs/monitoring.md` lists them. Lines are limited by client, by address and in total, and the lines that were left
//! out are counted. Keys are logged only if [`AuditOptions::logs_keys`] is set; values never are.
mod end_reason;

pub use end_reason::EndCounts;
pub use end_reason::EndReason;
pub use statestored_common::line_limiter::{LineKind, LineLimiter, OmittedLines};

use std::borrow::Cow;

/// Target of events about connections of clients.
pub const CONNECTION: &str = "statestored::audit::connection";
/// Target of events about refused logins and requests.
pub const REFUSAL: &str = "statestored::audit::refusal";
/// Target of events about what an administrator did, or tried to do.
pub const ADMIN: &str = "statestored::audit::admin";

/// Maximum number of characters of a name that a line shows.
const MAX_CHARS: usize = 128;

/// Options of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditOptions {
    /// Whether keys are logged and listed.
    pub logs_keys: bool,
    /// Maximum number of lines per second about clients; 0 is no limit.
    pub max_lines_per_second: u32,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            logs_keys: false,
            max_lines_per_second: 100,
        }
    }
}

/// Returns the beginning of a name that a client chose, with `…` if more follows.
pub fn truncate(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(MAX_CHARS) {
        None => name.into(),
        Some((end, _)) => format!("{}…", &name[..end]).into(),
    }
}
