//! The resident memory of the process, as counted by the system.
#[cfg(target_os = "linux")]
use std::fs::File;

/// Memory of the process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// All resident memory.
    pub(crate) bytes: u64,
    /// Resident memory that no file backs: heap and stacks.
    pub(crate) anonymous_bytes: u64,
    /// Private memory, resident or not; `ulimit -d` limits it.
    pub(crate) data_bytes: u64,
    /// Address space; `ulimit -v` limits it.
    pub(crate) virtual_bytes: u64,
}

/// A reader of the resident memory of this process. The file stays open, so that no descriptor is needed later.
#[derive(Debug)]
pub(crate) struct ResidentMemory {
    #[cfg(target_os = "linux")]
    statm: Option<File>,
}

impl ResidentMemory {
    pub(crate) fn open() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            statm: File::open("/proc/self/statm").ok(),
        }
    }

    /// Returns the resident memory, `None` on systems that do not report it. Takes some microseconds.
    #[cfg(target_os = "linux")]
    pub(crate) fn read(&self) -> Option<MemoryUsage> {
        use std::os::unix::fs::FileExt;
        let mut text = [0; 128];
        let length = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        // proc_pid_statm(5): size, resident, shared, text, lib, data, in pages.
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let mut pages = text.split(' ').map_while(|it| it.parse::<u64>().ok());
        let (size, resident, shared) = (pages.next()?, pages.next()?, pages.next()?);
        let data = pages.nth(2)?;
        let page = rustix::param::page_size() as u64;
        Some(MemoryUsage {
            bytes: resident * page,
            anonymous_bytes: resident.saturating_sub(shared) * page,
            data_bytes: data * page,
            virtual_bytes: size * page,
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn read(&self) -> Option<MemoryUsage> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_becomes_resident_when_it_is_written() {
        let memory = ResidentMemory::open();
        let before = memory.read().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = memory.read().unwrap();
        assert!(after.anonymous_bytes > before.anonymous_bytes + (32 << 20));
        assert!(after.bytes >= after.anonymous_bytes);
        assert!(after.data_bytes > before.data_bytes + (32 << 20));
        assert!(after.virtual_bytes >= after.data_bytes);
        drop(block);
    }
}
