//! Files and names as processes see them, and the part of both that survives a power failure.
use crate::faults::{FaultCounts, Mishap};
use crate::seeded_rng::SeededRng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Unit of space in a file system, and the part of a write that a disk keeps as a whole.
pub(super) const SECTOR: usize = 512;

/// The target of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Directory,
    File(u64),
}

/// A change of files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DiskChange {
    Name(NameChange),
    SyncNames {
        directory: PathBuf,
    },
    Write {
        file: u64,
        at: usize,
        bytes: Vec<u8>,
    },
    SetLength {
        file: u64,
        length: usize,
    },
    Reserve {
        file: u64,
        to: usize,
    },
    Sync {
        file: u64,
    },
    /// A sync has failed.
    FailSync {
        file: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NameChange {
    Create {
        path: PathBuf,
        entry: Entry,
    },
    /// Adds another name to a file.
    Link {
        path: PathBuf,
        entry: Entry,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        entry: Entry,
    },
    Remove {
        path: PathBuf,
    },
}

impl NameChange {
    fn directory(&self) -> &Path {
        let path = match self {
            Self::Create { path, .. }
            | Self::Link { path, .. }
            | Self::Remove { path }
            | Self::Rename { to: path, .. } => path,
        };
        path.parent().unwrap_or(path)
    }

    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, Entry>) {
        match self {
            Self::Create { path, entry } | Self::Link { path, entry } => {
                names.insert(path.clone(), *entry);
            }
            Self::Rename { from, to, entry } => {
                names.remove(from);
                names.insert(to.clone(), *entry);
            }
            Self::Remove { path } => {
                names.remove(path);
            }
        }
    }
}

/// A change of a file since its last sync.
#[derive(Debug, Clone)]
pub(super) enum UnsyncedChange {
    Bytes {
        at: usize,
        bytes: Vec<u8>,
        /// Whether a sync of these bytes has failed: no later sync writes them.
        has_failed: bool,
    },
    Length(usize),
}

#[derive(Debug, Clone, Default)]
pub(super) struct File {
    /// Content as processes see it.
    pub(super) content: Vec<u8>,
    /// Content that certainly survives.
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<UnsyncedChange>,
    pub(super) reserved: usize,
}

impl File {
    fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.unsynced);
        for (number, change) in dirty.iter().enumerate() {
            match change {
                UnsyncedChange::Length(length) => self.durable.resize(*length, 0),
                UnsyncedChange::Bytes {
                    at,
                    bytes,
                    has_failed: false,
                } => patch(&mut self.durable, *at, bytes),
                UnsyncedChange::Bytes { at, bytes, .. } => {
                    let end = at + bytes.len();
                    let replaces = |later: &UnsyncedChange| match later {
                        UnsyncedChange::Length(length) => *length < end,
                        UnsyncedChange::Bytes {
                            at: begin,
                            bytes,
                            has_failed: is_given_up,
                        } => !is_given_up && *begin < end && *at < begin + bytes.len(),
                    };
                    if !dirty[number + 1..].iter().any(replaces) {
                        self.unsynced.push(change.clone());
                    }
                }
            }
        }
    }

    fn fail_sync(&mut self) {
        for change in &mut self.unsynced {
            if let UnsyncedChange::Bytes {
                has_failed: is_given_up,
                ..
            } = change
            {
                *is_given_up = true;
            }
        }
    }

    /// Ends the process that wrote the file. Pages of a failed sync may have been read from the disk again.
    fn survive_process(&mut self, chance: &mut SeededRng) {
        if self.has_failed_sync() && chance.percent(50) {
            self.reload_failed();
        }
    }

    fn has_failed_sync(&self) -> bool {
        self.unsynced.iter().any(is_failed)
    }

    /// Reads the pages of a failed sync from the disk again. Returns whether there were any.
    pub(super) fn reload_failed(&mut self) -> bool {
        let has_any = self.has_failed_sync();
        if has_any {
            self.unsynced.retain(|change| !is_failed(change));
            self.content.clone_from(&self.durable);
            for change in &self.unsynced {
                match change {
                    UnsyncedChange::Bytes { at, bytes, .. } => patch(&mut self.content, *at, bytes),
                    UnsyncedChange::Length(length) => self.content.resize(*length, 0),
                }
            }
        }
        has_any
    }

    fn survive_power(&mut self, chance: &mut SeededRng) {
        let dirty = std::mem::take(&mut self.unsynced);
        let whole_until = match chance.below(4) {
            0 => Some(0),
            1 => Some(dirty.len()),
            2 => Some(chance.index(dirty.len() + 1)),
            _ => None,
        };
        let is_torn = chance.percent(50);
        for (number, change) in dirty.into_iter().enumerate() {
            // The write in which the beginning ends is kept in part.
            let is_whole = whole_until
                .filter(|until| *until != number || !is_torn)
                .map(|until| number < until);
            let mut keeps = || is_whole.unwrap_or_else(|| chance.percent(50));
            match change {
                UnsyncedChange::Length(length) => {
                    if keeps() {
                        self.durable.resize(length, 0);
                    }
                }
                UnsyncedChange::Bytes { at, bytes, .. } => {
                    let mut done = 0;
                    while done < bytes.len() {
                        let begin = at + done;
                        let count = (SECTOR - begin % SECTOR).min(bytes.len() - done);
                        if keeps() {
                            patch(&mut self.durable, begin, &bytes[done..done + count]);
                        }
                        done += count;
                    }
                }
            }
        }
        let missing = self.content.len().saturating_sub(self.durable.len());
        if missing > 0 && chance.percent(25) {
            let length = self.durable.len() + 1 + chance.index(missing);
            self.durable.resize(length, 0);
        }
        self.content.clone_from(&self.durable);
        self.reserved = 0;
    }

    /// Returns the space of the file.
    fn space(&self) -> usize {
        self.content
            .len()
            .max(self.reserved)
            .next_multiple_of(SECTOR)
    }
}

