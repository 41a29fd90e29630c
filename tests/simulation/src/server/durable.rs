//! The server's storage: the real storage and the real group commit, on the simulated disk and at simulated times.
use super::kept::{Kept, Loading, Records};
use crate::disk::{Drive, End};
use crate::mishaps::Mishap;
use crate::world::{Event, World};
use statestored::keyspace::Embedded;
use statestored::storage::group_commit::{Achieved, GroupCommit, Waiting, Weighed};
use statestored::storage::{Batch, Storage as _, StorageError};

/// A process that has read its files.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) loading: Loading,
    commits: GroupCommit,
    is_full: bool,
}

/// State of the committer's thread in a real server.
#[derive(Debug)]
pub(super) struct Committer {
    commits: GroupCommit,
    waiting: Waiting,
    /// Whether the committer is working; it takes no further work meanwhile.
    is_at_work: bool,
    /// The result, once the disk is ready.
    outcome: Option<Result<Achieved, StorageError>>,
    /// Number of times that the committer took work.
    turn: u64,
}

/// The disk, its users, and its expected contents.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) drive: Drive,
    pub(super) kept: Kept,
    pub(super) starting: Option<Started>,
    pub(super) committer: Option<Committer>,
    /// Number of temporary faults of the disk.
    pub(super) faults: u64,
}

impl Drop for Durable {
    fn drop(&mut self) {
        // Jobs hold a reference to the disk, which holds the jobs.
        self.drive.end(End::Process, 0);
    }
}

impl Durable {
    pub(super) fn new(drive: Drive) -> Self {
        Self {
            drive,
            kept: Kept::default(),
            starting: None,
            committer: None,
            faults: 0,
        }
    }

    pub(super) fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// Accepts a batch.
    pub(super) fn submit(&mut self, sequence: u64, batch: Batch) {
        if let Some(committer) = &mut self.committer {
            committer.waiting.push(Weighed::from(batch.clone()));
        }
        self.kept.push(sequence, batch);
    }

    /// Returns the size of the batches that wait to be committed or are being committed.
    pub(super) fn waiting_bytes(&self) -> usize {
        let committer = self.committer.as_ref();
        committer.map_or(0, |committer| committer.waiting.bytes())
    }

    /// Whether no work on the disk is pending.
    pub(super) fn is_idle(&self) -> bool {
        let committer = self.committer.as_ref();
        committer.is_some_and(|it| !it.is_at_work) && self.kept.is_complete()
    }
}

impl World {
    /// Starts the process, which reads its files.
    pub(super) fn open_storage(&mut self, keyspace: Embedded) {
        let (now, log_bytes) = (self.server_now(), self.scenario.log_bytes);
        let durable = &mut self.server.durable;
        let drive = durable.drive.clone();
        drive.begin(now.mono_ms);
        let loading = Loading {
            keyspace,
            now,
            found: Records::default(),
        };
        let result = start(&drive, log_bytes, loading);
        let end_us = drive.end_us();
        match result {
            Ok(started) => {
                durable.starting = Some(started);
                let process = drive.process();
                self.at(after(end_us), Event::HasRead(process));
                self.expect_faults();
            }
            // A full disk stops only a process that has no files on it yet.
            Err(error @ (StorageError::Io { .. } | StorageError::Full { .. }))
                if matches!(error, StorageError::Io { .. }) || durable.kept.is_untouched() =>
            {
                self.mishaps.count(Mishap::NotStarted);
                self.note(|| format!("server: does not start: {error}"));
                drive.end(End::Process, end_us);
                let again_ms = after(end_us) + self.chance.spread(10, 1_000);
                self.at(again_ms, Event::StartServer);
            }
            Err(error) => self.violated(format!("the server does not start: {error}")),
        }
    }

    /// Handles the end of reading.
    pub(crate) fn has_read(&mut self, process: u64) {
        let durable = &mut self.server.durable;
        if process != durable.drive.process() {
            return;
        }
        let Some(Started {
            loading,
            commits,
            is_full,
        }) = durable.starting.take()
        else {
            return;
        };
        let found = match durable.kept.judge(&loading.found) {
            Ok(count) => durable.kept.keep(count),
            Err(what) => return self.violated(what),
        };
        durable.kept.forget_the_rest();
        self.truth.present.clear();
        durable.committer = Some(Committer {
            commits,
            waiting: Waiting::default(),
            is_at_work: true,
            outcome: None,
            turn: 0,
        });
        // The last process may not have known of all durable batches.
        let last = found.unwrap_or(self.server.told);
        self.truth.lose_tail(self.server.run, last);
        let now = self.server_now();
        for record in self.server.durable.kept.all.records.values() {
            let due_ms = record.expiry.map(|expiry| {
                let left_ms = expiry.at_wall_ms.saturating_sub(loading.now.wall_ms);
                // No entry expires while the files are being read.
                (loading.now.mono_ms + left_ms.min(expiry.ttl_ms)).max(now.mono_ms)
            });
            self.truth.restore(record, due_ms);
        }
        let mut keyspace = loading.keyspace;
        if let Some((wall_ms, counter)) = self.server.durable.kept.all.clock {
            keyspace.restore_clock(wall_ms, counter);
        }
        self.open_hub(keyspace, now);
        self.tell_of_space(is_full);
        self.advance();
        self.settle();
    }

