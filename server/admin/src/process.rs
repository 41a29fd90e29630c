//! Figures of the operating system about this process (`proc(5)`).
use super::exposition::Exposition;
use super::exposition::MetricType::{Counter, Gauge};
use std::fs;

/// Resources of a process. Values that the system does not provide are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Process {
    pub(super) cpu_seconds: Option<f64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
    pub(super) start_seconds: Option<f64>,
}

impl Process {
    /// Reads the current figures of this process.
    pub(super) fn read() -> Self {
        let Ok(stat) = fs::read_to_string("/proc/self/stat") else {
            return Self::default();
        };
        // The name before it may contain any character.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<u64> = fields
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "these are times of a process")]
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        // Fields are counted as in proc_pid_stat(5), whose third one is the first one here.
        let field = |number: usize| fields.get(number - 3).copied();
        let cpu = field(14).zip(field(15)).map(|(user, system)| user + system);
        let resident = field(24).map(|pages| pages * rustix::param::page_size() as u64);
        let since_boot = field(22).map(seconds);
        Self {
            cpu_seconds: cpu.map(seconds),
            resident_bytes: resident,
            virtual_bytes: field(23),
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|it| it.count() as u64),
            max_fds: max_fds(),
            start_seconds: since_boot.zip(booted()).map(|(since, at)| at + since),
        }
    }

    /// Appends the metrics.
    pub(super) fn append_to(&self, text: &mut Exposition) {
        let mut tell = |name, kind, help, value: Option<f64>| {
            if let Some(value) = value {
                text.family(name, kind, help).sample(&[], value);
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "bytes of a process")]
        let exact = |value: Option<u64>| value.map(|value| value as f64);
        tell(
            "process_cpu_seconds_total",
            Counter,
            "Processor time of the process.",
            self.cpu_seconds,
        );
        tell(
            "process_resident_memory_bytes",
            Gauge,
            "Resident memory of the process.",
            exact(self.resident_bytes),
        );
        tell(
            "process_virtual_memory_bytes",
            Gauge,
            "Address space of the process.",
            exact(self.virtual_bytes),
        );
        tell(
            "process_open_fds",
            Gauge,
            "Open files and connections.",
            exact(self.open_fds),
        );
        tell(
            "process_max_fds",
            Gauge,
            "Maximum number of open files and connections.",
            exact(self.max_fds),
        );
        tell(
            "process_start_time_seconds",
            Gauge,
            "When the process was started, since the Unix epoch.",
            self.start_seconds,
        );
    }
}

fn max_fds() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the time when the machine was started, in seconds since the Unix epoch.
fn booted() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn process_metrics_are_read_from_the_system() {
        let process = Process::read();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        let started = process.start_seconds.unwrap();
        assert!(started < now + 2.0 && started > now - 3600.0, "{started}");
        assert!(process.resident_bytes.unwrap() > 100_000);
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.open_fds.unwrap() >= 3);
        assert!(process.max_fds >= process.open_fds);
        assert!(process.cpu_seconds.unwrap() >= 0.0);
    }
}
