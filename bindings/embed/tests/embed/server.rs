//! A server and clients of it.
use statestore::Settings;
use statestore_embed::{Client, Error, Mailbox, WaitOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn start() -> RunningServer {
    RunningServer::start(Config::in_memory()).unwrap()
}

pub(crate) fn settings(server: &RunningServer) -> Settings {
    Settings::from_url(&server.url()).unwrap()
}

pub(crate) fn connect(server: &RunningServer) -> Client {
    let client = Client::new(settings(server)).unwrap();
    wait(&client, client.connect()).unwrap();
    client
}

/// Waits on this thread.
pub(crate) fn wait<T: Send>(
    client: &Client,
    future: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, Error> {
    client
        .wait("a test", future, WaitOptions::default())
        .map_err(|stopped| stopped.into_error("a test"))
}

pub(crate) fn close(client: &Client) {
    client.close(WaitOptions::default()).unwrap();
}

/// A mailbox whose items are read from a channel.
pub(crate) struct Inbox<T> {
    pub(crate) mailbox: Arc<Mailbox<T>>,
    woken: Receiver<()>,
    taken: Mutex<Vec<T>>,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        let (wake, woken) = channel();
        Self {
            // The test may be over.
            mailbox: Mailbox::new(move || wake.send(()).unwrap_or_default()),
            woken,
            taken: Mutex::new(Vec::new()),
        }
    }

    /// The next item.
    pub(crate) fn next(&self) -> T {
        loop {
            let mut taken = self.taken.lock().unwrap();
            if !taken.is_empty() {
                return taken.remove(0);
            }
            self.mailbox.drain(usize::MAX, |item| taken.push(item));
            if taken.is_empty() {
                drop(taken);
                self.woken.recv_timeout(PATIENCE).unwrap();
            }
        }
    }

    /// How often the hook was called since this was asked last.
    pub(crate) fn wake_ups(&self) -> usize {
        self.woken.try_iter().count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken.lock().unwrap().is_empty() && self.mailbox.is_empty()
    }
}
