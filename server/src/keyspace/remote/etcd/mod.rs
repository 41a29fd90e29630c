//! etcd as the engine: names and values of its keys, transactions, and the watch.
//!
//! One thread of its own has the connection; the keyspace talks to it through channels. Commits that wait while others are under
//! way go in one transaction of nested ones, each with its own compares and its own refusal.
//!
//! | key | value |
//! |---|---|
//! | `PREFIX/m` | format of all of this |
//! | `PREFIX/e/BUCKET/KEY` | a [record](super::Record) |
//! | `PREFIX/f/BUCKET` | wall clock and counter of the [floor](super::Place::Floor), 16 bytes |
//!
//! A bucket is four hexadecimal digits. All floors exist from the first start on: without one, data is missing, and nothing is
//! answered.
mod names;
mod transactions;
mod watch;
mod worker;

use super::{Ask, AskId, Link, News};
use etcd_client::{Client, ConnectOptions};
use names::Names;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long one request may take before its outcome counts as unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the first answer may take.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of a message that is read: a group of commits, or a page of a snapshot.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Where an etcd is, and which of its keys are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `http://host:port` of the members.
    pub endpoints: Vec<String>,
    /// What all keys begin with, without the last `/`.
    pub prefix: String,
}

/// Why an etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// It does not answer, or refuses.
    #[error("etcd at {0}: {1}")]
    Unreachable(String, String),
    /// It does not answer in time.
    #[error("etcd at {0} does not answer within {1:?}")]
    TimedOut(String, Duration),
    /// The keys below the prefix are not what this program writes.
    #[error("etcd at {0} holds something else below the prefix: {1}")]
    Foreign(String, String),
    /// No thread could be started.
    #[error("cannot start the thread that talks to etcd: {0}")]
    Thread(std::io::Error),
}

/// The way to an etcd, whose thread ends when this is dropped.
#[derive(Debug)]
pub struct EtcdLink {
    asks: mpsc::UnboundedSender<(AskId, Ask)>,
    news: mpsc::UnboundedReceiver<News>,
    /// What [`poll_news`](Link::poll_news) has found.
    next: Option<News>,
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
                    match begin(&config).await {
                        Err(error) => drop(report.send(Err(error))),
                        Ok((client, names)) => {
                            if report.send(Ok(())).is_ok() {
                                worker::work(client, names, asked, tell).await;
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
            next: None,
        })
    }
}

async fn begin(config: &EtcdConfig) -> Result<(Client, Arc<Names>), EtcdError> {
    let place = config.endpoints.join(",");
    let options = ConnectOptions::new()
        .with_connect_timeout(REQUEST_TIMEOUT)
        .with_keep_alive(Duration::from_secs(5), Duration::from_secs(5))
        .with_keep_alive_while_idle(true)
        .with_require_leader(true);
    let names = Arc::new(Names::new(&config.prefix));
    let connecting = async {
        let mut client = Client::connect(&config.endpoints, Some(options))
            .await
            .map_err(|error| EtcdError::Unreachable(place.clone(), error.to_string()))?;
        transactions::initialise(&mut client, &names)
            .await
            .map_err(|error| match error {
                transactions::BeginError::Etcd(error) => {
                    EtcdError::Unreachable(place.clone(), error.to_string())
                }
                transactions::BeginError::Foreign(what) => EtcdError::Foreign(place.clone(), what),
            })?;
        Ok(client)
    };
    let client = tokio::time::timeout(START_TIMEOUT, connecting)
        .await
        .map_err(|_| EtcdError::TimedOut(place.clone(), START_TIMEOUT))??;
    Ok((client, names))
}

impl Link for EtcdLink {
    fn ask(&mut self, id: AskId, ask: Ask) {
        // Without a thread there are no answers, and all requests end by their deadlines.
        let _ = self.asks.send((id, ask));
    }

    fn news(&mut self) -> Option<News> {
        self.next.take().or_else(|| self.news.try_recv().ok())
    }

    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.next.is_some() {
            return Poll::Ready(());
        }
        match self.news.poll_recv(context) {
            Poll::Ready(Some(news)) => {
                self.next = Some(news);
                Poll::Ready(())
            }
            // Its thread has ended: there is nothing more to come.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
