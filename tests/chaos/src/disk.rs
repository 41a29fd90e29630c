//! The disk and the clock under a process: `tests/disk/disk.c`.
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The disk under a folder, and the clock of the processes that use it. Faults take effect immediately.
#[derive(Debug)]
pub struct Disk {
    library: PathBuf,
    data: TempDir,
    control: TempDir,
}

impl Disk {
    /// Creates a disk without faults under a new folder.
    pub fn new(library: &Path) -> Self {
        let disk = Self {
            library: library.to_path_buf(),
            data: TempDir::new().unwrap(),
            control: TempDir::new().unwrap(),
        };
        disk.set(&[]);
        disk
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.data.path()
    }

    /// Returns the environment of a process that uses this disk.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("LD_PRELOAD", self.library.clone()),
            ("STATESTORE_TEST_DISK", self.control.path().join("control")),
        ]
    }

    /// Sets exactly these faults from now on; the source of the library lists their names.
    pub fn set(&self, faults: &[(&str, u64)]) {
        let place = self.control.path();
        let mut text = format!("under {}\n", self.data.path().display());
        for (name, value) in faults {
            writeln!(text, "{name} {value}").unwrap();
        }
        let new = place.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, place.join("control")).unwrap();
    }
}
