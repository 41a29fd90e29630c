//! The server's storage: the real storage and the real group commit, on the simulated disk and at simulated times.
use super::expected_records::{ExpectedRecords, LoadingKeyspace, StoredRecords};
use crate::disk::{DiskHandle, ProcessEnd};
use crate::faults::Mishap;
use crate::simulation::{Event, Simulation};
use statestored_storage::group_commit::{CommitProgress, CommitQueue, GroupCommit, QueuedBatch};
use statestored_storage::{Batch, Storage as _, StorageError};
use statestored_store::keyspace::EmbeddedKeyspace;

/// A process that has read its files.
#[derive(Debug)]
pub(super) struct StartedProcess {
    pub(super) loading: LoadingKeyspace,
    commits: GroupCommit,
    is_full: bool,
}

/// State of the committer's thread in a real server.
#[derive(Debug)]
pub(super) struct Committer {
    commits: GroupCommit,
    queue: CommitQueue,
    /// Whether the committer is working; it takes no further work meanwhile.
    is_busy: bool,
    /// The result, once the disk is ready.
    outcome: Option<Result<CommitProgress, StorageError>>,
    /// Number of times that the committer took work.
    generation: u64,
}

/// The disk, its users, and its expected contents.
#[derive(Debug)]
pub(super) struct DurableState {
    pub(super) disk: DiskHandle,
    pub(super) expected: ExpectedRecords,
    pub(super) starting: Option<StartedProcess>,
    pub(super) committer: Option<Committer>,
    /// Number of temporary faults of the disk.
    pub(super) faults: u64,
}

impl Drop for DurableState {
    fn drop(&mut self) {
        // Jobs hold a reference to the disk, which holds the jobs.
        self.disk.end(ProcessEnd::Killed, 0);
    }
}

impl DurableState {
    pub(super) fn new(drive: DiskHandle) -> Self {
        Self {
            disk: drive,
            expected: ExpectedRecords::default(),
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
            committer.queue.push(QueuedBatch::from(batch.clone()));
        }
        self.expected.push(sequence, batch);
    }

    /// Returns the size of the batches that wait to be committed or are being committed.
    pub(super) fn waiting_bytes(&self) -> usize {
        let committer = self.committer.as_ref();
        committer.map_or(0, |committer| committer.queue.bytes())
    }

    /// Whether no work on the disk is pending.
    pub(super) fn is_idle(&self) -> bool {
        let committer = self.committer.as_ref();
        committer.is_some_and(|it| !it.is_busy) && self.expected.is_complete()
    }
}

impl Simulation {
    /// Starts the process, which reads its files.
    pub(super) fn open_storage(&mut self, keyspace: EmbeddedKeyspace) {
        let (now, log_bytes) = (self.server_now(), self.scenario.log_bytes);
        let durable = &mut self.server.durable;
        let drive = durable.disk.clone();
        drive.begin(now.mono_ms);
        let loading = LoadingKeyspace {
            keyspace,
            now,
            records: StoredRecords::default(),
        };
        let result = start(&drive, log_bytes, loading);
        let end_us = drive.end_us();
        match result {
            Ok(started) => {
                durable.starting = Some(started);
                let process = drive.process();
                self.schedule(after(end_us), Event::FilesRead(process));
                self.schedule_jobs_and_faults();
            }
            // A full disk stops only a process that has no files on it yet.
            Err(error @ (StorageError::Io { .. } | StorageError::Full { .. }))
                if matches!(error, StorageError::Io { .. }) || durable.expected.is_untouched() =>
            {
                self.fault_counts.count(Mishap::NotStarted);
                self.trace_event(|| format!("server: does not start: {error}"));
                drive.end(ProcessEnd::Killed, end_us);
                let again_ms = after(end_us) + self.chance.log_uniform(10, 1_000);
                self.schedule(again_ms, Event::StartServer);
            }
            Err(error) => self.violated(format!("the server does not start: {error}")),
        }
    }

    /// Handles the end of reading.
    pub(crate) fn files_read(&mut self, process: u64) {
        let durable = &mut self.server.durable;
        if process != durable.disk.process() {
            return;
        }
        let Some(StartedProcess {
            loading,
            commits,
            is_full,
        }) = durable.starting.take()
        else {
            return;
        };
        let found = match durable.expected.check(&loading.records) {
            Ok(count) => durable.expected.commit(count),
            Err(what) => return self.violated(what),
        };
        durable.expected.drop_submitted();
        self.ground_truth.present.clear();
        durable.committer = Some(Committer {
            commits,
            queue: CommitQueue::default(),
            is_busy: true,
            outcome: None,
            generation: 0,
        });
        // The last process may not have known of all durable batches.
        let last = found.unwrap_or(self.server.reported_durable);
        self.ground_truth.lose_tail(self.server.run, last);
        let now = self.server_now();
        for record in self.server.durable.expected.durable.records.values() {
            let due_ms = record.expiry.map(|expiry| {
                let left_ms = expiry.at_wall_ms.saturating_sub(loading.now.wall_ms);
                // No entry expires while the files are being read.
                (loading.now.mono_ms + left_ms.min(expiry.ttl_ms)).max(now.mono_ms)
            });
            self.ground_truth.restore(record, due_ms);
        }
        let mut keyspace = loading.keyspace;
        if let Some((wall_ms, counter)) = self.server.durable.expected.durable.clock {
            keyspace.restore_clock(wall_ms, counter);
        }
        self.open_hub(keyspace, now);
        self.report_space(is_full);
        self.advance_committer();
        self.settle();
    }

