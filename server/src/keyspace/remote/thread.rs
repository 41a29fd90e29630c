//! A connection to an engine whose sockets are on a thread of their own, through channels.
use super::{Ask, AskId, Keys, Link, News, Verdict};
use crate::runtime::single_threaded_runtime;
use bytes::Bytes;
use smallvec::smallvec;
use std::collections::VecDeque;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

/// The thread's ends of the channels.
pub(super) struct Ends {
    pub(super) asked: mpsc::UnboundedReceiver<(AskId, Ask)>,
    pub(super) tell: mpsc::UnboundedSender<News>,
}

/// A store that was found or created at the start.
pub(super) trait StoreSecret {
    /// Returns the secret; see [`Link::store_secret`].
    fn store_secret(&self) -> &[u8];
}

/// A request for the state of some keys.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) ask: AskId,
    pub(super) keys: Keys,
    pub(super) has_floors: bool,
}

impl Question {
    /// Creates a request for the keys and their floors.
    pub(super) fn with_floors(ask: AskId, keys: Keys) -> Self {
        Self {
            ask,
            keys,
            has_floors: true,
        }
    }

    /// Creates a request for a key without its floor.
    pub(super) fn of_entry(ask: AskId, key: Bytes) -> Self {
        Self {
            ask,
            keys: smallvec![key],
            has_floors: false,
        }
    }
}

/// Number of requests that are sent at once, even if more may follow soon.
const MOST_UNSENT: usize = 16;

/// The connection to the thread of an engine. The thread ends when this is dropped.
#[derive(Debug)]
pub struct ThreadLink {
    engine: &'static str,
    asks: mpsc::UnboundedSender<(AskId, Ask)>,
    /// Requests to be sent.
    unsent: Vec<(AskId, Ask)>,
    news: mpsc::UnboundedReceiver<News>,
    /// Events that [`poll_news`](Link::poll_news) has found, and the answers in place of a thread that has ended.
    next: VecDeque<News>,
    is_dead: bool,
    store_secret: Vec<u8>,
    sends_once: bool,
    counts_revisions: bool,
}

impl ThreadLink {
    /// Starts a thread that runs `begin` and, if that succeeds, `work`, which runs until the link is dropped.
    ///
    /// # Errors
    /// `begin` failed, or the thread could not be started.
    pub(super) async fn start<Begun, Error, Beginning, Working>(
        engine: &'static str,
        begin: impl FnOnce() -> Beginning + Send + 'static,
        work: impl FnOnce(Begun, Ends) -> Working + Send + 'static,
    ) -> Result<Self, Error>
    where
        Error: From<std::io::Error> + Send + 'static,
        Begun: StoreSecret,
        Beginning: Future<Output = Result<Begun, Error>>,
        Working: Future<Output = ()>,
    {
        let (asks, asked) = mpsc::unbounded_channel();
        let (tell, news) = mpsc::unbounded_channel();
        let (report, started) = oneshot::channel();
        std::thread::Builder::new()
            .name(engine.into())
            .spawn(move || {
                let runtime = match single_threaded_runtime() {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        // The caller may have given up.
                        let _ = report.send(Err(error.into()));
                        return;
                    }
                };
                runtime.block_on(async {
                    match begin().await {
                        Err(error) => drop(report.send(Err(error))),
                        Ok(found) => {
                            let secret = found.store_secret().to_vec();
                            if report.send(Ok(secret)).is_ok() {
                                work(found, Ends { asked, tell }).await;
                            }
                        }
                    }
                });
            })?;
        let ended = |_| std::io::Error::other("it has ended");
        let store_secret = started.await.map_err(ended)??;
        Ok(Self {
            engine,
            asks,
            unsent: Vec::new(),
            news,
            next: VecDeque::new(),
            is_dead: false,
            store_secret,
            sends_once: false,
            counts_revisions: false,
        })
    }
}

/// Returns the answer to a request that was not sent.
pub(super) fn unanswered(id: AskId, ask: &Ask) -> News {
    match ask {
        Ask::Read(_) | Ask::Look(_) => News::Read(id, Err(None)),
        Ask::Revision => News::Revision(id, Err(None)),
        Ask::Commit(_) => News::Committed(id, Verdict::Unsent),
        Ask::Page { .. } => News::Page(id, Err(None)),
        Ask::Watch => News::WatchLost(id, None),
        Ask::Clocks { .. } => News::Clocks(id, Err(None)),
    }
}

