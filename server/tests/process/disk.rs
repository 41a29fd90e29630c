//! A disk with faults under a process: `tests/disk/disk.c`, put between it and its files.
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The faults of one data folder. What is set holds at once, also for a process that runs.
pub(crate) struct Disk {
    data: PathBuf,
    control: TempDir,
}

impl Disk {
    /// A disk without faults under the files of `data`.
    pub(crate) fn under(data: &Path) -> Self {
        Self {
            data: data.to_path_buf(),
            control: TempDir::new().unwrap(),
        }
    }

    /// The environment of a process that has this disk.
    pub(crate) fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("LD_PRELOAD", library().to_path_buf()),
            ("STATESTORE_TEST_DISK", self.control.path().join("control")),
        ]
    }

    /// From now on it has exactly these faults; the source says which ones there are.
    pub(crate) fn set(&self, faults: &[(&str, u64)]) {
        let mut text = format!("under {}\n", self.data.display());
        for (name, value) in faults {
            writeln!(text, "{name} {value}").unwrap();
        }
        let new = self.control.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.control.path().join("control")).unwrap();
    }
}

/// Compiles it once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/disk/disk.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Another process may compile it at the same time.
        let own = folder.join(format!("disk-{}.so", std::process::id()));
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
            .args([own.as_os_str(), source.as_ref(), "-ldl".as_ref()])
            .stdin(Stdio::null())
            .output()
            .expect("a C compiler, `cc`");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let library = folder.join("disk.so");
        std::fs::rename(own, &library).unwrap();
        library
    })
}
