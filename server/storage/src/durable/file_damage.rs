//! The damage of a file in a data directory.
use crate::{Damage, StorageError};
use std::path::Path;

/// Returns the error for a file that is not as it was written.
pub(super) fn damage_error(path: &Path, what: impl std::fmt::Display) -> StorageError {
    file_damage(path, what).into()
}

/// Returns the damage of a file, for the caller to extend.
pub(super) fn file_damage(path: &Path, what: impl std::fmt::Display) -> Damage {
    Damage::new(
        path,
        format!("is damaged: {what}"),
        "restore the directory from a copy",
    )
}
