//! Dapr's time to live, in the metadata of requests and answers.
use statestore::Expiry;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};
use tonic::Status;

/// Metadata key of the time to live, in whole seconds.
const TTL: &str = "ttlInSeconds";

/// Metadata key of the expiry time, in the format of RFC 3339.
const EXPIRY: &str = "ttlExpireTime";

/// Returns the time to live of a value; `None` if there is none or it is not above zero: the value never expires.
pub(crate) fn expires_in(metadata: &HashMap<String, String>) -> Result<Option<Duration>, Status> {
    let Some((_, text)) = metadata
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(TTL))
    else {
        return Ok(None);
    };
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Status::invalid_argument(format!(
            "`{TTL}` is not a whole number of seconds"
        )));
    }
    match text.parse::<i64>() {
        Ok(seconds) => Ok(u64::try_from(seconds)
            .ok()
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs)),
        Err(_) if text.starts_with('-') => Ok(None),
        Err(_) => Err(Status::invalid_argument(format!(
            "`{TTL}` is more than {} seconds",
            i64::MAX
        ))),
    }
}

/// Returns the metadata of an answer whose value expires after this time.
pub(crate) fn expiry_metadata(expires_in: Expiry) -> HashMap<String, String> {
    let at = match expires_in {
        Expiry::After(time) => SystemTime::now().checked_add(time),
        _ => None,
    };
    at.and_then(format_time)
        .map(|text| (EXPIRY.to_owned(), text))
        .into_iter()
        .collect()
}

/// Returns the time as RFC 3339 text, or `None` if its year does not fit into four digits.
fn format_time(at: SystemTime) -> Option<String> {
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_millis(at)).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<u64>, String> {
        let metadata = HashMap::from([(TTL.to_owned(), text.to_owned())]);
        expires_in(&metadata)
            .map(|after| after.map(|after| after.as_secs()))
            .map_err(|status| status.message().to_owned())
    }

    #[test]
    fn only_a_positive_ttl_expires() {
        assert_eq!(expires_in(&HashMap::new()).unwrap(), None);
        for (text, seconds) in [
            ("1", Some(1)),
            (" 60 ", Some(60)),
            ("+5", Some(5)),
            ("0", None),
            ("-1", None),
            ("", None),
            ("-99999999999999999999999", None),
            ("9223372036854775807", Some(9_223_372_036_854_775_807)),
        ] {
            assert_eq!(parsed(text), Ok(seconds), "{text}");
        }
        for text in ["foo", "1.5", "1s", "-", "0x10", "9223372036854775808"] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(TTL), "{error}");
        }
    }

    #[test]
    fn an_expiry_time_is_formatted_if_representable() {
        for endless in [
            Expiry::Unknown,
            Expiry::Never,
            Expiry::After(Duration::MAX),
            Expiry::After(Duration::from_secs(1 << 40)),
        ] {
            assert_eq!(expiry_metadata(endless), HashMap::new());
        }
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        assert_eq!(format_time(at).unwrap(), "2023-11-14T22:13:20.250Z");
        assert!(expiry_metadata(Expiry::After(Duration::from_secs(9)))[EXPIRY].ends_with('Z'));
    }
}
