//! The seat of a client process: its proxies to the server stay, while processes are replaced.
use crate::disk::Disk;
use crate::failure_log::FailureLog;
use crate::peer::{Peer, PeerReply};
use crate::peer_line::PeerLine;
use crate::programs::{Language, Programs};
use crate::server::Server;
use harness::proxy::Proxy;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Number of clients of a process: the first without TLS, the second with.
pub const CLIENTS: usize = 2;

/// Upper bound of any call: the timeout of the clients, the longest pause, and as much again for a busy machine.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// A seat: the processes of a client, one after the other, and their surroundings.
#[derive(Debug)]
pub struct ClientSlot {
    /// Number of the seat.
    pub number: usize,
    /// Language of the processes.
    pub language: Language,
    programs: Programs,
    authority: PathBuf,
    /// The clock of its processes.
    pub clock: Disk,
    /// Proxies to the server, in the order of [`CLIENTS`].
    pub proxies: Vec<Proxy>,
    peer: RefCell<Rc<Peer>>,
}

impl ClientSlot {
    /// Starts the first process, and connects its clients.
    pub async fn new(
        number: usize,
        language: Language,
        programs: &Programs,
        server: &Server,
        authority: PathBuf,
    ) -> Self {
        let clock = Disk::new(&programs.disk);
        let mut ways = Vec::new();
        for address in server.addresses() {
            ways.push(Proxy::start(address).await);
        }
        let peer = RefCell::new(start(language, programs, &clock));
        let seat = Self {
            number,
            language,
            programs: programs.clone(),
            authority,
            clock,
            proxies: ways,
            peer,
        };
        seat.connect(&seat.peer()).await;
        assert!(
            !seat.peer().has_ended(),
            "the client in {language:?} does not begin"
        );
        seat
    }

    /// Returns the current process.
    pub fn peer(&self) -> Rc<Peer> {
        Rc::clone(&self.peer.borrow())
    }

    /// Points the proxies to the server.
    pub fn retarget(&self, server: &Server) {
        for (way, address) in self.proxies.iter().zip(server.addresses()) {
            way.set_upstream(address);
        }
    }

    /// Starts another process after the previous one was killed, and connects its clients.
    pub async fn replace(&self) {
        let peer = start(self.language, &self.programs, &self.clock);
        self.connect(&peer).await;
        *self.peer.borrow_mut() = peer;
    }

    /// Connects the clients of a new process; each retries until it succeeds.
    async fn connect(&self, peer: &Peer) {
        for (client, way) in self.proxies.iter().enumerate() {
            let (scheme, authority) = match client {
                0 => ("mqtt", "-".into()),
                _ => ("mqtts", self.authority.display().to_string()),
            };
            let address = way.address();
            let words = format!("connect {client} {scheme}://{address} {authority}");
            loop {
                match peer.call(&words).await {
                    PeerReply::Line(line) if line.told == "connected" => break,
                    PeerReply::Line(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    PeerReply::Lost(_) => return,
                }
            }
        }
    }

    /// Sends a command to a client. Returns `None` and the start time if the process was killed meanwhile.
    pub async fn call(
        &self,
        findings: &FailureLog,
        verb: &str,
        client: usize,
        arguments: &str,
    ) -> Result<PeerLine, u64> {
        let peer = self.peer();
        let words = format!("{verb} {client} {arguments}");
        let Ok(answer) = tokio::time::timeout(CALL_LIMIT, peer.call(&words)).await else {
            findings.add(format!("{:?}: no end of `{words}`", self.language));
            return std::future::pending().await;
        };
        match answer {
            PeerReply::Line(line) => Ok(*line),
            PeerReply::Lost(from) => Err(from),
        }
    }
}

fn start(language: Language, programs: &Programs, clock: &Disk) -> Rc<Peer> {
    let mut command = programs.client(language);
    command.envs(clock.environment());
    Rc::new(Peer::start(&mut command))
}
