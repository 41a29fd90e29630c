//! Memory and file descriptors of processes.
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Resources of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Resident memory.
    pub rss_kib: u64,
    /// Open file descriptors.
    pub fds: u64,
}

/// Reads the resources of a process from the system; `None` if it has ended.
pub fn resource_usage(pid: Pid) -> Option<ResourceUsage> {
    let place = format!("/proc/{}", pid.as_raw_nonzero());
    let status = std::fs::read_to_string(format!("{place}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let rss_kib = line.trim().trim_end_matches(" kB").parse().ok()?;
    let fds = std::fs::read_dir(format!("{place}/fd")).ok()?.count();
    Some(ResourceUsage {
        rss_kib,
        fds: u64::try_from(fds).ok()?,
    })
}

/// Allowed growth of memory from the second to the last quarter of a run: a tenth, plus this.
const MAX_GROWTH_KIB: u64 = 8 * 1024;

/// Allowed growth of the number of file descriptors from beginning to end: the storage has one log more or less.
pub const MAX_FD_GROWTH: u64 = 4;

/// The recorded resources, by the name of the process.
#[derive(Debug)]
pub struct ResourceMonitor {
    started: Instant,
    usage: BTreeMap<String, Vec<(Duration, ResourceUsage)>>,
    /// Resources of each process when everything was in place.
    pub initial: BTreeMap<String, ResourceUsage>,
}

impl Default for ResourceMonitor {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            usage: BTreeMap::new(),
            initial: BTreeMap::new(),
        }
    }
}

impl ResourceMonitor {
    /// Records the resources of these processes.
    pub fn measure(&mut self, who: impl Iterator<Item = (String, Pid)>) {
        for (name, pid) in who {
            if let Some(holds) = resource_usage(pid) {
                self.initial.entry(name.clone()).or_insert(holds);
                let all = self.usage.entry(name).or_default();
                all.push((self.started.elapsed(), holds));
            }
        }
    }

    /// Returns the number of records.
    pub fn rounds(&self) -> usize {
        self.usage.values().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns all records, by process.
    pub fn all(&self) -> &BTreeMap<String, Vec<(Duration, ResourceUsage)>> {
        &self.usage
    }

    /// Returns for each process its memory in the second and in the last quarter of the run, and whether it grew by more than it
    /// may.
    pub fn growth(&self) -> impl Iterator<Item = (&str, u64, u64, bool)> {
        let lasted = self.started.elapsed();
        self.usage.iter().filter_map(move |(name, all)| {
            let within = |from: u32, to: u32| {
                let is_in = |at: &Duration| *at * 4 >= lasted * from && *at * 4 < lasted * to;
                let found = all.iter().filter(|(at, _)| is_in(at));
                median(found.map(|(_, holds)| holds.rss_kib).collect())
            };
            let (before, after) = (within(1, 2)?, within(3, 4)?);
            let may = before + before / 10 + MAX_GROWTH_KIB;
            Some((name.as_str(), before, after, after <= may))
        })
    }

    /// Returns the processes that have more file descriptors now than at the beginning, by more than they may.
    pub fn excess(&self, who: impl Iterator<Item = (String, Pid)>) -> Vec<String> {
        who.filter_map(|(name, pid)| {
            let (first, now) = (self.initial.get(&name)?.fds, resource_usage(pid)?.fds);
            (now > first + MAX_FD_GROWTH)
                .then(|| format!("{name} has {now} file descriptors, {first} at the beginning"))
        })
        .collect()
    }
}

fn median(mut all: Vec<u64>) -> Option<u64> {
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_the_own_process_is_measured() {
        let pid = rustix::process::getpid();
        let before = resource_usage(pid).unwrap();
        assert!(before.rss_kib > 100 && before.fds > 2, "{before:?}");
        let mut census = ResourceMonitor::default();
        census.measure([("me".to_owned(), pid)].into_iter());
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null")).collect();
        assert_eq!(census.excess([("me".to_owned(), pid)].into_iter()).len(), 1);
        drop(files);
        assert_eq!(census.rounds(), 1);
    }
}
