//! Files and names as processes see them, and the part of both that survives a power failure.
use crate::chance::Chance;
use crate::mishaps::{Mishap, Mishaps};
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
pub(crate) enum Change {
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
    GiveUp {
        file: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NameChange {
    Make {
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
            Self::Make { path, .. }
            | Self::Link { path, .. }
            | Self::Remove { path }
            | Self::Rename { to: path, .. } => path,
        };
        path.parent().unwrap_or(path)
    }

    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, Entry>) {
        match self {
            Self::Make { path, entry } | Self::Link { path, entry } => {
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
pub(super) enum Dirty {
    Bytes {
        at: usize,
        bytes: Vec<u8>,
        /// Whether a sync of these bytes has failed: no later sync writes them.
        is_given_up: bool,
    },
    Length(usize),
}

#[derive(Debug, Clone, Default)]
pub(super) struct File {
    /// Content as processes see it.
    pub(super) content: Vec<u8>,
    /// Content that certainly survives.
    pub(super) platter: Vec<u8>,
    pub(super) dirty: Vec<Dirty>,
    pub(super) reserved: usize,
}

impl File {
    fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        for (number, change) in dirty.iter().enumerate() {
            match change {
                Dirty::Length(length) => self.platter.resize(*length, 0),
                Dirty::Bytes {
                    at,
                    bytes,
                    is_given_up: false,
                } => patch(&mut self.platter, *at, bytes),
                Dirty::Bytes { at, bytes, .. } => {
                    let end = at + bytes.len();
                    let replaces = |later: &Dirty| match later {
                        Dirty::Length(length) => *length < end,
                        Dirty::Bytes {
                            at: begin,
                            bytes,
                            is_given_up,
                        } => !is_given_up && *begin < end && *at < begin + bytes.len(),
                    };
                    if !dirty[number + 1..].iter().any(replaces) {
                        self.dirty.push(change.clone());
                    }
                }
            }
        }
    }

    fn give_up(&mut self) {
        for change in &mut self.dirty {
            if let Dirty::Bytes { is_given_up, .. } = change {
                *is_given_up = true;
            }
        }
    }

    /// Ends the process that wrote the file. Pages of a failed sync may have been read from the disk again.
    fn survive_process(&mut self, chance: &mut Chance) {
        if self.has_given_up() && chance.percent(50) {
            self.lose_given_up();
        }
    }

    fn has_given_up(&self) -> bool {
        self.dirty.iter().any(is_given_up)
    }

    /// Reads the pages of a failed sync from the disk again. Returns whether there were any.
    pub(super) fn lose_given_up(&mut self) -> bool {
        let has_any = self.has_given_up();
        if has_any {
            self.dirty.retain(|change| !is_given_up(change));
            self.content.clone_from(&self.platter);
            for change in &self.dirty {
                match change {
                    Dirty::Bytes { at, bytes, .. } => patch(&mut self.content, *at, bytes),
                    Dirty::Length(length) => self.content.resize(*length, 0),
                }
            }
        }
        has_any
    }

    fn survive_power(&mut self, chance: &mut Chance) {
        let dirty = std::mem::take(&mut self.dirty);
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
                Dirty::Length(length) => {
                    if keeps() {
                        self.platter.resize(length, 0);
                    }
                }
                Dirty::Bytes { at, bytes, .. } => {
                    let mut done = 0;
                    while done < bytes.len() {
                        let begin = at + done;
                        let count = (SECTOR - begin % SECTOR).min(bytes.len() - done);
                        if keeps() {
                            patch(&mut self.platter, begin, &bytes[done..done + count]);
                        }
                        done += count;
                    }
                }
            }
        }
        let missing = self.content.len().saturating_sub(self.platter.len());
        if missing > 0 && chance.percent(25) {
            let length = self.platter.len() + 1 + chance.index(missing);
            self.platter.resize(length, 0);
        }
        self.content.clone_from(&self.platter);
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

fn is_given_up(change: &Dirty) -> bool {
    matches!(
        change,
        Dirty::Bytes {
            is_given_up: true,
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
pub(crate) struct Files {
    pub(super) numbered: BTreeMap<u64, File>,
    pub(super) names: BTreeMap<PathBuf, Entry>,
    /// Names that certainly survive.
    pub(super) durable: BTreeMap<PathBuf, Entry>,
    /// Changes of the names since their last sync.
    pub(super) unsynced: Vec<NameChange>,
}

impl Files {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Name(change) => {
                change.apply(&mut self.names);
                if let NameChange::Make {
                    entry: Entry::File(file),
                    ..
                } = change
                {
                    self.numbered.insert(*file, File::default());
                }
                self.unsynced.push(change.clone());
            }
            Change::SyncNames { directory } => {
                let durable = &mut self.durable;
                self.unsynced.retain(|change| {
                    let is_synced = change.directory() == directory;
                    if is_synced {
                        change.apply(durable);
                    }
                    !is_synced
                });
            }
            Change::Write { file, at, bytes } => {
                let file = self.file(*file);
                patch(&mut file.content, *at, bytes);
                file.dirty.push(Dirty::Bytes {
                    at: *at,
                    bytes: bytes.clone(),
                    is_given_up: false,
                });
            }
            Change::SetLength { file, length } => {
                let file = self.file(*file);
                file.content.resize(*length, 0);
                file.reserved = file.reserved.min(*length);
                file.dirty.push(Dirty::Length(*length));
            }
            Change::Reserve { file, to } => {
                let file = self.file(*file);
                file.reserved = file.reserved.max(*to);
            }
            Change::Sync { file } => self.file(*file).sync(),
            Change::GiveUp { file } => self.file(*file).give_up(),
        }
    }

    pub(super) fn survive_process(&mut self, chance: &mut Chance) {
        self.forget_nameless();
        for file in self.numbered.values_mut() {
            file.survive_process(chance);
        }
    }

    pub(super) fn survive_power(&mut self, chance: &mut Chance) {
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
        self.forget_nameless();
        for file in self.numbered.values_mut() {
            file.survive_power(chance);
        }
    }

    /// Counts the changes that were lost at the end of a process.
    pub(super) fn count_losses(&self, before: &Self, mishaps: &mut Mishaps) {
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
            let is_all = file.content == whole.platter;
            mishaps.count(if is_all {
                Mishap::BytesLost
            } else {
                Mishap::Torn
            });
        }
    }

    /// Removes files without a name: they end with the last process that has them open.
    pub(super) fn forget_nameless(&mut self) {
        let made = self.unsynced.iter().filter_map(|change| match change {
            NameChange::Make { entry, .. } | NameChange::Link { entry, .. } => Some(entry),
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
