//! The ends of the server, the faults of its disk, and the state that the next process would find.
use super::durable_state::start;
use super::expected_records::{LoadingKeyspace, StoredRecords};
use crate::disk::{DiskFaults, ProcessEnd};
use crate::faults::Mishap;
use crate::simulation::{Event, Simulation};
use statestored_store::keyspace::EmbeddedKeyspace;

/// Share of the work on the disk after which an end of the process in the middle of it is checked, in percent.
const PROBE_PERCENT: u64 = 4;

impl Simulation {
    /// Enters the pending jobs of the disk, and a fault in the middle of the last work.
    pub(super) fn schedule_jobs_and_faults(&mut self) {
        let now_ms = self.now_ms();
        let drive = self.server.durable.disk.clone();
        let process = drive.process();
        for number in drive.take_started_jobs() {
            let at_ms = now_ms + self.chance.log_uniform(1, self.scenario.job_ms);
            self.schedule(at_ms, Event::Job { process, number });
        }
        let how = self.chance.pick(&[
            ProcessEnd::PowerFailure,
            ProcessEnd::PowerFailure,
            ProcessEnd::Killed,
        ]);
        let crashes = self.scenario.crash_every_ms > 0;
        if crashes && self.has_fault(self.scenario.crash_during_work_percent) {
            if let Some(cut_us) = drive.random_time() {
                let event = Event::CrashAt {
                    process,
                    cut_us,
                    how,
                };
                self.schedule(cut_us / 1_000, event);
            }
        } else if self.chance.percent(PROBE_PERCENT)
            && let Some(cut_us) = drive.random_time()
        {
            let event = Event::CheckCrashState {
                process,
                cut_us,
                how,
            };
            self.schedule(cut_us / 1_000, event);
        }
    }

    /// Checks the state that the next process would find if this one ended.
    pub(crate) fn check_crash_state(&mut self, process: u64, cut_us: u64, how: ProcessEnd) {
        let durable = &self.server.durable;
        if process != durable.disk.process() {
            return;
        }
        self.probes += 1;
        let copy = durable.disk.after_end(how, cut_us);
        let loading = LoadingKeyspace {
            keyspace: EmbeddedKeyspace::new(&self.service_config().keyspace()),
            now: self.server_now(),
            records: StoredRecords::default(),
        };
        let result = start(&copy, self.scenario.log_bytes, loading);
        let judged = match &result {
            Ok(started) => durable.expected.check(&started.loading.records).map(|_| ()),
            Err(error) => Err(format!("it would not start: {error}")),
        };
        copy.end(ProcessEnd::Killed, 0);
        if let Err(what) = judged {
            self.violated(format!("after {how:?} at {cut_us} us: {what}"));
        }
    }

    /// Ends the process in the middle of a change of the disk.
    pub(crate) fn crash_at(&mut self, process: u64, cut_us: u64, how: ProcessEnd) {
        if process == self.server.durable.disk.process() {
            self.fault_counts.count(Mishap::Midst);
            self.crash_server(how, cut_us);
            self.start_later();
        }
    }

    /// Crashes the server, or stops it in order.
    pub(crate) fn stop_or_crash_server(&mut self) {
        let how = self
            .chance
            .pick(&[ProcessEnd::PowerFailure, ProcessEnd::Killed]);
        let cut_us = self.now_ms() * 1_000 + self.chance.below(1_000);
        let is_durable = self.scenario.is_durable;
        if !(is_durable && self.chance.percent(20) && self.stop_server()) {
            self.crash_server(how, cut_us);
        }
        self.start_later();
    }

    fn start_later(&mut self) {
        let at_ms = self.now_ms() + self.chance.log_uniform(1, 3_000);
        self.schedule(at_ms, Event::StartServer);
    }

    /// Ends the storage of a process that has ended.
    pub(super) fn end_storage(&mut self, how: ProcessEnd, cut_us: u64) {
        let now_ms = self.now_ms();
        let durable = &mut self.server.durable;
        // The drive ends first, so that no further call has an effect.
        durable.disk.end(how, cut_us);
        durable.starting = None;
        durable.committer = None;
        self.server.end_read_only(now_ms);
    }

    /// Stops the process in order, if no work on the disk is pending.
    pub(super) fn stop_server(&mut self) -> bool {
        let now = self.server_now();
        if !self.server.durable.is_idle() {
            return false;
        }
        let Some(hub) = &mut self.server.hub else {
            return false;
        };
        hub.shut_down(now);
        self.settle();
        let durable = &mut self.server.durable;
        if !durable.is_idle() {
            return false;
        }
        self.fault_counts.count(Mishap::Stopped);
        self.trace_event(|| "server: stops".to_owned());
        let durable = &mut self.server.durable;
        durable.disk.begin(now.mono_ms);
        durable.committer = None;
        let mut cut_us = durable.disk.end_us();
        let mut how = ProcessEnd::Killed;
        if self.chance.percent(50) {
            how = ProcessEnd::PowerFailure;
            cut_us = durable.disk.random_time().unwrap_or(cut_us);
        }
        self.crash_server(how, cut_us);
        true
    }

    /// Causes a temporary fault of the disk.
    pub(crate) fn break_disk(&mut self) {
        if self.is_healed || !self.scenario.is_durable {
            return;
        }
        let mut faults = self.usual_faults();
        if self.chance.percent(50) {
            faults.free_bytes = Some(self.chance.index(2_000));
        } else {
            faults.error_percent = self.chance.pick(&[3, 20, 100]);
        }
        self.trace_event(|| format!("disk: {faults:?}"));
        let durable = &mut self.server.durable;
        durable.disk.set_faults(faults);
        durable.faults += 1;
        let number = durable.faults;
        let now_ms = self.now_ms();
        let at_ms = now_ms + self.chance.log_uniform(20, 4_000);
        self.schedule(at_ms, Event::RepairDisk(number));
        self.schedule_recurring(self.scenario.break_disk_every_ms, Event::BreakDisk);
    }

    pub(crate) fn repair_disk(&mut self, number: u64) {
        if number == self.server.durable.faults {
            let faults = self.usual_faults();
            self.server.durable.disk.set_faults(faults);
        }
    }

    /// Ends the faults of the disk.
    pub(crate) fn heal_disk(&mut self) {
        let faults = self.usual_faults();
        self.server.durable.disk.set_faults(faults);
    }

    fn usual_faults(&self) -> DiskFaults {
        let mut faults = self.scenario.disk;
        if self.is_healed {
            faults.sync_ms = 10;
        }
        faults
    }
}
