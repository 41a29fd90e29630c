//! A connection to an engine whose sockets are on a thread of their own, through channels.
use crate::single_threaded_runtime;
use bytes::Bytes;
use smallvec::smallvec;
use statestored_shared::{
    CommitOutcome, EngineError, EngineEvent, EngineRequest, EngineRequestId, Keys, Link,
};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

/// The thread's ends of the channels.
#[derive(Debug)]
pub struct ThreadChannels {
    /// Requests of the keyspace; closed once the link is dropped.
    pub requests: mpsc::UnboundedReceiver<(EngineRequestId, EngineRequest)>,
    /// Events for the keyspace.
    pub events: mpsc::UnboundedSender<EngineEvent>,
}

/// A store that was found or created at the start.
pub trait StoreSecret {
    /// Returns the secret; see [`Link::store_secret`].
    fn store_secret(&self) -> &[u8];
}

/// A request for the state of some keys.
#[derive(Debug)]
pub struct ReadRequest {
    /// Identifier of the request, which its answer repeats.
    pub id: EngineRequestId,
    /// Keys to read.
    pub keys: Keys,
    /// Whether the floors of the keys are read too.
    pub has_floors: bool,
}

impl ReadRequest {
    /// Creates a request for the keys and their floors.
    pub fn with_floors(id: EngineRequestId, keys: Keys) -> Self {
        Self {
            id,
            keys,
            has_floors: true,
        }
    }

    /// Creates a request for a key without its floor.
    pub fn without_floor(id: EngineRequestId, key: Bytes) -> Self {
        Self {
            id,
            keys: smallvec![key],
            has_floors: false,
        }
    }
}

/// A handle to the thread of an engine, to find out whether the thread is stuck. It does not keep the thread running.
#[derive(Debug, Clone)]
pub struct EngineThread(mpsc::Sender<oneshot::Sender<()>>);

impl EngineThread {
    /// Completes once the thread has had a turn; `false` if the thread has ended.
    ///
    /// Cancel safe.
    pub async fn responds(&self) -> bool {
        let (reply, answer) = oneshot::channel();
        self.0.send(reply).await.is_ok() && answer.await.is_ok()
    }
}

/// Answers all handles of the thread.
async fn answer_probes(mut probes: mpsc::Receiver<oneshot::Sender<()>>) -> Infallible {
    while let Some(reply) = probes.recv().await {
        // The caller may have given up.
        let _ = reply.send(());
    }
    std::future::pending().await
}

/// Number of requests that are sent at once, even if more may follow soon.
const MAX_BUFFERED: usize = 16;

/// The connection to the thread of an engine. The thread ends when this is dropped.
#[derive(Debug)]
pub struct ThreadLink {
    engine: &'static str,
    requests: mpsc::UnboundedSender<(EngineRequestId, EngineRequest)>,
    /// Requests to be sent.
    buffered: Vec<(EngineRequestId, EngineRequest)>,
    events: mpsc::UnboundedReceiver<EngineEvent>,
    /// Events that [`poll_events`](Link::poll_events) has found, and the answers in place of a thread that has ended.
    received: VecDeque<EngineEvent>,
    has_ended: bool,
    store_secret: Vec<u8>,
    sends_once: bool,
    counts_revisions: bool,
    thread: EngineThread,
}

impl ThreadLink {
    /// Starts a thread that runs `begin` and, if that succeeds, `work`, which runs until the link is dropped.
    ///
    /// # Errors
    /// `begin` failed, or the thread could not be started.
    pub async fn start<Begun, Error, Beginning, Working>(
        engine: &'static str,
        begin: impl FnOnce() -> Beginning + Send + 'static,
        work: impl FnOnce(Begun, ThreadChannels) -> Working + Send + 'static,
    ) -> Result<Self, Error>
    where
        Error: From<std::io::Error> + Send + 'static,
        Begun: StoreSecret,
        Beginning: Future<Output = Result<Begun, Error>>,
        Working: Future<Output = ()>,
    {
        let (requests, request_receiver) = mpsc::unbounded_channel();
        let (events, event_receiver) = mpsc::unbounded_channel();
        let (report, started) = oneshot::channel();
        let (thread, probes) = mpsc::channel(1);
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
                                let channels = ThreadChannels {
                                    requests: request_receiver,
                                    events,
                                };
                                tokio::select! {
                                    biased;
                                    () = work(found, channels) => {}
                                    never = answer_probes(probes) => match never {},
                                }
                            }
                        }
                    }
                });
            })?;
        let ended = |_| std::io::Error::other("it has ended");
        let store_secret = started.await.map_err(ended)??;
        Ok(Self {
            engine,
            requests,
            buffered: Vec::new(),
            events: event_receiver,
            received: VecDeque::new(),
            has_ended: false,
            store_secret,
            sends_once: false,
            counts_revisions: false,
            thread: EngineThread(thread),
        })
    }
}

/// Returns the answer to a request that was rejected with this error, or not sent if there is none.
pub fn failure_event(
    id: EngineRequestId,
    request: &EngineRequest,
    error: Option<EngineError>,
) -> EngineEvent {
    match request {
        EngineRequest::Read(_) | EngineRequest::ReadRecord(_) | EngineRequest::ReadRecords(_) => {
            EngineEvent::Read(id, Err(error))
        }
        EngineRequest::Revision => EngineEvent::Revision(id, Err(error)),
        EngineRequest::Commit(_) => EngineEvent::Committed(
            id,
            error.map_or(CommitOutcome::NotSent, CommitOutcome::Failed),
        ),
        EngineRequest::Page { .. } => EngineEvent::Page(id, Err(error)),
        EngineRequest::Watch => EngineEvent::WatchLost(id, error),
        EngineRequest::Clocks { .. } => EngineEvent::Clocks(id, Err(error)),
    }
}

