//! etcd as the engine: names and values of its keys, transactions, and the watch.
//!
//! One thread of its own has the connection; the keyspace talks to it through channels. Commits that wait while others are under
//! way go in one transaction of nested ones, each with its own compares and its own refusal.
//!
//! | key | value |
//! |---|---|
//! | `PREFIX/m` | format of all of this |
//! | `PREFIX/e/BUCKET/KEY` | a [record](super::Record) |
//! | `PREFIX/x` | nothing: left by a server that found another store where its own was |
//! | `PREFIX/f/BUCKET` | wall clock and counter of the [floor](super::Place::Floor), 16 bytes |
//!
//! A bucket is four hexadecimal digits. All floors exist from the first start on: without one, data is missing, and nothing is
//! answered.
mod connecting;
mod names;
mod releases;
mod store;
mod transactions;
mod watch;
mod worker;

use super::{Ask, AskId, Link, News, Verdict};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long one request may take before its outcome counts as unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes of a message that is read: a group of commits, or a page of a snapshot.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Where an etcd is, and which of its keys are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `http://host:port` of the members.
    pub endpoints: Vec<String>,
    /// What all keys begin with, without the last `/`.
    pub prefix: String,
    /// What TLS is made of, for endpoints that begin with `https`.
    pub tls: Option<EtcdTls>,
    /// Which of its users the server is, and the file that holds the password.
    pub user: Option<(String, PathBuf)>,
}

/// The files that TLS to an etcd is made of, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EtcdTls {
    /// The authorities that sign its certificates; without, those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that the server shows, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why an etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// It cannot be reached.
    #[error("etcd at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// It refuses.
    #[error("etcd at {0} refuses: {1}")]
    Refused(String, String),
    /// A file cannot be used.
    #[error("cannot read {0:?}: {1}")]
    File(PathBuf, std::io::Error),
    /// It does not answer in time.
    #[error("etcd at {0} does not answer within {1:?}")]
    TimedOut(String, Duration),
    /// The keys below the prefix are not what this program writes.
    #[error("etcd at {0} holds something else below the prefix: {1}")]
    Foreign(String, String),
    /// A member is of a release that cannot be used.
    #[error("etcd at {0} is of the release {1}: {2}")]
    Release(String, String, &'static str),
    /// No thread could be started.
    #[error("cannot start the thread that talks to etcd: {0}")]
    Thread(std::io::Error),
}

/// The way to an etcd, whose thread ends when this is dropped.
#[derive(Debug)]
pub struct EtcdLink {
    asks: mpsc::UnboundedSender<(AskId, Ask)>,
    news: mpsc::UnboundedReceiver<News>,
    /// What [`poll_news`](Link::poll_news) has found, and what a thread that has ended does not answer.
    next: VecDeque<News>,
    is_dead: bool,
}

impl EtcdLink {
    /// Connects, and makes what has to be there at the first start.
    ///
    /// # Errors
    /// It does not answer, or holds something else.
    pub async fn connect(config: EtcdConfig) -> Result<Self, EtcdError> {
        let (asks, asked) = mpsc::unbounded_channel();
        let (tell, news) = mpsc::unbounded_channel();
        let (report, started) = oneshot::channel();
        std::thread::Builder::new()
            .name("etcd".into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        // Who waited may have given up.
                        let _ = report.send(Err(EtcdError::Thread(error)));
                        return;
                    }
                };
                runtime.block_on(async {
                    match connecting::begin(&config).await {
                        Err(error) => drop(report.send(Err(error))),
                        Ok((client, store)) => {
                            if report.send(Ok(())).is_ok() {
                                worker::work(client, store, asked, tell).await;
                            }
                        }
                    }
                });
            })
            .map_err(EtcdError::Thread)?;
        let ended = |_| EtcdError::Thread(std::io::Error::other("it has ended"));
        started.await.map_err(ended)??;
        Ok(Self {
            asks,
            news,
            next: VecDeque::new(),
            is_dead: false,
        })
    }
}

impl Link for EtcdLink {
    fn ask(&mut self, id: AskId, ask: Ask) {
        let Err(unsent) = self.asks.send((id, ask)) else {
            return;
        };
        if !std::mem::replace(&mut self.is_dead, true) {
            tracing::error!(
                "the thread that talks to etcd has ended: this is a bug, please report it"
            );
        }
        let (id, ask) = unsent.0;
        self.next.push_back(match ask {
            Ask::Read(_) => News::Read(id, Err(None)),
            Ask::Commit(_) => News::Committed(id, Verdict::Unclear),
            Ask::Page { .. } => News::Page(id, Err(None)),
            Ask::Watch => News::WatchLost(id, None),
        });
    }

    fn news(&mut self) -> Option<News> {
        self.next.pop_front().or_else(|| self.news.try_recv().ok())
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
            // Its thread has ended: there is nothing more to come.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
