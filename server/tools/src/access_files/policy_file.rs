//! The file of the policy.
use super::AccessFileError;
use statestored_access::Policy;
use statestored_common::read_tracker;
use std::fs;
use std::path::Path;

/// Reads a policy in YAML (or JSON, which is YAML).
///
/// # Errors
/// The file cannot be read, or its content is no policy.
pub fn read_policy(path: &Path) -> Result<Policy, AccessFileError> {
    read_tracker::record_path(path);
    let text = fs::read_to_string(path).map_err(|source| AccessFileError::Read {
        path: path.into(),
        source,
    })?;
    Policy::parse(&text).map_err(|source| AccessFileError::Policy {
        path: path.into(),
        source,
    })
}
