//! Who was refused lately, and how many were refused for what.
use statestore_protocol::mqtt::ReasonCode;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// The log reports proxies that are not trusted no more often than this.
const LOG_EVERY_MS: u64 = 10_000;

/// How many are remembered.
const KEPT: usize = 100;

/// What somebody was refused for, as far as it is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Credentials that are not accepted.
    Login,
    /// Something that this client or user may not do.
    Authorization,
    /// Too much is held, or there are too many of something.
    Quota,
    /// Too often.
    Rate,
    /// There are too many connections.
    Connections,
    /// Something that the protocol does not allow, or this server does not offer.
    Protocol,
}

impl Cause {
    /// All of them, in the order of [`Refusals::counts`].
    pub(crate) const ALL: [Self; 6] = [
        Self::Login,
        Self::Authorization,
        Self::Quota,
        Self::Rate,
        Self::Connections,
        Self::Protocol,
    ];

    /// Its name in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Authorization => "authorization",
            Self::Quota => "quota",
            Self::Rate => "rate",
            Self::Connections => "connections",
            Self::Protocol => "protocol",
        }
    }

    /// What a reason code stands for.
    pub(super) fn of(reason: ReasonCode) -> Self {
        match reason {
            ReasonCode::BAD_USER_NAME_OR_PASSWORD | ReasonCode::BAD_AUTHENTICATION_METHOD => {
                Self::Login
            }
            ReasonCode::NOT_AUTHORIZED => Self::Authorization,
            ReasonCode::QUOTA_EXCEEDED => Self::Quota,
            ReasonCode::CONNECTION_RATE_EXCEEDED => Self::Rate,
            _ => Self::Protocol,
        }
    }
}

/// Somebody was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When, on the wall clock.
    pub(crate) wall_ms: u64,
    /// Whence.
    pub(crate) peer: Option<IpAddr>,
    /// The client id; empty if nobody has been accepted yet.
    pub(crate) client: Arc<str>,
    /// What for.
    pub(crate) cause: Cause,
    /// The same in words.
    pub(crate) why: Arc<str>,
}

/// The last of them, and their numbers since the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    last: VecDeque<Refused>,
    /// By cause.
    pub(crate) counts: [u64; Cause::ALL.len()],
    /// When the log has reported a proxy that is not trusted.
    proxies_logged_ms: Option<u64>,
}

impl Refusals {
    pub(super) fn note(&mut self, refused: Refused) {
        self.counts[refused.cause as usize] += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(refused);
    }

    /// Returns whether the log is to report a proxy that is not trusted.
    pub(super) fn logs_proxies(&mut self, now_ms: u64) -> bool {
        let logged_ms = self.proxies_logged_ms;
        let is_due = logged_ms.is_none_or(|logged_ms| now_ms >= logged_ms + LOG_EVERY_MS);
        if is_due {
            self.proxies_logged_ms = Some(now_ms);
        }
        is_due
    }

    /// The last ones, newest first.
    pub(crate) fn last(&self) -> impl Iterator<Item = &Refused> {
        self.last.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundred_are_remembered_and_all_are_counted() {
        let mut refusals = Refusals::default();
        for wall_ms in 0..150 {
            refusals.note(Refused {
                wall_ms,
                peer: None,
                client: "c".into(),
                cause: Cause::Rate,
                why: "too often".into(),
            });
        }
        assert_eq!(refusals.counts[Cause::Rate as usize], 150);
        let times: Vec<u64> = refusals.last().map(|refused| refused.wall_ms).collect();
        assert_eq!(times, (50..150).rev().collect::<Vec<_>>());
    }
}