    /// Starts a commit of all waiting batches, unless one is pending.
    pub(super) fn commit(&mut self) {
        if let Some(committer) = &mut self.server.durable.committer
            && !committer.is_at_work
            && !committer.commits.rests(&committer.waiting)
        {
            self.take();
        }
    }

    fn take(&mut self) {
        let durable = &mut self.server.durable;
        let Some(committer) = &mut durable.committer else {
            return;
        };
        committer.commits.take(&mut committer.waiting);
        committer.is_at_work = true;
        committer.turn += 1;
        durable.kept.attempt();
        self.advance();
    }

    /// Does the next step of the committer.
    fn advance(&mut self) {
        let now_ms = self.now_ms();
        let durable = &mut self.server.durable;
        let process = durable.drive.process();
        let Some(committer) = &mut durable.committer else {
            return;
        };
        durable.drive.begin(now_ms);
        match committer.commits.advance() {
            Ok(None) => {
                committer.is_at_work = false;
                if !committer.commits.rests(&committer.waiting) {
                    return self.take();
                }
                if let Some(patience) = committer.commits.patience() {
                    let turn = committer.turn;
                    let at_ms = now_ms + u64::try_from(patience.as_millis()).unwrap_or(0);
                    self.at(at_ms, Event::LookForSpace { process, turn });
                }
                return;
            }
            Ok(Some(achieved)) => committer.outcome = Some(Ok(achieved)),
            Err(error) => committer.outcome = Some(Err(error)),
        }
        let end_us = durable.drive.end_us();
        self.at(after(end_us), Event::Achieved(process));
        self.expect_faults();
    }

    /// Handles the result of the committer, once the disk is ready.
    pub(crate) fn achieved(&mut self, process: u64) {
        let durable = &mut self.server.durable;
        if process != durable.drive.process() {
            return;
        }
        let Some(committer) = &mut durable.committer else {
            return;
        };
        match committer.outcome.take() {
            None => return,
            Some(Err(error)) => return self.storage_failed(&error),
            Some(Ok(achieved)) => {
                committer.waiting.free(achieved.freed);
                let count = usize::try_from(achieved.durable).unwrap_or(usize::MAX);
                if let Some(last) = durable.kept.keep(count) {
                    self.note(|| format!("disk: has batch {last}"));
                    self.server.told = last;
                    if let Some(hub) = &mut self.server.hub {
                        hub.durable(last);
                    }
                }
                self.tell_of_space(achieved.is_full);
            }
        }
        self.serve_all();
        self.settle();
        self.advance();
    }

    /// Retries after the disk was full.
    pub(crate) fn look_for_space(&mut self, process: u64, turn: u64) {
        let durable = &self.server.durable;
        if process == durable.drive.process()
            && let Some(committer) = &durable.committer
            && !committer.is_at_work
            && committer.turn == turn
        {
            self.take();
        }
    }

    /// Ends the process after a failure of its storage.
    fn storage_failed(&mut self, error: &StorageError) {
        self.note(|| format!("server: {error}"));
        let now = self.server_now();
        if let Some(hub) = &mut self.server.hub {
            hub.storage_failed(now);
        }
        self.settle();
        self.crash_server(End::Process, now.mono_ms * 1_000);
        let again_ms = now.mono_ms + self.chance.spread(1, 1_000);
        self.at(again_ms, Event::StartServer);
    }

    /// Reports to the hub whether there is space on the disk.
    fn tell_of_space(&mut self, is_full: bool) {
        let now_ms = self.now_ms();
        let now = self.server_now();
        if let Some(hub) = &mut self.server.hub {
            hub.storage_full(is_full, now);
        }
        let was_full = self.server.is_read_only();
        if is_full && !was_full {
            self.note(|| "server: is read-only".to_owned());
            self.server.read_only.push((now_ms, u64::MAX));
        } else if !is_full {
            self.server.end_read_only(now_ms);
        }
    }

    /// Continues a job.
    pub(crate) fn do_job(&mut self, process: u64, number: u64) {
        let now_ms = self.now_ms();
        let drive = self.server.durable.drive.clone();
        if process != drive.process() {
            return;
        }
        drive.begin(now_ms);
        let (has_more, name) = drive.step(number);
        let end_us = drive.end_us();
        if has_more {
            let at_ms = after(end_us) + self.chance.spread(1, self.scenario.job_ms);
            self.at(at_ms, Event::Job { process, number });
        } else {
            self.note(|| format!("disk: the job {name:?} is over"));
            self.merges += usize::from(name == "merge");
        }
        self.expect_faults();
    }
}

/// Opens and reads the files, and prepares the committer.
pub(super) fn start(
    drive: &Drive,
    log_bytes: u64,
    mut loading: Loading,
) -> Result<Started, StorageError> {
    let mut storage = drive.open(log_bytes)?;
    loading.found.clock = storage.load(&mut loading)?;
    let mut commits = GroupCommit::new(Box::new(storage));
    let mut is_full = false;
    while let Some(achieved) = commits.advance()? {
        is_full = achieved.is_full;
    }
    Ok(Started {
        loading,
        commits,
        is_full,
    })
}

/// Returns the first millisecond that is later.
fn after(at_us: u64) -> u64 {
    at_us / 1_000 + 1
}
