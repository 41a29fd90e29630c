//! The expiry of certificates.
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: i64 = 24 * 3600;

/// Seconds before the expiry of a certificate from which on the log warns. Automatic renewal is never that late.
pub(super) const WARNING_S: i64 = 7 * DAY_S;

/// Distance of a certificate from its expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpiryStage {
    /// The certificate expires later.
    Valid,
    /// The log warns of the expiry.
    ExpiresSoon,
    /// The certificate has expired.
    Expired,
}

impl ExpiryStage {
    /// Returns the stage of a certificate that expires at `end_s`, both in seconds since 1970.
    pub(super) fn of(end_s: i64, now_s: i64) -> Self {
        match end_s.saturating_sub(now_s) {
            ..=0 => Self::Expired,
            1..WARNING_S => Self::ExpiresSoon,
            _ => Self::Valid,
        }
    }
}

/// Returns the whole days until a certificate expires.
pub(super) fn days_left(end_s: i64, now_s: i64) -> i64 {
    end_s.saturating_sub(now_s) / DAY_S
}

/// Returns the time of the wall clock, in seconds since 1970.
pub(super) fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_passes_through_its_stages() {
        let end_s = 100 * DAY_S;
        for (now_s, stage) in [
            (end_s - WARNING_S, ExpiryStage::Valid),
            (end_s - WARNING_S + 1, ExpiryStage::ExpiresSoon),
            (end_s - 1, ExpiryStage::ExpiresSoon),
            (end_s, ExpiryStage::Expired),
            (end_s + DAY_S, ExpiryStage::Expired),
        ] {
            assert_eq!(ExpiryStage::of(end_s, now_s), stage, "{now_s}");
        }
        assert_eq!(days_left(end_s, end_s - 3 * DAY_S), 3);
    }
}