    /// Starts a commit of all waiting batches, unless one is pending.
    pub(super) fn commit(&mut self) {
        if let Some(committer) = &mut self.server.durable.committer
            && !committer.is_busy
            && !committer.commits.is_idle(&committer.queue)
        {
            self.take_batches();
        }
    }

    fn take_batches(&mut self) {
        let durable = &mut self.server.durable;
        let Some(committer) = &mut durable.committer else {
            return;
        };
        committer.commits.take(&mut committer.queue);
        committer.is_busy = true;
        committer.generation += 1;
        durable.expected.attempt();
        self.advance_committer();
    }

    /// Does the next step of the committer.
    fn advance_committer(&mut self) {
        let now_ms = self.now_ms();
        let durable = &mut self.server.durable;
        let process = durable.disk.process();
        let Some(committer) = &mut durable.committer else {
            return;
        };
        durable.disk.begin(now_ms);
        match committer.commits.advance() {
            Ok(None) => {
                committer.is_busy = false;
                if !committer.commits.is_idle(&committer.queue) {
                    return self.take_batches();
                }
                if let Some(patience) = committer.commits.max_wait() {
                    let turn = committer.generation;
                    let at_ms = now_ms + u64::try_from(patience.as_millis()).unwrap_or(0);
                    self.schedule(
                        at_ms,
                        Event::RetryFullDisk {
                            process,
                            generation: turn,
                        },
                    );
                }
                return;
            }
            Ok(Some(achieved)) => committer.outcome = Some(Ok(achieved)),
            Err(error) => committer.outcome = Some(Err(error)),
        }
        let end_us = durable.disk.end_us();
        self.schedule(after(end_us), Event::CommitCompleted(process));
        self.schedule_jobs_and_faults();
    }

    /// Handles the result of the committer, once the disk is ready.
    pub(crate) fn commit_completed(&mut self, process: u64) {
        let durable = &mut self.server.durable;
        if process != durable.disk.process() {
            return;
        }
        let Some(committer) = &mut durable.committer else {
            return;
        };
        match committer.outcome.take() {
            None => return,
            Some(Err(error)) => return self.storage_failed(&error),
            Some(Ok(achieved)) => {
                committer.queue.release(achieved.released_bytes);
                let count = usize::try_from(achieved.durable).unwrap_or(usize::MAX);
                if let Some(last) = durable.expected.commit(count) {
                    self.trace_event(|| format!("disk: has batch {last}"));
                    self.server.reported_durable = last;
                    if let Some(hub) = &mut self.server.hub {
                        hub.mark_durable(last);
                    }
                }
                self.report_space(achieved.is_full);
            }
        }
        self.serve_waiting();
        self.settle();
        self.advance_committer();
    }

    /// Retries after the disk was full.
    pub(crate) fn retry_full_disk(&mut self, process: u64, turn: u64) {
        let durable = &self.server.durable;
        if process == durable.disk.process()
            && let Some(committer) = &durable.committer
            && !committer.is_busy
            && committer.generation == turn
        {
            self.take_batches();
        }
    }

    /// Ends the process after a failure of its storage.
    fn storage_failed(&mut self, error: &StorageError) {
        self.trace_event(|| format!("server: {error}"));
        let now = self.server_now();
        if let Some(hub) = &mut self.server.hub {
            hub.storage_failed(now);
        }
        self.settle();
        self.crash_server(ProcessEnd::Killed, now.mono_ms * 1_000);
        let again_ms = now.mono_ms + self.chance.log_uniform(1, 1_000);
        self.schedule(again_ms, Event::StartServer);
    }

    /// Reports to the hub whether there is space on the disk.
    fn report_space(&mut self, is_full: bool) {
        let now_ms = self.now_ms();
        let now = self.server_now();
        if let Some(hub) = &mut self.server.hub {
            hub.set_read_only(is_full, now);
        }
        let was_full = self.server.is_read_only();
        if is_full && !was_full {
            self.trace_event(|| "server: is read-only".to_owned());
            self.server.read_only.push((now_ms, u64::MAX));
        } else if !is_full {
            self.server.end_read_only(now_ms);
        }
    }

    /// Continues a job.
    pub(crate) fn continue_job(&mut self, process: u64, number: u64) {
        let now_ms = self.now_ms();
        let drive = self.server.durable.disk.clone();
        if process != drive.process() {
            return;
        }
        drive.begin(now_ms);
        let (has_more, name) = drive.step(number);
        let end_us = drive.end_us();
        if has_more {
            let at_ms = after(end_us) + self.chance.log_uniform(1, self.scenario.job_ms);
            self.schedule(at_ms, Event::Job { process, number });
        } else {
            self.trace_event(|| format!("disk: the job {name:?} is over"));
            self.merges += usize::from(name == "merge");
        }
        self.schedule_jobs_and_faults();
    }
}

/// Opens and reads the files, and prepares the committer.
pub(super) fn start(
    drive: &DiskHandle,
    log_bytes: u64,
    mut loading: LoadingKeyspace,
) -> Result<StartedProcess, StorageError> {
    let mut storage = drive.open(log_bytes)?;
    loading.records.clock = storage.load(&mut loading)?;
    let mut commits = GroupCommit::new(Box::new(storage));
    let mut is_full = false;
    while let Some(achieved) = commits.advance()? {
        is_full = achieved.is_full;
    }
    Ok(StartedProcess {
        loading,
        commits,
        is_full,
    })
}

/// Returns the first millisecond that is later.
fn after(at_us: u64) -> u64 {
    at_us / 1_000 + 1
}
