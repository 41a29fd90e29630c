//! The source of reported changes. If this server has made the change directly after the last reported one, the change is known without the
//! stream. The stream is therefore not read while commits are in progress, unless another server has made a change, or after a long time.
use bytes::Bytes;
use statestored_shared::{EngineEvent, EngineRequestId, Record, Revision};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout, timeout_at};

/// Time for which the stream is not read while commits are in progress. The revision of a commit that makes changes shows whether other
/// servers made some.
const MAX_UNREAD: Duration = Duration::from_millis(20);

/// Time after a commit during which the next one is awaited.
const QUIET_PERIOD: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(super) struct ChangeReporter {
    state: Mutex<State>,
    /// Notifies that it may be time to read the stream.
    due_notify: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The watch to which all changes are reported, and the last revision that was reported to it.
    watch: Option<(EngineRequestId, Revision)>,
    /// Number of commits in progress.
    commits_in_flight: usize,
    /// Time at which the last commit ended.
    last_commit_ended: Option<Instant>,
    /// Whether other servers have made changes that are not reported yet.
    is_behind: bool,
}

/// A commit in progress.
#[derive(Debug)]
pub(super) struct CommitInFlight<'a>(&'a ChangeReporter);

/// The position of a change relative to the reported ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChangePosition {
    AlreadyReported,
    Next,
    /// Other changes lie in between.
    Ahead,
}

impl ChangeReporter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a watch to which all changes up to this revision are reported.
    pub(super) fn begin_watch(&self, watch: EngineRequestId, at: Revision) {
        let mut state = self.state();
        state.watch = Some((watch, at));
        state.is_behind = false;
    }

    /// Ends a watch, to which no more changes are reported.
    pub(super) fn end_watch(&self, watch: EngineRequestId) {
        self.state().watch.take_if(|(id, _)| *id == watch);
    }

    /// Returns the revision up to which all changes were reported to a watch, or `None` if it has ended.
    pub(super) fn reported_revision(&self, watch: EngineRequestId) -> Option<Revision> {
        let state = self.state();
        let (_, at) = state.watch.filter(|(id, _)| *id == watch)?;
        Some(at)
    }

    /// Reports a change read from the stream, if it is the next one.
    pub(super) fn report_from_stream(
        &self,
        watch: EngineRequestId,
        at: Revision,
        changes: Vec<(Bytes, Option<Record>)>,
        events: &UnboundedSender<EngineEvent>,
    ) -> ChangePosition {
        let mut state = self.state();
        match &mut state.watch {
            Some((id, known)) if *id == watch => {
                if at <= *known {
                    return ChangePosition::AlreadyReported;
                }
                if at.0 != known.0 + 1 {
                    return ChangePosition::Ahead;
                }
                *known = at;
                // The receiver may be gone.
                let _ = events.send(EngineEvent::Changes(watch, at, changes));
                ChangePosition::Next
            }
            _ => ChangePosition::AlreadyReported,
        }
    }

    /// Reports a change that this server has made, if it is the next one.
    pub(super) fn report_own(
        &self,
        at: Revision,
        changes: impl FnOnce() -> Vec<(Bytes, Option<Record>)>,
        events: &UnboundedSender<EngineEvent>,
    ) {
        let mut state = self.state();
        let Some((id, known)) = &mut state.watch else {
            return;
        };
        if at.0 == known.0 + 1 {
            *known = at;
            // The receiver may be gone.
            let _ = events.send(EngineEvent::Changes(*id, at, changes()));
        } else if at > *known {
            state.is_behind = true;
            self.due_notify.notify_one();
        }
    }

    /// Counts a commit as in progress until the result is dropped.
    pub(super) fn begin_commit(&self) -> CommitInFlight<'_> {
        self.state().commits_in_flight += 1;
        CommitInFlight(self)
    }

    /// Waits until it is time to read the stream.
    pub(super) async fn wait_until_due(&self) {
        let due = async {
            loop {
                let quiet_at = {
                    let mut state = self.state();
                    if std::mem::take(&mut state.is_behind) {
                        return;
                    }
                    match state.last_commit_ended {
                        _ if state.commits_in_flight > 0 => None,
                        Some(ended) if ended.elapsed() < QUIET_PERIOD => Some(ended + QUIET_PERIOD),
                        Some(_) | None => return,
                    }
                };
                let is_told = self.due_notify.notified();
                match quiet_at {
                    // The loop checks again whether it is time.
                    Some(at) => drop(timeout_at(at, is_told).await),
                    None => is_told.await,
                }
            }
        };
        // The stream is read after this time in any case.
        let _ = timeout(MAX_UNREAD, due).await;
    }
}

