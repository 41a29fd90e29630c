//! All states that may be left of files; other tests draw one of them at random.
use super::file_tree::{Entry, File, FileTree, SECTOR, UnsyncedChange, patch};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Up to this number of changes, every subset may survive.
const MAX_SUBSETS: usize = 4;

/// A part of a file's changes that survives as a whole or not at all.
enum ChangePiece<'a> {
    Bytes(usize, &'a [u8]),
    Length(usize),
}

impl File {
    /// Returns the changes since the last sync, by sectors.
    fn pieces(&self) -> Vec<ChangePiece<'_>> {
        let mut pieces = Vec::new();
        for change in &self.unsynced {
            match change {
                UnsyncedChange::Length(length) => pieces.push(ChangePiece::Length(*length)),
                UnsyncedChange::Bytes { at, bytes, .. } => {
                    let mut done = 0;
                    while done < bytes.len() {
                        let begin = at + done;
                        let count = (SECTOR - begin % SECTOR).min(bytes.len() - done);
                        pieces.push(ChangePiece::Bytes(begin, &bytes[done..done + count]));
                        done += count;
                    }
                }
            }
        }
        pieces
    }

    /// Returns the contents that a power failure may leave.
    fn crash_states(&self) -> BTreeSet<Vec<u8>> {
        let pieces = self.pieces();
        let mut found: BTreeSet<_> = surviving_subsets(pieces.len())
            .into_iter()
            .map(|part| {
                let mut content = self.durable.clone();
                for (piece, _) in pieces.iter().zip(part).filter(|(_, survives)| *survives) {
                    match piece {
                        ChangePiece::Bytes(at, bytes) => patch(&mut content, *at, bytes),
                        ChangePiece::Length(length) => content.resize(*length, 0),
                    }
                }
                content
            })
            .collect();
        // The file may be longer than the kept part of its end.
        let missing = self.content.len().saturating_sub(self.durable.len());
        for more in [missing / 2, missing] {
            let mut content = self.durable.clone();
            content.resize(content.len() + more, 0);
            found.insert(content);
        }
        found
    }
}

/// Returns the sets of changes that survive. All subsets if there are few changes. If there are more: each beginning, each end,
/// each change alone, and all except one.
fn surviving_subsets(count: usize) -> Vec<Vec<bool>> {
    if count <= MAX_SUBSETS {
        let subsets = 0..1_u32 << count;
        return subsets
            .map(|bits| (0..count).map(|at| bits >> at & 1 == 1).collect())
            .collect();
    }
    let mut parts = Vec::new();
    for end in 0..=count {
        parts.push((0..count).map(|at| at < end).collect());
        parts.push((0..count).map(|at| at >= end).collect());
        parts.push((0..count).map(|at| at == end).collect());
        parts.push((0..count).map(|at| at != end).collect());
    }
    parts
}

impl FileTree {
    /// Returns all states that a power failure may leave.
    pub(crate) fn crash_states(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for names in self.surviving_names() {
            let mut all = vec![Self {
                names: names.clone(),
                durable: names.clone(),
                ..Self::default()
            }];
            for entry in names.values() {
                let Entry::File(number) = entry else { continue };
                let Some(file) = self.numbered.get(number) else {
                    continue;
                };
                let contents = file.crash_states();
                let with = |files: &Self, content: &Vec<u8>| {
                    let mut files = files.clone();
                    let file = File {
                        content: content.clone(),
                        durable: content.clone(),
                        ..File::default()
                    };
                    files.numbered.insert(*number, file);
                    files
                };
                all = all
                    .iter()
                    .flat_map(|files| contents.iter().map(|content| with(files, content)))
                    .collect();
            }
            found.append(&mut all);
        }
        found
    }

    /// Returns the sets of names that may survive.
    fn surviving_names(&self) -> Vec<BTreeMap<PathBuf, Entry>> {
        let mut found: Vec<BTreeMap<PathBuf, Entry>> = Vec::new();
        for part in surviving_subsets(self.unsynced.len()) {
            let mut names = self.durable.clone();
            for (change, _) in self.unsynced.iter().zip(part).filter(|(_, kept)| *kept) {
                change.apply(&mut names);
            }
            let folders = names.clone();
            names.retain(|path, _| match path.parent() {
                Some(parent) if parent.parent().is_some() => folders.contains_key(parent),
                _ => true,
            });
            if !found.contains(&names) {
                found.push(names);
            }
        }
        found
    }

    /// Returns the files that the end of the process may leave: a failed sync may have been undone since.
    pub(crate) fn after_process(&self) -> Vec<Self> {
        let mut kept = self.clone();
        kept.remove_unnamed();
        let mut lost = kept.clone();
        let mut differ = false;
        for file in lost.numbered.values_mut() {
            differ |= file.reload_failed();
        }
        if differ { vec![kept, lost] } else { vec![kept] }
    }

    /// Returns the content of a file if it is text; empty if there is no such file.
    pub(crate) fn text(&self, path: &Path) -> String {
        match self.entry(path) {
            Some(Entry::File(number)) => String::from_utf8_lossy(self.content(number)).into_owned(),
            _ => String::new(),
        }
    }

    /// Returns the highest number of a file.
    pub(super) fn last_file(&self) -> u64 {
        self.numbered.keys().next_back().copied().unwrap_or(0)
    }

    /// Whether a power failure would keep the content of this file, if its name survives.
    pub(crate) fn is_durable(&self, path: &Path) -> bool {
        match self.entry(path) {
            Some(Entry::File(number)) => self
                .numbered
                .get(&number)
                .is_none_or(|file| file.crash_states().iter().all(|left| *left == file.content)),
            _ => true,
        }
    }

    /// Whether a power failure would keep all files as they are.
    pub(crate) fn are_durable(&self) -> bool {
        self.names().all(|path| self.is_durable(path))
    }

    /// Whether that holds for all files in a folder.
    pub(crate) fn are_durable_in(&self, folder: &Path) -> bool {
        let mut inside = self.names().filter(|path| path.parent() == Some(folder));
        inside.all(|path| self.is_durable(path))
    }

    /// Whether a file or directory of this name exists.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.entry(path).is_some()
    }

    /// Returns a hash of all that the next process can see of these files.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, entry) in &self.names {
            path.hash(&mut hasher);
            if let Entry::File(number) = entry {
                self.content(*number).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}
