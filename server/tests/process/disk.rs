//! A disk and a clock with faults under a process: `tests/disk/disk.c`, put between it and its files.
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The disk of one data folder. Settings apply at once, also to a running process.
pub(crate) struct Disk {
    data: PathBuf,
    /// The control file, the trace, and the folder `platter`.
    control: TempDir,
}

impl Disk {
    /// A disk without faults under the files of `data`.
    pub(crate) fn under(data: &Path) -> Self {
        let control = TempDir::new().unwrap();
        std::fs::create_dir(control.path().join("platter")).unwrap();
        let disk = Self {
            data: data.to_path_buf(),
            control,
        };
        disk.set(&[]);
        disk
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
        let place = self.control.path();
        let mut text = format!("under {}\n", self.data.display());
        writeln!(text, "platter {}", place.join("platter").display()).unwrap();
        writeln!(text, "trace {}", place.join("trace").display()).unwrap();
        for (name, value) in faults {
            writeln!(text, "{name} {value}").unwrap();
        }
        let new = place.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, place.join("control")).unwrap();
    }

    /// The syncs and renames, in order: `sync NAME`, `rename NAME`, with `.` for the folder itself.
    #[allow(dead_code, reason = "not every test program looks at it")]
    pub(crate) fn trace(&self) -> Vec<String> {
        let trace = std::fs::read_to_string(self.control.path().join("trace")).unwrap_or_default();
        trace.lines().map(str::to_owned).collect()
    }

    /// A folder as a power failure would leave it now; its process has ended.
    #[allow(dead_code, reason = "not every test program looks at it")]
    pub(crate) fn after_power_failure(&self) -> TempDir {
        let platter = self.control.path().join("platter");
        let left = TempDir::new().unwrap();
        for line in std::fs::read_to_string(platter.join("names"))
            .unwrap()
            .lines()
        {
            let (inode, name) = line.split_once(' ').unwrap();
            let content = std::fs::read(platter.join(inode)).unwrap_or_default();
            std::fs::write(left.path().join(name), content).unwrap();
        }
        left
    }

    /// Returns the size of all files of the folder, counted as the preloaded library counts it.
    #[allow(dead_code, reason = "not every test program looks at it")]
    pub(crate) fn used_bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let entries = std::fs::read_dir(&self.data).unwrap();
        entries
            .filter_map(|entry| entry.ok()?.metadata().ok())
            .map(|file| (file.blocks() * 512).max(file.len().next_multiple_of(4096)))
            .sum()
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
            .args(["-shared", "-fPIC", "-O1", "-o"])
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