impl Drop for CommitInFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.commits_in_flight -= 1;
        if state.commits_in_flight == 0 {
            state.last_commit_ended = Some(Instant::now());
            self.0.due_notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    const WATCH: EngineRequestId = EngineRequestId(3);

    fn watched() -> (
        ChangeReporter,
        UnboundedSender<EngineEvent>,
        UnboundedReceiver<EngineEvent>,
    ) {
        let (events, received) = unbounded_channel();
        let reporter = ChangeReporter::default();
        reporter.begin_watch(WATCH, Revision(5));
        (reporter, events, received)
    }

    /// Returns the reported revisions.
    fn revisions(received: &mut UnboundedReceiver<EngineEvent>) -> Vec<u64> {
        let mut revisions = Vec::new();
        while let Ok(EngineEvent::Changes(WATCH, at, _)) = received.try_recv() {
            revisions.push(at.0);
        }
        revisions
    }

    #[test]
    fn each_change_is_reported_once_from_the_commit_or_the_stream() {
        let (reporter, events, mut received) = watched();
        reporter.report_own(Revision(6), Vec::new, &events);
        let read = |at| reporter.report_from_stream(WATCH, Revision(at), Vec::new(), &events);
        assert_eq!(read(6), ChangePosition::AlreadyReported);
        assert_eq!(read(7), ChangePosition::Next);
        reporter.report_own(Revision(7), Vec::new, &events);
        reporter.report_own(Revision(8), Vec::new, &events);
        assert_eq!(read(10), ChangePosition::Ahead);
        assert_eq!(revisions(&mut received), [6, 7, 8]);
        assert_eq!(reporter.reported_revision(WATCH), Some(Revision(8)));
    }

    #[test]
    fn a_change_after_a_gap_waits_for_the_stream() {
        let (reporter, events, mut received) = watched();
        reporter.report_own(Revision(7), Vec::new, &events);
        assert_eq!(revisions(&mut received), [0; 0]);
        let read = |at| reporter.report_from_stream(WATCH, Revision(at), Vec::new(), &events);
        assert_eq!(
            (read(6), read(7)),
            (ChangePosition::Next, ChangePosition::Next)
        );
        assert_eq!(revisions(&mut received), [6, 7]);
    }

    #[test]
    fn a_watch_that_has_ended_gets_no_changes() {
        let (reporter, events, mut received) = watched();
        reporter.end_watch(EngineRequestId(2));
        assert_eq!(reporter.reported_revision(WATCH), Some(Revision(5)));
        reporter.end_watch(WATCH);
        reporter.report_own(Revision(6), Vec::new, &events);
        assert_eq!(
            reporter.report_from_stream(WATCH, Revision(6), Vec::new(), &events),
            ChangePosition::AlreadyReported
        );
        assert_eq!(reporter.reported_revision(WATCH), None);
        assert_eq!(revisions(&mut received), [0; 0]);
    }

    /// Returns whether the stream is to be read at once.
    async fn is_due(reporter: &ChangeReporter) -> bool {
        timeout(MAX_UNREAD / 2, reporter.wait_until_due())
            .await
            .is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_is_read_when_no_commit_is_in_flight_or_another_server_made_a_change() {
        let (reporter, events, _received) = watched();
        assert!(is_due(&reporter).await);
        let (first, second) = (reporter.begin_commit(), reporter.begin_commit());
        assert!(!is_due(&reporter).await);
        reporter.report_own(Revision(6), Vec::new, &events);
        assert!(!is_due(&reporter).await, "nobody else changed anything");
        reporter.report_own(Revision(8), Vec::new, &events);
        assert!(is_due(&reporter).await);
        assert!(!is_due(&reporter).await, "it is known already");
        drop(first);
        assert!(!is_due(&reporter).await);
        drop(second);
        assert!(is_due(&reporter).await, "none has followed for a while");
        let before = Instant::now();
        assert!(is_due(&reporter).await);
        assert_eq!(before.elapsed(), Duration::ZERO, "it is quiet already");
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_is_read_eventually_while_commits_are_in_flight() {
        let (reporter, ..) = watched();
        let _under_way = reporter.begin_commit();
        let reading = timeout(2 * MAX_UNREAD, reporter.wait_until_due()).await;
        assert!(reading.is_ok());
    }
}