impl ThreadLink {
    /// Declares that commits are never resent on the way.
    #[cfg(feature = "redis")]
    pub(super) fn sending_once(mut self) -> Self {
        self.sends_once = true;
        self
    }

    /// Declares that only changes have revisions.
    #[cfg(feature = "redis")]
    pub(super) fn counting_revisions(mut self) -> Self {
        self.counts_revisions = true;
        self
    }
}

impl Link for ThreadLink {
    fn store_secret(&self) -> &[u8] {
        &self.store_secret
    }

    fn ask(&mut self, id: AskId, ask: Ask) {
        self.unsent.push((id, ask));
        if self.unsent.len() >= MOST_UNSENT {
            self.send();
        }
    }

    fn unsent(&self) -> usize {
        self.unsent.len()
    }

    fn send(&mut self) {
        for next in self.unsent.drain(..) {
            let Err(unsent) = self.asks.send(next) else {
                continue;
            };
            if !std::mem::replace(&mut self.is_dead, true) {
                tracing::error!(
                    "the thread that talks to {} has ended: this is a bug, please report it",
                    self.engine
                );
            }
            let (id, ask) = unsent.0;
            self.next.push_back(unanswered(id, &ask));
        }
    }

    fn news(&mut self) -> Option<News> {
        self.next.pop_front().or_else(|| self.news.try_recv().ok())
    }

    fn sends_once(&self) -> bool {
        self.sends_once
    }

    fn counts_revisions(&self) -> bool {
        self.counts_revisions
    }

    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.next.is_empty() {
            return Poll::Ready(());
        }
        match self.news.poll_recv(context) {
            Poll::Ready(Some(news)) => {
                self.next.push_back(news);
                Poll::Ready(())
            }
            // The thread has ended: no more events follow.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Returns the answer to a request that is refused.
#[cfg(feature = "redis")]
pub(super) fn refused(id: AskId, ask: &Ask, error: &super::EngineError) -> News {
    let error = error.clone();
    match ask {
        Ask::Read(_) | Ask::Look(_) => News::Read(id, Err(Some(error))),
        Ask::Revision => News::Revision(id, Err(Some(error))),
        Ask::Commit(_) => News::Committed(id, Verdict::Failed(error)),
        Ask::Page { .. } => News::Page(id, Err(Some(error))),
        Ask::Watch => News::WatchLost(id, Some(error)),
        Ask::Clocks { .. } => News::Clocks(id, Err(Some(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failure;

    impl From<std::io::Error> for Failure {
        fn from(_: std::io::Error) -> Self {
            Self
        }
    }

    struct Noting(mpsc::UnboundedSender<AskId>);

    impl StoreSecret for Noting {
        fn store_secret(&self) -> &[u8] {
            b"secret"
        }
    }

    /// Creates a link to an engine that loses each watch. Returns it with the requests that the engine received.
    async fn link() -> (ThreadLink, mpsc::UnboundedReceiver<AskId>) {
        let (note, noted) = mpsc::unbounded_channel();
        let begin = || async { Ok::<_, Failure>(Noting(note)) };
        let work = |Noting(note): Noting, mut ends: Ends| async move {
            while let Some((ask, _)) = ends.asked.recv().await {
                let _ = note.send(ask);
                let _ = ends.tell.send(News::WatchLost(ask, None));
            }
        };
        let link = ThreadLink::start("test", begin, work).await;
        (link.unwrap(), noted)
    }

    #[tokio::test]
    async fn questions_go_out_together() {
        let (mut link, mut noted) = link().await;
        link.ask(AskId(1), Ask::Watch);
        link.ask(AskId(2), Ask::Watch);
        assert_eq!(link.unsent(), 2);
        assert!(noted.is_empty());
        link.send();
        assert_eq!(link.unsent(), 0);
        assert_eq!(noted.recv().await, Some(AskId(1)));
        assert_eq!(noted.recv().await, Some(AskId(2)));
    }

    #[tokio::test]
    async fn many_go_out_by_themselves() {
        let (mut link, mut noted) = link().await;
        for number in 0..=MOST_UNSENT as u64 {
            link.ask(AskId(number), Ask::Watch);
        }
        assert_eq!(link.unsent(), 1);
        for number in 0..MOST_UNSENT as u64 {
            assert_eq!(noted.recv().await, Some(AskId(number)));
        }
        assert!(noted.is_empty());
    }
}