fn is_failed(change: &UnsyncedChange) -> bool {
    matches!(
        change,
        UnsyncedChange::Bytes {
            has_failed: true,
            ..
        }
    )
}

pub(super) fn patch(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

/// All files and names.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileTree {
    pub(super) numbered: BTreeMap<u64, File>,
    pub(super) names: BTreeMap<PathBuf, Entry>,
    /// Names that certainly survive.
    pub(super) durable: BTreeMap<PathBuf, Entry>,
    /// Changes of the names since their last sync.
    pub(super) unsynced: Vec<NameChange>,
}

impl FileTree {
    pub(crate) fn apply(&mut self, change: &DiskChange) {
        match change {
            DiskChange::Name(change) => {
                change.apply(&mut self.names);
                if let NameChange::Create {
                    entry: Entry::File(file),
                    ..
                } = change
                {
                    self.numbered.insert(*file, File::default());
                }
                self.unsynced.push(change.clone());
            }
            DiskChange::SyncNames { directory } => {
                let durable = &mut self.durable;
                self.unsynced.retain(|change| {
                    let is_synced = change.directory() == directory;
                    if is_synced {
                        change.apply(durable);
                    }
                    !is_synced
                });
            }
            DiskChange::Write { file, at, bytes } => {
                let file = self.file(*file);
                patch(&mut file.content, *at, bytes);
                file.unsynced.push(UnsyncedChange::Bytes {
                    at: *at,
                    bytes: bytes.clone(),
                    has_failed: false,
                });
            }
            DiskChange::SetLength { file, length } => {
                let file = self.file(*file);
                file.content.resize(*length, 0);
                file.reserved = file.reserved.min(*length);
                file.unsynced.push(UnsyncedChange::Length(*length));
            }
            DiskChange::Reserve { file, to } => {
                let file = self.file(*file);
                file.reserved = file.reserved.max(*to);
            }
            DiskChange::Sync { file } => self.file(*file).sync(),
            DiskChange::FailSync { file } => self.file(*file).fail_sync(),
        }
    }

    pub(super) fn survive_process(&mut self, chance: &mut SeededRng) {
        self.remove_unnamed();
        for file in self.numbered.values_mut() {
            file.survive_process(chance);
        }
    }

    pub(super) fn survive_power(&mut self, chance: &mut SeededRng) {
        let unsynced = std::mem::take(&mut self.unsynced);
        let kept_until = chance.index(unsynced.len() + 1);
        let has_journal = chance.percent(70);
        for (number, change) in unsynced.into_iter().enumerate() {
            if has_journal && number < kept_until || !has_journal && chance.percent(50) {
                change.apply(&mut self.durable);
            }
        }
        let durable = &self.durable;
        let is_there = |path: &Path| match path.parent() {
            Some(parent) if parent.parent().is_some() => durable.contains_key(parent),
            _ => true,
        };
        self.names = durable
            .iter()
            .filter(|(path, _)| is_there(path))
            .map(|(path, entry)| (path.clone(), *entry))
            .collect();
        self.durable.clone_from(&self.names);
        self.remove_unnamed();
        for file in self.numbered.values_mut() {
            file.survive_power(chance);
        }
    }

    /// Counts the changes that were lost at the end of a process.
    pub(super) fn count_losses(&self, before: &Self, mishaps: &mut FaultCounts) {
        if self.names != before.names {
            mishaps.count(Mishap::NamesLost);
        }
        for (number, file) in &self.numbered {
            let Some(whole) = before.numbered.get(number) else {
                continue;
            };
            if file.content == whole.content {
                continue;
            }
            let is_all = file.content == whole.durable;
            mishaps.count(if is_all {
                Mishap::BytesLost
            } else {
                Mishap::Torn
            });
        }
    }

    /// Removes files without a name: they end with the last process that has them open.
    pub(super) fn remove_unnamed(&mut self) {
        let made = self.unsynced.iter().filter_map(|change| match change {
            NameChange::Create { entry, .. } | NameChange::Link { entry, .. } => Some(entry),
            _ => None,
        });
        let entries = self.names.values().chain(self.durable.values());
        let named: Vec<_> = entries.chain(made).copied().collect();
        self.numbered
            .retain(|file, _| named.contains(&Entry::File(*file)));
    }

    pub(super) fn entry(&self, path: &Path) -> Option<Entry> {
        self.names.get(path).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Path> {
        self.names.keys().map(PathBuf::as_path)
    }

    pub(super) fn content(&self, file: u64) -> &[u8] {
        self.numbered.get(&file).map_or(&[], |file| &file.content)
    }

    /// Returns the space of a file.
    pub(super) fn space(&self, file: u64) -> usize {
        self.numbered.get(&file).map_or(0, File::space)
    }

    /// Returns the space of all files.
    pub(super) fn used(&self) -> usize {
        let files = self.names.values().map(|entry| match entry {
            Entry::Directory => 0,
            Entry::File(file) => self.space(*file),
        });
        files.sum()
    }

    fn file(&mut self, file: u64) -> &mut File {
        self.numbered.entry(file).or_default()
    }
}