impl ThreadLink {
    /// Returns a handle to the thread.
    pub fn thread(&self) -> EngineThread {
        self.thread.clone()
    }

    /// Declares that commits are never resent on the way.
    #[must_use]
    pub fn sending_once(mut self) -> Self {
        self.sends_once = true;
        self
    }

    /// Declares that only changes have revisions.
    #[must_use]
    pub fn counting_revisions(mut self) -> Self {
        self.counts_revisions = true;
        self
    }
}

impl Link for ThreadLink {
    fn store_secret(&self) -> &[u8] {
        &self.store_secret
    }

    fn request(&mut self, id: EngineRequestId, request: EngineRequest) {
        self.buffered.push((id, request));
        if self.buffered.len() >= MAX_BUFFERED {
            self.flush();
        }
    }

    fn buffered(&self) -> usize {
        self.buffered.len()
    }

    fn flush(&mut self) {
        for next in self.buffered.drain(..) {
            let Err(unsent) = self.requests.send(next) else {
                continue;
            };
            if !std::mem::replace(&mut self.has_ended, true) {
                tracing::error!(
                    "the thread that talks to {} has ended: this is a bug, please report it",
                    self.engine
                );
            }
            let (id, request) = unsent.0;
            self.received.push_back(failure_event(id, &request, None));
        }
    }

    fn next_event(&mut self) -> Option<EngineEvent> {
        self.received
            .pop_front()
            .or_else(|| self.events.try_recv().ok())
    }

    fn sends_once(&self) -> bool {
        self.sends_once
    }

    fn counts_revisions(&self) -> bool {
        self.counts_revisions
    }

    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.received.is_empty() {
            return Poll::Ready(());
        }
        match self.events.poll_recv(context) {
            Poll::Ready(Some(event)) => {
                self.received.push_back(event);
                Poll::Ready(())
            }
            // The thread has ended: no more events follow.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
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

    struct RecordingStore(mpsc::UnboundedSender<EngineRequestId>);

    impl StoreSecret for RecordingStore {
        fn store_secret(&self) -> &[u8] {
            b"secret"
        }
    }

    /// Creates a link to an engine that loses each watch. Returns it with the requests that the engine received.
    async fn link() -> (ThreadLink, mpsc::UnboundedReceiver<EngineRequestId>) {
        let (note, noted) = mpsc::unbounded_channel();
        let begin = || async { Ok::<_, Failure>(RecordingStore(note)) };
        let work = |RecordingStore(note): RecordingStore, mut ends: ThreadChannels| async move {
            while let Some((id, _)) = ends.requests.recv().await {
                let _ = note.send(id);
                let _ = ends.events.send(EngineEvent::WatchLost(id, None));
            }
        };
        let link = ThreadLink::start("test", begin, work).await;
        (link.unwrap(), noted)
    }

    #[tokio::test]
    async fn a_stuck_thread_does_not_respond() {
        let (unblock, blocked) = std::sync::mpsc::channel::<()>();
        let begin = || async {
            let (note, _) = mpsc::unbounded_channel();
            Ok::<_, Failure>(RecordingStore(note))
        };
        let work = |_, mut ends: ThreadChannels| async move {
            let _ = ends.requests.recv().await;
            let _ = ends
                .events
                .send(EngineEvent::WatchLost(EngineRequestId(0), None));
            // Blocks the thread until the test ends the channel.
            let _ = blocked.recv();
            while ends.requests.recv().await.is_some() {}
        };
        let mut link = ThreadLink::start("test", begin, work).await.unwrap();
        let thread = link.thread();
        assert!(thread.responds().await);
        link.request(EngineRequestId(1), EngineRequest::Watch);
        link.flush();
        std::future::poll_fn(|context| link.poll_events(context)).await;
        let mut response = std::pin::pin!(thread.responds());
        for _ in 0..100 {
            tokio::select! {
                biased;
                _ = &mut response => panic!("a blocked thread has responded"),
                () = tokio::task::yield_now() => {}
            }
        }
        drop(unblock);
        assert!(response.await);
        drop(link);
        while thread.responds().await {}
    }

    #[tokio::test]
    async fn buffered_requests_are_sent_together() {
        let (mut link, mut noted) = link().await;
        link.request(EngineRequestId(1), EngineRequest::Watch);
        link.request(EngineRequestId(2), EngineRequest::Watch);
        assert_eq!(link.buffered(), 2);
        assert!(noted.is_empty());
        link.flush();
        assert_eq!(link.buffered(), 0);
        assert_eq!(noted.recv().await, Some(EngineRequestId(1)));
        assert_eq!(noted.recv().await, Some(EngineRequestId(2)));
    }

    #[tokio::test]
    async fn a_full_buffer_is_sent_without_a_flush() {
        let (mut link, mut noted) = link().await;
        for number in 0..=MAX_BUFFERED as u64 {
            link.request(EngineRequestId(number), EngineRequest::Watch);
        }
        assert_eq!(link.buffered(), 1);
        for number in 0..MAX_BUFFERED as u64 {
            assert_eq!(noted.recv().await, Some(EngineRequestId(number)));
        }
        assert!(noted.is_empty());
    }
}
