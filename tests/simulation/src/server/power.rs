//! The ends of the server, the faults of its disk, and the state that the next process would find.
use super::durable::start;
use super::kept::{Loading, Records};
use crate::disk::{End, Faults};
use crate::mishaps::Mishap;
use crate::world::{Event, World};
use statestored::keyspace::Embedded;

/// Share of the work on the disk after which an end of the process in the middle of it is checked, in percent.
const PROBE_PERCENT: u64 = 4;

impl World {
    /// Enters the pending jobs of the disk, and a fault in the middle of the last work.
    pub(super) fn expect_faults(&mut self) {
        let now_ms = self.now_ms();
        let drive = self.server.durable.drive.clone();
        let process = drive.process();
        for number in drive.begun() {
            let at_ms = now_ms + self.chance.spread(1, self.scenario.job_ms);
            self.at(at_ms, Event::Job { process, number });
        }
        let how = self.chance.pick(&[End::Power, End::Power, End::Process]);
        let crashes = self.scenario.crash_every_ms > 0;
        if crashes && self.has_fault(self.scenario.aim_percent) {
            if let Some(cut_us) = drive.moment() {
                let event = Event::CrashAt {
                    process,
                    cut_us,
                    how,
                };
                self.at(cut_us / 1_000, event);
            }
        } else if self.chance.percent(PROBE_PERCENT)
            && let Some(cut_us) = drive.moment()
        {
            let event = Event::Probe {
                process,
                cut_us,
                how,
            };
            self.at(cut_us / 1_000, event);
        }
    }

    /// Checks the state that the next process would find if this one ended.
    pub(crate) fn probe(&mut self, process: u64, cut_us: u64, how: End) {
        let durable = &self.server.durable;
        if process != durable.drive.process() {
            return;
        }
        self.probes += 1;
        let copy = durable.drive.if_ended(how, cut_us);
        let loading = Loading {
            keyspace: Embedded::new(&self.service_config().keyspace()),
            now: self.server_now(),
            found: Records::default(),
        };
        let result = start(&copy, self.scenario.log_bytes, loading);
        let judged = match &result {
            Ok(started) => durable.kept.judge(&started.loading.found).map(|_| ()),
            Err(error) => Err(format!("it would not start: {error}")),
        };
        copy.end(End::Process, 0);
        if let Err(what) = judged {
            self.violated(format!("after {how:?} at {cut_us} us: {what}"));
        }
    }

    /// Ends the process in the middle of a change of the disk.
    pub(crate) fn crash_at(&mut self, process: u64, cut_us: u64, how: End) {
        if process == self.server.durable.drive.process() {
            self.mishaps.count(Mishap::Midst);
            self.crash_server(how, cut_us);
            self.start_later();
        }
    }

    /// Crashes the server, or stops it in order.
    pub(crate) fn lose_server(&mut self) {
        let how = self.chance.pick(&[End::Power, End::Process]);
        let cut_us = self.now_ms() * 1_000 + self.chance.below(1_000);
        let is_durable = self.scenario.is_durable;
        if !(is_durable && self.chance.percent(20) && self.stop_server()) {
            self.crash_server(how, cut_us);
        }
        self.start_later();
    }

    fn start_later(&mut self) {
        let at_ms = self.now_ms() + self.chance.spread(1, 3_000);
        self.at(at_ms, Event::StartServer);
    }

    /// Ends the storage of a process that has ended.
    pub(super) fn end_storage(&mut self, how: End, cut_us: u64) {
        let now_ms = self.now_ms();
        let durable = &mut self.server.durable;
        // The drive ends first, so that no further call has an effect.
        durable.drive.end(how, cut_us);
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
        self.mishaps.count(Mishap::Stopped);
        self.note(|| "server: stops".to_owned());
        let durable = &mut self.server.durable;
        durable.drive.begin(now.mono_ms);
        durable.committer = None;
        let mut cut_us = durable.drive.end_us();
        let mut how = End::Process;
        if self.chance.percent(50) {
            how = End::Power;
            cut_us = durable.drive.moment().unwrap_or(cut_us);
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
            faults.room = Some(self.chance.index(2_000));
        } else {
            faults.error_percent = self.chance.pick(&[3, 20, 100]);
        }
        self.note(|| format!("disk: {faults:?}"));
        let durable = &mut self.server.durable;
        durable.drive.set_faults(faults);
        durable.faults += 1;
        let number = durable.faults;
        let now_ms = self.now_ms();
        let at_ms = now_ms + self.chance.spread(20, 4_000);
        self.at(at_ms, Event::MendDisk(number));
        self.again(self.scenario.break_disk_every_ms, Event::BreakDisk);
    }

    pub(crate) fn mend_disk(&mut self, number: u64) {
        if number == self.server.durable.faults {
            let faults = self.usual_faults();
            self.server.durable.drive.set_faults(faults);
        }
    }

    /// Ends the faults of the disk.
    pub(crate) fn heal_disk(&mut self) {
        let faults = self.usual_faults();
        self.server.durable.drive.set_faults(faults);
    }

    fn usual_faults(&self) -> Faults {
        let mut faults = self.scenario.disk;
        if self.is_healed {
            faults.sync_ms = 10;
        }
        faults
    }
}
