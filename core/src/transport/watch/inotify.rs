//! File watches of the kernel.
use super::links::deciding_entries;
use futures_core::Stream;
use inotify::{EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

/// Size of the buffer for one read of events; the kernel merges repeated events.
const BUFFER_BYTES: usize = 4096;

/// A watch of the directories that determine the target of one path. The file itself is not watched: a rename replaces it by
/// another file, which a watch of the old one does not report.
#[derive(Debug)]
pub(super) struct InotifyWatch {
    path: PathBuf,
    events: EventStream<Vec<u8>>,
    /// The relevant names in each directory.
    names: HashMap<WatchDescriptor, HashSet<OsString>>,
}

impl InotifyWatch {
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let mut this = Self {
            path,
            events: Inotify::init()?.into_event_stream(vec![0; BUFFER_BYTES])?,
            names: HashMap::new(),
        };
        this.update_watches()?;
        Ok(this)
    }

    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let next = poll_fn(|context| Pin::new(&mut self.events).poll_next(context)).await;
            let event = next.unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()))?;
            let matters = match (self.names.get(&event.wd), &event.name) {
                (Some(names), Some(name)) => names.contains(name),
                // The directory itself was moved or removed.
                (Some(_), None) => true,
                (None, _) => event.mask.contains(EventMask::Q_OVERFLOW),
            };
            if matters {
                self.update_watches()?;
                return Ok(());
            }
        }
    }

    /// Watches the directories that are relevant now, and no others.
    fn update_watches(&mut self) -> io::Result<()> {
        let mask = WatchMask::CREATE
            | WatchMask::CLOSE_WRITE
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::DELETE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        let mut watches = self.events.watches();
        loop {
            let mut names: HashMap<WatchDescriptor, HashSet<OsString>> = HashMap::new();
            for entry in deciding_entries(&self.path)? {
                // A directory that is already watched keeps its descriptor.
                match watches.add(&entry.directory, mask) {
                    Ok(descriptor) => names.entry(descriptor).or_default().insert(entry.name),
                    // It was removed since the walk; its parent reports when it is created again.
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                        ) =>
                    {
                        continue;
                    }
                    Err(error) => return Err(error),
                };
            }
            let settled = names == self.names && !names.is_empty();
            for (descriptor, _) in std::mem::replace(&mut self.names, names) {
                if !self.names.contains_key(&descriptor) {
                    // The kernel has already removed the watch if its directory is gone.
                    let _ = watches.remove(descriptor);
                }
            }
            // Changes between the walk and the new watches were not reported, so the path is walked again.
            if settled {
                return Ok(());
            }
        }
    }
}
