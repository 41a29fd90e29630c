//! File systems that can be frozen: what is written then waits, and the process that writes still has its connections.
use crate::hosts::run;
use rustix::process::geteuid;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Size of a file system, which takes no more space than is used of it.
const BYTES: u64 = 512 << 20;

/// A file system in a file. The mount belongs to the test's own namespace.
pub(crate) struct Disk {
    folder: TempDir,
}

impl Disk {
    /// Creates a file system; `None` without root, which is required to mount it.
    pub(crate) fn new() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(BYTES).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        let disk = Self { folder };
        std::fs::create_dir(disk.mount_point()).unwrap();
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(disk.mount_point()));
        Some(disk)
    }

    fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// An empty folder on it.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.mount_point().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Lets everything wait that writes.
    pub(crate) fn freeze(&self) {
        fsfreeze("--freeze", &self.mount_point());
    }

    /// Lets writes go on.
    pub(crate) fn thaw(&self) {
        fsfreeze("--unfreeze", &self.mount_point());
    }
}

fn fsfreeze(how: &str, mounted: &Path) {
    run(Command::new("fsfreeze").arg(how).arg(mounted));
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A frozen one could not be unmounted. Usually it is not frozen, which is an error then.
        let mut thaw = Command::new("fsfreeze");
        let _ = thaw.arg("--unfreeze").arg(self.mount_point()).output();
        let _ = Command::new("umount").arg(self.mount_point()).output();
    }
}
