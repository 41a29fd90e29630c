//! The memory that the process may use.
use std::fs;
use std::path::{Path, PathBuf};

/// Assumed memory where the system does not state it, in bytes.
const DEFAULT_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Returns the bytes of memory that this process may use: the machine's, or less if its control groups (version 1 or 2)
/// or its resource limits allow less.
pub fn available_memory() -> u64 {
    let system = system_limit(Path::new("/"));
    let process = [
        rustix::process::Resource::As,
        rustix::process::Resource::Data,
    ]
    .into_iter()
    .filter_map(|resource| rustix::process::getrlimit(resource).current);
    system
        .into_iter()
        .chain(process)
        .min()
        .unwrap_or(DEFAULT_BYTES)
}

/// Limits of memory of this process, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryLimits {
    /// Limit of memory in use.
    pub(crate) available: u64,
    /// Limit of private memory, in use or not (`ulimit -d`).
    pub(crate) data: Option<u64>,
    /// Limit of the address space (`ulimit -v`).
    pub(crate) address_space: Option<u64>,
}

impl MemoryLimits {
    /// Looks up the limits of this process.
    pub(crate) fn read() -> Self {
        let limit = |resource| rustix::process::getrlimit(resource).current;
        Self {
            available: available_memory(),
            data: limit(rustix::process::Resource::Data),
            address_space: limit(rustix::process::Resource::As),
        }
    }
}

/// Returns the memory available according to the files below `root`.
fn system_limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        // `0::/path` for version 2, `5:cpu,memory:/path` for version 1
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let (mount, file) = if controllers.is_empty() {
            ("sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            return None;
        };
        group_limit(&root.join(mount), group, file)
    });
    limits.chain(machine_memory(root)).min()
}

/// Returns the lowest limit of a group and its parents. In a container the group may not be visible by its name; its
/// own limit is then that of the root.
fn group_limit(mount: &Path, group: &str, file: &str) -> Option<u64> {
    let mut folder: PathBuf = mount.to_path_buf();
    let names = group
        .split('/')
        .filter(|name| !matches!(*name, "" | "." | ".."));
    let folders = std::iter::once(folder.clone()).chain(names.map(|name| {
        folder.push(name);
        folder.clone()
    }));
    folders
        .filter_map(|folder| fs::read_to_string(folder.join(file)).ok())
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result for these files.
    fn with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        system_limit(root.path())
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:        8000 kB\nMemFree: 1 kB\n");

    #[test]
    fn without_control_groups_the_memory_of_the_machine_counts() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[MACHINE]), Some(8_192_000));
        let unlimited = [
            MACHINE,
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
        ];
        assert_eq!(with(&unlimited), Some(8_192_000));
    }

    #[test]
    fn the_lowest_limit_of_the_group_and_its_parents_counts() {
        let groups = [
            MACHINE,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "5000000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ];
        assert_eq!(with(&groups), Some(5_000_000));
        let in_container = [
            MACHINE,
            ("proc/self/cgroup", "0::/not/visible\n"),
            ("sys/fs/cgroup/memory.max", "4000000\n"),
        ];
        assert_eq!(with(&in_container), Some(4_000_000));
    }

    #[test]
    fn control_groups_version_1_are_supported() {
        let groups = [
            MACHINE,
            (
                "proc/self/cgroup",
                "4:cpu:/x\n5:hugetlb,memory:/docker/1\n0::/\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
                "3000000\n",
            ),
        ];
        assert_eq!(with(&groups), Some(3_000_000));
    }

    #[test]
    fn this_machine_reports_its_memory() {
        assert!(available_memory() > 1024 * 1024);
    }
}
