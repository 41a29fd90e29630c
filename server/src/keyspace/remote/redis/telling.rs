//! The source of reported changes. If this server has made the change directly after the last reported one, the change is known without the
//! stream. The stream is therefore not read while commits are in progress, unless another server has made a change, or after a long time.
use crate::keyspace::remote::{AskId, News, Record, Revision};
use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout, timeout_at};

/// Time for which the stream is not read while commits are in progress. The revision of a commit that makes changes shows whether other
/// servers made some.
const UNREAD: Duration = Duration::from_millis(20);

/// Time after a commit during which the next one is awaited.
const QUIET: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(super) struct Telling {
    state: Mutex<State>,
    /// Notifies that it may be time to read the stream.
    is_due: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The watch to which all changes are reported, and the last revision that was reported to it.
    watch: Option<(AskId, Revision)>,
    /// Number of commits in progress.
    commits: usize,
    /// Time at which the last commit ended.
    ended: Option<Instant>,
    /// Whether other servers have made changes that are not reported yet.
    is_behind: bool,
}

/// A commit in progress.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Telling);

/// The position of a change relative to the reported ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lies {
    Behind,
    Next,
    /// Other changes lie in between.
    Ahead,
}

impl Telling {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a watch to which all changes up to this revision are reported.
    pub(super) fn begin(&self, watch: AskId, at: Revision) {
        let mut state = self.state();
        state.watch = Some((watch, at));
        state.is_behind = false;
    }

    /// Ends a watch, to which no more changes are reported.
    pub(super) fn end(&self, watch: AskId) {
        self.state().watch.take_if(|(ask, _)| *ask == watch);
    }

    /// Returns the revision up to which all changes were reported to a watch, or `None` if it has ended.
    pub(super) fn known(&self, watch: AskId) -> Option<Revision> {
        let state = self.state();
        let (_, at) = state.watch.filter(|(ask, _)| *ask == watch)?;
        Some(at)
    }

    /// Reports a change read from the stream, if it is the next one.
    pub(super) fn read(
        &self,
        watch: AskId,
        at: Revision,
        changes: Vec<(Bytes, Option<Record>)>,
        tell: &UnboundedSender<News>,
    ) -> Lies {
        let mut state = self.state();
        match &mut state.watch {
            Some((ask, known)) if *ask == watch => {
                if at <= *known {
                    return Lies::Behind;
                }
                if at.0 != known.0 + 1 {
                    return Lies::Ahead;
                }
                *known = at;
                // The receiver may be gone.
                let _ = tell.send(News::Changes(watch, at, changes));
                Lies::Next
            }
            _ => Lies::Behind,
        }
    }

    /// Reports a change that this server has made, if it is the next one.
    pub(super) fn made(
        &self,
        at: Revision,
        changes: impl FnOnce() -> Vec<(Bytes, Option<Record>)>,
        tell: &UnboundedSender<News>,
    ) {
        let mut state = self.state();
        let Some((ask, known)) = &mut state.watch else {
            return;
        };
        if at.0 == known.0 + 1 {
            *known = at;
            // The receiver may be gone.
            let _ = tell.send(News::Changes(*ask, at, changes()));
        } else if at > *known {
            state.is_behind = true;
            self.is_due.notify_one();
        }
    }

