//! Dapr's concurrency control: the conditions of the store for each `ETag` and option.
//!
//! The `ETag` of an entry is the text of its version. Versions of a key rise for ever, through deletions and restarts, so an old
//! one never returns.
use crate::proto::state_options::{StateConcurrency, StateConsistency};
use crate::proto::{Etag, StateOptions};
use crate::status::invalid_etag;
use statestore::{Hlc, Version};
use tonic::Status;

/// Condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// Always.
    None,
    /// If the key is absent.
    Absent,
    /// If the key has this version.
    Version(Version),
}

/// Returns the `ETag` of an entry.
pub(crate) fn etag(version: &Hlc) -> Etag {
    Etag {
        value: version.to_string(),
    }
}

/// Returns the condition of a SET.
pub(crate) fn set_precondition(
    etag: Option<&Etag>,
    options: Option<StateOptions>,
) -> Result<Precondition, Status> {
    let concurrency = concurrency(options)?;
    match required_version(etag, concurrency)? {
        None if concurrency == StateConcurrency::ConcurrencyFirstWrite => Ok(Precondition::Absent),
        given => Ok(given.map_or(Precondition::None, Precondition::Version)),
    }
}

/// Returns the condition of a deletion. The first write of a key cannot be a deletion: without an `ETag` there is no version to
/// compare.
pub(crate) fn delete_precondition(
    etag: Option<&Etag>,
    options: Option<StateOptions>,
) -> Result<Precondition, Status> {
    let given = required_version(etag, concurrency(options)?)?;
    Ok(given.map_or(Precondition::None, Precondition::Version))
}

/// Returns the requested consistency; rejects a value that Dapr does not define. Only reads have a choice: every write is strong.
pub(crate) fn consistency(consistency: i32) -> Result<StateConsistency, Status> {
    StateConsistency::try_from(consistency).map_err(|_| {
        Status::invalid_argument(format!("there is no consistency number {consistency}"))
    })
}

fn concurrency(options: Option<StateOptions>) -> Result<StateConcurrency, Status> {
    let options = options.unwrap_or_default();
    consistency(options.consistency)?;
    StateConcurrency::try_from(options.concurrency).map_err(|_| {
        Status::invalid_argument(format!(
            "there is no concurrency number {}",
            options.concurrency
        ))
    })
}

/// Returns the required version, if the request has one that applies.
fn required_version(
    etag: Option<&Etag>,
    concurrency: StateConcurrency,
) -> Result<Option<Version>, Status> {
    let Some(etag) = etag.filter(|etag| !etag.value.is_empty()) else {
        return Ok(None);
    };
    if concurrency == StateConcurrency::ConcurrencyLastWrite {
        return Ok(None);
    }
    match Version::parse(etag.value.as_bytes()) {
        Some(version) => Ok(Some(version)),
        None => Err(invalid_etag(
            "the ETag is malformed; send one that a get has returned",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    const UNSPECIFIED: i32 = StateConcurrency::ConcurrencyUnspecified as i32;
    const FIRST: i32 = StateConcurrency::ConcurrencyFirstWrite as i32;
    const LAST: i32 = StateConcurrency::ConcurrencyLastWrite as i32;
    const VERSION: &str = "001696374425000:00001:StateStore";

    fn options(concurrency: i32) -> StateOptions {
        StateOptions {
            concurrency,
            consistency: 0,
        }
    }

    fn sent(value: &str) -> Etag {
        Etag {
            value: value.to_owned(),
        }
    }

    #[test]
    fn etags_and_options_map_to_preconditions() {
        let version = Precondition::Version(Version::new(1_696_374_425_000, 1));
        for (etag, concurrency, set, delete) in [
            (None, UNSPECIFIED, Precondition::None, Precondition::None),
            (None, LAST, Precondition::None, Precondition::None),
            (None, FIRST, Precondition::Absent, Precondition::None),
            (
                Some(""),
                UNSPECIFIED,
                Precondition::None,
                Precondition::None,
            ),
            (Some(""), FIRST, Precondition::Absent, Precondition::None),
            (Some(VERSION), UNSPECIFIED, version, version),
            (Some(VERSION), FIRST, version, version),
            (Some(VERSION), LAST, Precondition::None, Precondition::None),
            (
                Some("foreign"),
                LAST,
                Precondition::None,
                Precondition::None,
            ),
        ] {
            let etag = etag.map(sent);
            assert_eq!(
                set_precondition(etag.as_ref(), Some(options(concurrency))).unwrap(),
                set
            );
            assert_eq!(
                delete_precondition(etag.as_ref(), Some(options(concurrency))).unwrap(),
                delete
            );
        }
        assert_eq!(set_precondition(None, None).unwrap(), Precondition::None);
    }

    #[test]
    fn a_malformed_etag_is_invalid() {
        for text in [
            "7",
            "bad-etag",
            "1:2:client",
            "1:2:StateStore:",
            "1:2:StateStore\0",
        ] {
            for concurrency in [UNSPECIFIED, FIRST] {
                let status =
                    set_precondition(Some(&sent(text)), Some(options(concurrency))).unwrap_err();
                assert_eq!(status.code(), Code::InvalidArgument, "{text}");
                let status =
                    delete_precondition(Some(&sent(text)), Some(options(concurrency))).unwrap_err();
                assert_eq!(status.code(), Code::InvalidArgument, "{text}");
            }
        }
    }

    #[test]
    fn an_etag_round_trips() {
        let version = Hlc::store_version((1, 100_000_000));
        assert_eq!(
            set_precondition(Some(&etag(&version)), None).unwrap(),
            Precondition::Version(Version::from(&version))
        );
    }

    #[test]
    fn unknown_options_are_refused() {
        assert_eq!(
            set_precondition(None, Some(options(3))).unwrap_err().code(),
            Code::InvalidArgument
        );
        let unknown = Some(StateOptions {
            concurrency: 0,
            consistency: 9,
        });
        assert_eq!(
            delete_precondition(None, unknown).unwrap_err().code(),
            Code::InvalidArgument
        );
        assert!(consistency(2).is_ok() && consistency(3).is_err());
    }
}
