//! A client process.
use crate::clock;
use crate::peer_line::PeerLine;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::sleep;

/// The result of a call.
#[derive(Debug)]
pub enum PeerReply {
    /// The answer of the client.
    Line(Box<PeerLine>),
    /// The process ended before it answered. The call began at this time.
    Lost(u64),
}

type PendingCalls = RefCell<HashMap<u64, oneshot::Sender<PeerLine>>>;

/// State that the reader of a process shares with its callers.
#[derive(Debug, Default)]
struct PeerState {
    pending: PendingCalls,
    observers: RefCell<HashMap<u64, mpsc::UnboundedSender<PeerLine>>>,
    has_ended: Cell<bool>,
    /// An invalid line of the process.
    invalid_line: RefCell<Option<String>>,
}

/// The process. Dropping this kills it.
#[derive(Debug)]
pub struct Peer {
    child: RefCell<Child>,
    pid: Pid,
    input: mpsc::UnboundedSender<String>,
    shared: Rc<PeerState>,
    next: Cell<u64>,
    is_paused: Cell<bool>,
}

impl Peer {
    /// Starts the process. Its standard error is shown.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (input, mut lines) = mpsc::unbounded_channel::<String>();
        let mut stdin = child.stdin.take().unwrap();
        spawn_local(async move {
            while let Some(line) = lines.recv().await {
                // The process may have been killed.
                if stdin.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let shared = Rc::new(PeerState::default());
        let told = BufReader::new(child.stdout.take().unwrap()).lines();
        spawn_local(listen(told, Rc::clone(&shared)));
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        Self {
            child: RefCell::new(child),
            pid,
            input,
            shared,
            next: Cell::new(0),
            is_paused: Cell::new(false),
        }
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the output of the process has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended.get()
    }

    /// Takes an invalid line of the process.
    pub fn take_invalid_line(&self) -> Option<String> {
        self.shared.invalid_line.borrow_mut().take()
    }

    fn send(&self, words: &str) -> u64 {
        let id = self.next.get();
        self.next.set(id + 1);
        // The process may have ended.
        let _ = self.input.send(format!("{id} {words}\n"));
        id
    }

    /// Sends a command, and waits for the answer.
    pub async fn call(&self, words: &str) -> PeerReply {
        let from = clock::now();
        let (sender, answer) = oneshot::channel();
        if self.has_ended() {
            return PeerReply::Lost(from);
        }
        let id = self.send(words);
        self.shared.pending.borrow_mut().insert(id, sender);
        match answer.await {
            Ok(line) => PeerReply::Line(Box::new(line)),
            Err(_) => PeerReply::Lost(from),
        }
    }

    /// Creates an observer; its lines come on the channel until the process or the observer ends. Returns `None` if that failed.
    /// The number is for `forget`.
    pub async fn observe(
        &self,
        client: usize,
        key: &str,
    ) -> Option<(u64, mpsc::UnboundedReceiver<PeerLine>)> {
        let (sender, told) = mpsc::unbounded_channel();
        // A line of the observer may arrive before the answer is read.
        let id = self.next.get();
        self.shared.observers.borrow_mut().insert(id, sender);
        match self.call(&format!("observe {client} {key}")).await {
            PeerReply::Line(line) if line.told == "observing" => Some((id, told)),
            _ => {
                self.shared.observers.borrow_mut().remove(&id);
                None
            }
        }
    }

    /// Stops the process until it is continued.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        self.is_paused.set(true);
    }

    /// Continues the process.
    pub fn resume(&self) {
        if self.is_paused.replace(false) {
            self.signal(Signal::CONT);
        }
    }

    /// Kills the process, and waits for the end of its output.
    pub async fn kill(&self) {
        // The process may have ended by itself.
        let _ = self.child.borrow_mut().start_kill();
        while !self.has_ended() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn signal(&self, signal: Signal) {
        // The process may have ended.
        let _ = kill_process(self.pid, signal);
    }
}

async fn listen(
    mut lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    shared: Rc<PeerState>,
) {
    while let Ok(Some(text)) = lines.next_line().await {
        match serde_json::from_str::<PeerLine>(&text) {
            Ok(line) => {
                if let Some(id) = line.observes {
                    if let Some(observer) = shared.observers.borrow().get(&id) {
                        // The receiver may be gone.
                        let _ = observer.send(line);
                    }
                    continue;
                }
                let waiting = line
                    .id
                    .and_then(|id| shared.pending.borrow_mut().remove(&id));
                match waiting {
                    // The call may have been cancelled.
                    Some(waiting) => _ = waiting.send(line),
                    None => {
                        *shared.invalid_line.borrow_mut() =
                            Some(format!("answered what nobody asked: {text}"));
                    }
                }
            }
            Err(error) => {
                *shared.invalid_line.borrow_mut() = Some(format!("{error}: {text}"));
            }
        }
    }
    shared.has_ended.set(true);
    shared.pending.borrow_mut().clear();
    shared.observers.borrow_mut().clear();
}