    /// Counts a commit as in progress until the result is dropped.
    pub(super) fn commits(&self) -> UnderWay<'_> {
        self.state().commits += 1;
        UnderWay(self)
    }

    /// Waits until it is time to read the stream.
    pub(super) async fn due(&self) {
        let due = async {
            loop {
                let quiet_at = {
                    let mut state = self.state();
                    if std::mem::take(&mut state.is_behind) {
                        return;
                    }
                    match state.ended {
                        _ if state.commits > 0 => None,
                        Some(ended) if ended.elapsed() < QUIET => Some(ended + QUIET),
                        Some(_) | None => return,
                    }
                };
                let is_told = self.is_due.notified();
                match quiet_at {
                    // The loop checks again whether it is time.
                    Some(at) => drop(timeout_at(at, is_told).await),
                    None => is_told.await,
                }
            }
        };
        // The stream is read after this time in any case.
        let _ = timeout(UNREAD, due).await;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.commits -= 1;
        if state.commits == 0 {
            state.ended = Some(Instant::now());
            self.0.is_due.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    const WATCH: AskId = AskId(3);

    fn watched() -> (Telling, UnboundedSender<News>, UnboundedReceiver<News>) {
        let (tell, told) = unbounded_channel();
        let telling = Telling::default();
        telling.begin(WATCH, Revision(5));
        (telling, tell, told)
    }

    /// Returns the reported revisions.
    fn revisions(told: &mut UnboundedReceiver<News>) -> Vec<u64> {
        let mut revisions = Vec::new();
        while let Ok(News::Changes(WATCH, at, _)) = told.try_recv() {
            revisions.push(at.0);
        }
        revisions
    }

    #[test]
    fn each_change_is_told_once_whoever_comes_first() {
        let (telling, tell, mut told) = watched();
        telling.made(Revision(6), Vec::new, &tell);
        let read = |at| telling.read(WATCH, Revision(at), Vec::new(), &tell);
        assert_eq!(read(6), Lies::Behind);
        assert_eq!(read(7), Lies::Next);
        telling.made(Revision(7), Vec::new, &tell);
        telling.made(Revision(8), Vec::new, &tell);
        assert_eq!(read(10), Lies::Ahead);
        assert_eq!(revisions(&mut told), [6, 7, 8]);
        assert_eq!(telling.known(WATCH), Some(Revision(8)));
    }

    #[test]
    fn what_is_not_the_next_waits_for_the_stream() {
        let (telling, tell, mut told) = watched();
        telling.made(Revision(7), Vec::new, &tell);
        assert_eq!(revisions(&mut told), [0; 0]);
        let read = |at| telling.read(WATCH, Revision(at), Vec::new(), &tell);
        assert_eq!((read(6), read(7)), (Lies::Next, Lies::Next));
        assert_eq!(revisions(&mut told), [6, 7]);
    }

    #[test]
    fn a_watch_that_has_ended_is_told_nothing() {
        let (telling, tell, mut told) = watched();
        telling.end(AskId(2));
        assert_eq!(telling.known(WATCH), Some(Revision(5)));
        telling.end(WATCH);
        telling.made(Revision(6), Vec::new, &tell);
        assert_eq!(
            telling.read(WATCH, Revision(6), Vec::new(), &tell),
            Lies::Behind
        );
        assert_eq!(telling.known(WATCH), None);
        assert_eq!(revisions(&mut told), [0; 0]);
    }

    /// Returns whether the stream is to be read at once.
    async fn is_due(telling: &Telling) -> bool {
        timeout(UNREAD / 2, telling.due()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_is_read_when_nothing_is_under_way_or_others_changed_something() {
        let (telling, tell, _told) = watched();
        assert!(is_due(&telling).await);
        let (first, second) = (telling.commits(), telling.commits());
        assert!(!is_due(&telling).await);
        telling.made(Revision(6), Vec::new, &tell);
        assert!(!is_due(&telling).await, "nobody else changed anything");
        telling.made(Revision(8), Vec::new, &tell);
        assert!(is_due(&telling).await);
        assert!(!is_due(&telling).await, "it is known already");
        drop(first);
        assert!(!is_due(&telling).await);
        drop(second);
        assert!(is_due(&telling).await, "none has followed for a while");
        let before = Instant::now();
        assert!(is_due(&telling).await);
        assert_eq!(before.elapsed(), Duration::ZERO, "it is quiet already");
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_is_read_some_time_whatever_is_under_way() {
        let (telling, ..) = watched();
        let _under_way = telling.commits();
        let reading = timeout(2 * UNREAD, telling.due()).await;
        assert!(reading.is_ok());
    }
}
