//! The directory entries that determine the target of a path.
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{env, fs, io};

/// Maximum number of symbolic links in one path, as on Linux.
const MAX_LINKS: usize = 40;

/// A name in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    /// The directory, which exists and contains no symbolic link in its path.
    pub(super) directory: PathBuf,
    /// The name that is looked up in it.
    pub(super) name: OsString,
}

/// Walks `path` and returns each symbolic link on the way, then the file itself. If the path has no target, the last entry is
/// the first missing name. Replacing any of these entries changes the target of the path.
pub(super) fn deciding_entries(path: &Path) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    let mut directory = if path.is_absolute() {
        PathBuf::from("/")
    } else {
        env::current_dir()?.canonicalize()?
    };
    let mut rest: VecDeque<OsString> = parts(path);
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            directory.pop();
            continue;
        }
        let place = directory.join(&part);
        let kind = fs::symlink_metadata(&place).map(|metadata| metadata.file_type());
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) && !rest.is_empty() {
            directory = place;
            continue;
        }
        let target = match kind {
            Ok(kind) if kind.is_symlink() && entries.len() < MAX_LINKS => {
                fs::read_link(&place).ok()
            }
            _ => None,
        };
        entries.push(DirectoryEntry {
            directory: directory.clone(),
            name: part,
        });
        let Some(target) = target else {
            return Ok(entries);
        };
        if target.is_absolute() {
            directory = PathBuf::from("/");
        }
        for part in parts(&target).into_iter().rev() {
            rest.push_front(part);
        }
    }
    Ok(entries)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        })
        .collect()
}
